"""Runs that are folded again under the rules that they landed by come out as the rows that they have."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.landing.test_recovery import RULES, eventful
from tests.landkit.events import Sent, event, mixture, run_events
from tests.reclassify.lab import Partition, run_of, tick
from trajlake.expectations.events import kafka_key
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION
from trajlake.transforms.landing.rules import LandRules

OWN = {"offset", "revision", "close_offset"}
"""Columns in which a row that classifies again differs from the one that it replaces."""


def newest(rows: list[dict[str, Any]], *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The row that counts of each."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["revision"]):
        found[tuple(row[name] for name in key)] = row
    return found


def requests_for_all(partition: Partition) -> list[Sent]:
    """Requests to write every run anew with all its steps, whether or not it comes to something else."""
    steps = newest(partition.rows("steps"), "first_offset").values()
    sent = []
    for run in newest(partition.rows("runs"), "first_offset").values():
        closed = run["offset"] if run["close_offset"] is None else run["close_offset"]
        own = [
            {"step_index": step["step_index"], "revision": step["revision"]}
            for step in steps
            if step["run_id"] == run["run_id"] and run["first_offset"] <= step["first_offset"] <= closed
        ]
        data = {
            "classifier_revision": CLASSIFIER_REVISION, "first_offset": run["first_offset"], "offset": run["offset"],
            "revision": run["revision"], "steps": own, "seen": partition.owned.landed,
        }  # fmt: skip
        body = {
            "specversion": "1.0", "id": f"ask-{run['offset']}", "source": "trajlake/reclassify",
            "type": "trajlake.reclassify", "tenantid": run["tenant_id"], "runid": run["run_id"], "data": data,
        }  # fmt: skip
        sent.append(Sent(kafka_key(run["tenant_id"], run["run_id"]), orjson.dumps(body)))
    return sent


def assert_rewritten_as_they_were(partition: Partition) -> None:
    assert not [one for one in partition.judged() if one.finding is None or one.is_changed]
    # What comes again once its run is forgotten lands again, and is told.
    told = partition.verify().problems
    before = {name: newest(partition.rows(name), "first_offset") for name in ("runs", "steps")}
    partition.land(requests_for_all(partition))
    for name, was in before.items():
        now = newest(partition.rows(name), "first_offset")
        assert now.keys() == was.keys()
        for place, row in now.items():
            differs = {column for column in row if row[column] != was[place][column]}
            assert differs <= OWN, (name, place, {column: (was[place][column], row[column]) for column in differs})
    assert partition.verify().problems == told


LIMITS = [(20_000, 512 << 20), (1, 512 << 20), (3, 6_000), (20_000, 4_000)]


@settings(
    max_examples=15,
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    order=st.permutations(range(len(eventful()))),
    per_batch=st.sampled_from([1, 7, 1_000]),
    limits=st.sampled_from(LIMITS),
    restarted=st.booleans(),
)
def test_any_log_under_the_rules_it_landed_by_comes_out_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    per_batch: int,
    limits: tuple[int, int],
    restarted: bool,
) -> None:
    rules = LandRules(payload_inline_max_bytes=2_048, closed_runs_kept=limits[0], state_max_bytes=limits[1])
    partition = Partition(tmp_path_factory.mktemp("lake"), rules)
    log = eventful()
    partition.land([*(log[place] for place in order), tick(idle_us=0, held_us=0)], per_batch)
    if restarted:
        partition.restart()
    assert_rewritten_as_they_were(partition)


@pytest.mark.parametrize("limits", LIMITS)
def test_runs_in_turn_come_out_as_they_are(tmp_path: Any, limits: tuple[int, int]) -> None:
    rules = LandRules(closed_runs_kept=limits[0], state_max_bytes=limits[1])
    partition = Partition(tmp_path, rules)
    partition.land([*mixture(12), *run_events("late", ended=False), tick(idle_us=0, held_us=0)], 40)
    assert_rewritten_as_they_were(partition)


def test_a_run_of_which_late_events_came_comes_out_as_its_last_close_had_it(tmp_path: Any) -> None:
    partition = Partition(tmp_path)
    partition.land(run_of("r", {}))
    partition.land([event("model.responded", "r", 4, {"message": "more"})])
    partition.land([tick(idle_us=0, name="a")])
    partition.land([event("reward.assigned", "r", None, {"name": "x", "annotator_kind": "code", "score": 0.0})])
    assert [row["revision"] for row in partition.rows("runs")] == [0, 1]
    assert_rewritten_as_they_were(partition)
    assert [row["close_offset"] for row in partition.rows("runs")] == [None, None, 4]


def test_what_came_by_reference_is_judged_by_what_the_ledger_holds(tmp_path: Any) -> None:
    partition = Partition(tmp_path, RULES)
    failing = {"tool_call_id": "c", "content": "HTTP 500 " + "L" * 5_000, "is_error": True}
    calls = [{"tool_call_id": "c", "function_name": "look", "arguments": "{}"}]
    partition.land([
        event("run.started", "large", 1),
        event("model.responded", "large", 2, {"message": "m", "tool_calls": calls}),
        event("tool.returned", "large", 3, failing),
        event("run.ended", "large", 4, {"end_state": "failed"}),
    ])  # fmt: skip
    assert_rewritten_as_they_were(partition)
