"""Curation: steps published a second of one core's time, memory, and what a pass costs when the tables are large.

The lake holds runs of 6 steps and 1 reward, about 700 bytes of text a step; one commit for 15,000 steps. A pass is
measured in a process of its own, after Great Expectations was imported (a service imports it once).

    python -m bench curate
    python -m bench.curate [--steps N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import CommitProperties, Transaction, write_deltalake

from bench.figures import Figure, show
from bench.verify import BATCH_RUNS, PARTITIONS, RUN_EVENTS, RUN_STEPS, TOPIC, batch_columns, filled
from trajlake.sinks.lake import Lake, transaction_app

STEPS = 300_000
FLOOR = 40_000
MEMORY_MB = 1024
TEXT = "The agent looked at the invoice and compared its total with the order before it answered the customer. " * 3
PROCESS = """
import json, resource, sys, time
from trajlake.expectations.policies import policy_set, read_policies
from trajlake.expectations.suites.suite import PUBLICATION, load_suites
from trajlake.sinks.lake import Lake
from trajlake.streams.checkpoints.checkpoint import import_great_expectations
from trajlake.streams.curate.curator import Curator
from trajlake.streams.curate.rules import Rules
from trajlake.streams.curate.service import use_system_memory
import_great_expectations()
use_system_memory()
policies = policy_set([read_policies("bench.yaml", {policy!r})])
curator = Curator(Lake({root!r}), Rules(policies, load_suites()[PUBLICATION]))
def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before, began = spent(), time.perf_counter()
done = list(curator.run_once())
core_s, wall_s = spent() - before, time.perf_counter() - began
before = spent()
assert not list(curator.run_once())
idle_s = spent() - before
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([sum(one.steps for one in done), sum(one.held for one in done), core_s, wall_s, idle_s, peak_mb]))
"""
POLICY = """
version: 1
policies:
  - id: open
    purposes:
      train: {allow: true, declared: ignored, consent: if_subject, licences: any, annotators: any}
"""


def main(steps: int = STEPS) -> None:
    with tempfile.TemporaryDirectory(prefix="trajlake-bench-") as folder:
        root = Path(folder) / "lake"
        batches = max(2, steps // (BATCH_RUNS * RUN_STEPS))
        write(root, range(batches))
        published, held, core_s, wall_s, idle_s, peak_mb = measure(root)
        detail = {"steps": published, "held_runs": held, "core_s": round(core_s, 2), "wall_s": round(wall_s, 2)}
        show(Figure("curate_steps_per_core_s", round(published / core_s), "steps/s", floor=FLOOR, detail=detail))
        show(Figure("curate_peak_memory", round(peak_mb), "MiB", at_most=MEMORY_MB, detail={"steps": published}))
        show(Figure("curate_idle_pass", round(idle_s * 1000, 1), "ms", detail={"steps": published}))
        write(root, range(batches, batches + 1))
        added, _, core_s, _, _, _ = measure(root)
        detail = {"steps": added, "steps_before": published}
        show(Figure("curate_one_more_batch", round(added / core_s), "steps/s", detail=detail))


def measure(root: Path) -> list[float]:
    """Steps, held runs, core seconds, wall seconds, core seconds of an idle pass, and peak memory, MiB."""
    code = PROCESS.format(root=str(root), policy=POLICY)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return [float(value) for value in json.loads(done.stdout.splitlines()[-1])]


def write(root: Path, batches: range) -> None:
    """Whole runs, batch by batch, each partition in turn."""
    lake = Lake(str(root))
    for batch in batches:
        partition = batch % PARTITIONS
        first = batch // PARTITIONS * BATCH_RUNS * RUN_EVENTS
        runs = np.arange(batch * BATCH_RUNS, (batch + 1) * BATCH_RUNS)
        columns = batch_columns(runs, partition, first)
        count = len(columns["steps"]["offset"])
        columns["steps"] |= {"message": [f"{n} {TEXT}" for n in range(count)], "outcome_class": "success"}
        columns["steps"]["observations"] = [
            [{"source_call_id": f"call-{n}", "content": f"{TEXT} {n}"}] for n in range(count)
        ]
        columns["rewards"] |= {"score": 1.0}
        ends: dict[str, Any] = {"outcome_class": "success", "end_state": "completed", "output": TEXT, "model_name": "m"}
        columns["runs"] |= ends
        note = Transaction(transaction_app("trajlake-land", TOPIC, partition), first + BATCH_RUNS * RUN_EVENTS - 1)
        for name in ("rewards", "steps", "runs", "events"):
            properties = CommitProperties(app_transactions=[note])
            table = filled(name, columns[name])
            write_deltalake(lake.table_uri(name), table, mode="append", commit_properties=properties)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    main(**vars(parser.parse_args()))
