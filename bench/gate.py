"""Cost of the shipped quality rules in the land path, and of a checkpoint.

Row rules: processor time of `RowGate.mark` on the record batches that one commit makes, all threads included, per event
of the batch; the batches are made beforehand. Refusing: what a critical rule on events adds to the fold, which no
shipped suite has. Checkpoint: wall time of `run_checkpoint` with the shipped suite on a batch of 1,000 runs, after
Great Expectations was imported.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import polars as pl

from bench.figures import Figure, show
from bench.traffic import interleaved
from trajlake.expectations.suites.suite import load_suites, read_suite
from trajlake.streams.checkpoints.checkpoint import import_great_expectations, run_checkpoint
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.gate.batchframe import baseline_of, batch_frame
from trajlake.transforms.gate.rowgate import compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

RUNS = 3_000
AT_ONCE = 2_000
ROUNDS = 9
AT_MOST_US = 1.0


def main() -> None:
    gate = compile_gate(load_suites())
    rules = LandRules(row_rules=gate)
    pairs = enumerate(interleaved(RUNS, AT_ONCE))
    records = [Record(offset, 1_767_225_600_000_000 + offset, key, value) for offset, (key, value) in pairs]
    landing = PartitionFold("bench", 0, rules).fold(records)
    tables = batches(landing, rules.revision, rules.payload_inline_max_bytes)
    marked = gate.mark(tables)
    costs = _rounds(lambda: gate.mark(tables))
    per_event = statistics.median(costs) / len(records) * 1e6
    detail = {
        "events": len(records),
        "rules": sum(len(suite.rules) for suite in gate.suites.values()),
        "rows": {name: batch.num_rows for name, batch in marked.items()},
        "rounds": [round(cost / len(records) * 1e6, 3) for cost in costs],
    }
    show(Figure("row_rules_us_per_event", round(per_event, 3), "µs CPU", at_most=AT_MOST_US, detail=detail))
    plain, refusing = (_fold_cost(rules, records) for rules in (LandRules(), _refusing()))
    show(Figure("refusing_rule_us_per_event", round((refusing - plain) / len(records) * 1e6, 3), "µs CPU"))
    _checkpoint()


def _refusing() -> LandRules:
    """Land rules with one critical rule on events."""
    entry = {
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "source", "regex": "^urn:agent:"},
        "severity": "critical",
    }
    suite = read_suite(json.dumps({"name": "events", "expectations": [entry]}), "events")
    return LandRules(row_rules=compile_gate({"events": suite}))


def _fold_cost(rules: LandRules, records: list[Record]) -> float:
    return statistics.median(_rounds(lambda: PartitionFold("bench", 0, rules).fold(records), 3))


def _rounds(work: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Processor seconds of each round, after one that warms up."""
    work()
    costs = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        costs.append(time.process_time() - start)
    return costs


def _checkpoint(runs: int = 1_000) -> None:
    start = time.perf_counter()
    import_great_expectations()
    show(Figure("great_expectations_import_s", round(time.perf_counter() - start, 2), "s"))
    columns = {
        "tenant_id": "acme", "group_id": None, "skill_name": "s", "model_name": "m", "outcome_class": "success",
        "end_state": "completed", "end_inferred": False, "has_start": True, "step_count": 3, "tool_call_count": 3,
        "tool_error_count": 0, "max_time_skew_ms": 1.0, "origin": None, "output": "an answer of some words",
    }  # fmt: skip
    frame = pl.DataFrame({"run_id": [f"r{n}" for n in range(runs)]}).with_columns(
        pl.lit(value, pl.String if value is None else None).alias(name) for name, value in columns.items()
    )
    batch = batch_frame(frame)
    suite, baseline = load_suites()["publication"], baseline_of(batch)
    run_checkpoint(batch, suite, baseline=baseline)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run_checkpoint(batch, suite, baseline=baseline)
        times.append(time.perf_counter() - start)
    detail = {"runs": runs, "rules": len(suite.expectations)}
    show(Figure("checkpoint_ms", round(statistics.median(times) * 1e3), "ms", detail=detail))
