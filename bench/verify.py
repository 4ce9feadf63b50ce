"""Looking: how long `verify` and SQL over the tables take, and how much memory, on a lake of 2,000,000 events.

The lake is sound: 20 events, 6 steps and 1 reward a run, one commit for 50,000 events. Each figure is taken in a
process of its own, so that making the lake is not in its memory.

    python -m bench verify
    python -m bench.verify [--events N] [--root DIR]      another size, or a lake that is kept
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
import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake

from bench.figures import Figure, show
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake, transaction_app

EVENTS = 2_000_000
TOPIC = "agent.audit.v1"
PARTITIONS = 4
RUN_EVENTS = 20
RUN_STEPS = 6
BATCH_RUNS = 2500
TYPES = ["agent.run.started", *["agent.model.responded", "agent.tool.called", "agent.tool.returned"] * RUN_STEPS]
TEXT = json.dumps({"specversion": "1.0", "data": {"message": "x" * 520}})
MEMORY_MB = 1024

QUERIES = {
    "query_group_by_steps": "SELECT skill_name, count(*), sum(input_tokens) FROM steps GROUP BY ALL",
    "query_current_steps": "SELECT skill_name, count(*) FROM current_steps GROUP BY ALL",
}
VERIFY = """
report = verify(lake, "trajlake-land")
assert report.ok, report.problems
"""
QUERY = """
with run_query(lake, {sql!r}) as result:
    assert result.read_all().num_rows
"""
PROCESS = """
import json, resource, time
from trajlake.reading.query import run_query
from trajlake.reading.tables import open_lake
from trajlake.verification.verify import verify
lake = open_lake({root!r}, storage_options={{}})
began = time.perf_counter()
{work}
print(json.dumps([time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def main(events: int = EVENTS, root: Path | None = None) -> None:
    with tempfile.TemporaryDirectory(prefix="trajlake-bench-") as folder:
        place = root or Path(folder) / "lake"
        if not place.exists():
            write_lake(place, events)
        seconds, peak_mb = measure(place, VERIFY)
        detail = {"events": events, "seconds": round(seconds, 2)}
        show(Figure("verify_events_per_s", round(events / seconds), "events/s", detail=detail))
        show(Figure("verify_peak_memory", round(peak_mb), "MiB", at_most=MEMORY_MB, detail={"events": events}))
        for name, sql in QUERIES.items():
            seconds, peak_mb = measure(place, QUERY.format(sql=sql))
            detail = {"steps": events // RUN_EVENTS * RUN_STEPS, "peak_mb": round(peak_mb)}
            show(Figure(name, round(seconds * 1000), "ms", detail=detail))


def measure(root: Path, work: str) -> tuple[float, float]:
    """Seconds that the work takes in a fresh process, and the most memory that the process held, MiB."""
    code = PROCESS.format(root=str(root), work=work)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak_mb = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak_mb


def write_lake(root: Path, events: int) -> None:
    """A sound lake of about so many events."""
    lake = Lake(str(root))
    next_offset = [0] * PARTITIONS
    for batch, first_run in enumerate(range(0, max(1, events // RUN_EVENTS), BATCH_RUNS)):
        partition = batch % PARTITIONS
        first = next_offset[partition]
        next_offset[partition] += BATCH_RUNS * RUN_EVENTS
        runs = np.arange(first_run, first_run + BATCH_RUNS)
        for name, columns in batch_columns(runs, partition, first).items():
            note = Transaction(transaction_app("trajlake-land", TOPIC, partition), next_offset[partition] - 1)
            properties = CommitProperties(app_transactions=[note])
            write_deltalake(lake.table_uri(name), filled(name, columns), mode="append", commit_properties=properties)


def batch_columns(runs: np.ndarray, partition: int, first: int) -> dict[str, dict[str, Any]]:
    """Columns by table of one batch of whole runs, in commit order. Runs do not interleave."""
    count = len(runs)
    starts = first + np.arange(count) * RUN_EVENTS
    place: dict[str, Any] = {"topic": TOPIC, "partition": partition, "tenant_id": "acme"}
    names = np.array([f"run-{run:09d}" for run in runs])
    kinds = [*TYPES[: RUN_EVENTS - 2], "agent.reward.assigned", "agent.run.ended"]
    sequences = [*range(1, RUN_EVENTS - 1), None, RUN_EVENTS - 1]
    step = np.tile(np.arange(1, RUN_STEPS + 1), count)
    opened = np.repeat(starts, RUN_STEPS) + 1 + (step - 1) * 3
    ended = np.where(step == RUN_STEPS, np.repeat(starts, RUN_STEPS) + RUN_EVENTS - 1, opened + 3)
    calls = [f"call-{offset}" for offset in opened]
    skills = np.array([f"skill-{run % 40}" for run in runs])
    return {
        "quarantine": place | {"offset": []},
        "gaps": {"topic": TOPIC, "partition": partition, "offset": []},
        "rewards": place | {
            "run_id": names, "reward_id": np.char.add(names, "-reward"), "offset": starts + RUN_EVENTS - 2,
            "name": "reward", "annotator_kind": "code", "late": False,
        },
        "steps": place | {
            "run_id": np.repeat(names, RUN_STEPS), "step_index": step, "step_id": step.astype(str), "revision": 0,
            "offset": ended, "first_offset": opened, "source": "agent", "skill_name": np.repeat(skills, RUN_STEPS),
            "input_tokens": 100, "is_last": step == RUN_STEPS, "is_first": step == 1, "context_segment": 0,
            "tool_calls": [[{"tool_call_id": call, "function_name": "shell", "arguments": "{}"}] for call in calls],
            "observations": [[{"source_call_id": call, "content": "x" * 200}] for call in calls],
        },
        "runs": place | {
            "run_id": names, "revision": 0, "offset": starts + RUN_EVENTS - 1, "first_offset": starts,
            "event_count": RUN_EVENTS, "step_count": RUN_STEPS, "skill_name": skills, "has_start": True,
        },
        "events": place | {
            "offset": np.arange(first, first + count * RUN_EVENTS), "run_id": np.repeat(names, RUN_EVENTS),
            "id": [f"{name}-{i}" for name in names for i in range(RUN_EVENTS)], "type": kinds * count,
            "sequence": sequences * count, "event": TEXT, "source": "bench",
        },
    }  # fmt: skip


def filled(name: str, columns: dict[str, Any]) -> pa.Table:
    """Columns as a table of the contract: scalars are repeated, required columns without a value get a neutral one."""
    rows = len(columns["offset"])
    neutral = {pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.string(): ""}
    arrays = []
    for column in TABLES[name].schema:
        value = columns.get(column.name)
        if value is None and not column.nullable:
            value = neutral.get(column.type, 0)
        if value is None:
            arrays.append(pa.nulls(rows, column.type))
        elif isinstance(value, (list, np.ndarray)):
            arrays.append(pa.array(value, column.type))
        else:
            arrays.append(pa.array([value], column.type).take(pa.array(np.zeros(rows, np.int64))))
    return pa.table(arrays, schema=TABLES[name].schema)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--root", type=Path)
    main(**vars(parser.parse_args()))
