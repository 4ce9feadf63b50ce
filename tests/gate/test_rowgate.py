"""The gate in the land path: rows are marked, events refused, and batch boundaries play no part."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fold.logs import logs
from tests.fold.story import INLINE_MAX, TOPIC, Log, fold_in_batches, same_state
from tests.gate.reference import suite_of
from trajlake.expectations.suites.suite import SuiteError, load_suites
from trajlake.expectations.tables import TABLES
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.gate.rowgate import BEFORE_ASSEMBLY, RowGate, compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal, refold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

V = "expect_column_values_to_"
Rows = dict[str, list[dict[str, Any]]]


def rule(kind: str, severity: str = "critical", name: str | None = None, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity, "meta": {"rule": name or kind}}


def gate_of(**suites: list[dict[str, Any]]) -> RowGate:
    return compile_gate({name: suite_of(entries, name) for name, entries in suites.items()})


def land(log: Log, gate: RowGate, cuts: list[int] | None = None) -> dict[str, pa.Table]:
    rules = LandRules(row_rules=gate)
    parts: dict[str, list[pa.RecordBatch]] = {}
    for landing in fold_in_batches(PartitionFold(TOPIC, 0, rules), log.records, cuts or ()):
        for name, batch in gate.mark(batches(landing, rules.revision, INLINE_MAX)).items():
            parts.setdefault(name, []).append(batch)
    return {name: pa.Table.from_batches(found, TABLES[name].schema).combine_chunks() for name, found in parts.items()}


def story() -> Log:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("looking", calls=["c1"], usage={"input_tokens": 5, "output_tokens": 2}, cost_usd=0.5)
    run.returns("c1")
    run.responds("answer", usage={"input_tokens": 900, "output_tokens": 2})
    run.rewarded(-3.0)
    run.ends()
    return log


def failed(table: pa.Table) -> list[list[tuple[str, str]] | None]:
    marks = table.column("quality").to_pylist()
    return [mark and [(each["rule_id"], each["severity"]) for each in mark] for mark in marks]


def test_a_derived_row_lands_with_the_rules_that_it_failed() -> None:
    gate = gate_of(
        steps=[
            rule(V + "be_between", "warning", "few", column="input_tokens", max_value=100),
            rule(V + "not_be_null", "critical", "priced", column="cost_usd"),
            rule(V + "be_in_set", "info", "never", column="source", value_set=["agent"]),
        ],
        rewards=[rule(V + "be_between", name="positive", column="score", min_value=0)],
        runs=[rule(V + "be_between", name="fine", column="step_count", min_value=1)],
    )
    tables = land(story(), gate)
    assert failed(tables["steps"]) == [None, [("few", "warning"), ("priced", "critical")]]
    assert failed(tables["rewards"]) == [[("positive", "critical")]]
    assert failed(tables["runs"]) == [None]
    for name in ("steps", "rewards", "runs"):
        assert set(tables[name].column("suite_revision").to_pylist()) == {gate.suites[name].revision}


def test_without_suites_nothing_is_marked() -> None:
    tables = land(story(), RowGate())
    assert failed(tables["steps"]) == [None, None]
    assert tables["runs"].column("suite_revision").to_pylist() == [None]
    assert LandRules().revision == LandRules(row_rules=RowGate()).revision


def test_an_event_that_fails_a_critical_rule_is_quarantined_before_assembly() -> None:
    gate = gate_of(events=[rule(V + "not_match_regex", name="no_looking", column="event", regex="looking")])
    tables = land(story(), gate)
    (row,) = tables["quarantine"].to_pylist()
    assert (row["reason_code"], row["stage"], row["offset"]) == ("row_rule", "gate", 1)
    assert (row["run_id"], row["sequence"], row["field_path"]) == ("r1", 2, "event")
    assert "no_looking" in row["detail"]
    assert "looking" not in row["detail"].replace("no_looking", "")
    assert "looking" in row["payload"]  # kept, so that a released record can be judged again
    assert 1 not in tables["events"].column("offset").to_pylist()
    (run,) = tables["runs"].to_pylist()
    assert "missing_sequence" in [gap["code"] for gap in run["gaps"]]
    assert "looking" not in [step["message"] for step in tables["steps"].to_pylist()]


def test_an_event_that_fails_a_lesser_rule_is_marked_and_assembled() -> None:
    gate = gate_of(events=[rule(V + "not_match_regex", "warning", "no_looking", column="event", regex="looking")])
    tables = land(story(), gate)
    assert "quarantine" not in tables
    assert failed(tables["events"])[:2] == [None, [("no_looking", "warning")]]
    assert tables["steps"].num_rows == 2


def test_every_column_that_is_known_before_assembly_can_refuse() -> None:
    log = story()
    for column in BEFORE_ASSEMBLY:
        tables = land(log, gate_of(events=[rule(V + "be_null", column=column)]))
        nulls = land(log, RowGate())["events"].column(column).null_count
        refused = tables["quarantine"].num_rows if "quarantine" in tables else 0
        assert refused == len(log.records) - nulls, column


def test_a_rule_that_refuses_by_what_comes_after_assembly_is_refused_itself() -> None:
    for column in set(TABLES["events"].names) - BEFORE_ASSEMBLY:
        with pytest.raises(SuiteError, match="make it a warning"):
            gate_of(events=[rule(V + "be_null", name="late", column=column)])
        assert gate_of(events=[rule(V + "be_null", "info", column=column)]).refusing is None


def test_ticks_of_the_log_are_never_refused() -> None:
    log = story()
    log.tick()
    tables = land(log, gate_of(events=[rule(V + "be_null", column="id")]))
    assert tables["events"].column("type").to_pylist() == ["trajlake.tick"]
    tables = land(log, gate_of(events=[rule(V + "be_null", "info", column="id")]))
    assert failed(tables["events"])[-1] is None


def test_a_refusing_gate_lands_what_it_does_not_refuse_as_no_gate_would() -> None:
    log = story()
    log.append(b"{")
    log.hole(3)
    log.tick()
    log.run("r2").starts(input={"password": "x"})
    plain = land(log, RowGate())
    gated = land(log, gate_of(events=[rule(V + "not_be_in_set", column="id", value_set=["nobody"])]))
    for name, table in plain.items():
        dropped = [column for column in ("rule_revision",) if column in table.column_names]
        assert table.drop_columns(dropped).equals(gated[name].drop_columns(dropped)), name


GATE = gate_of(
    events=[
        rule(V + "not_match_regex", name="refuse", column="event", regex='"n":3|hmhm'),
        rule(V + "be_between", "warning", "mark", column="sequence", max_value=2),
    ],
    steps=[
        rule(V + "not_be_null", column="cost_usd"),
        rule("expect_compound_columns_to_be_unique", name="u", column_list=["run_id", "offset", "message"]),
    ],
    runs=[rule(V + "be_in_set", column="end_state", value_set=["completed"])],
    rewards=[rule(V + "be_between", column="score", min_value=0.5)],
)


@settings(max_examples=40, deadline=None)
@given(logs(), st.lists(st.integers(0, 60), max_size=6))
def test_rows_and_marks_are_the_same_whatever_the_batch_boundaries(records: list[Record], cuts: list[int]) -> None:
    log = Log()
    log.records = records
    whole, cut = land(log, GATE), land(log, GATE, cuts)
    assert whole.keys() == cut.keys()
    for name, table in whole.items():
        if name != "gaps":
            assert table.equals(cut[name]), name


@settings(max_examples=30, deadline=None)
@given(logs())
def test_the_ledger_rebuilds_the_state_that_refusals_left(records: list[Record]) -> None:
    rules = LandRules(row_rules=GATE)
    fold = PartitionFold(TOPIC, 0, rules)
    landing = fold.fold(records)
    rows: list[LedgerEvent | LedgerRefusal] = [
        LedgerEvent(row.offset, row.append_us, row.text, row.redactions, rules.revision) for row in landing.events
    ]
    rows += [
        LedgerRefusal(
            row.offset, row.append_us, row.rejected.stage, row.rejected.reason, row.rejected.tenant_id,
            row.rejected.run_id, row.rejected.sequence, rules.revision,
        )
        for row in landing.quarantine
    ]  # fmt: skip
    again = PartitionFold(TOPIC, 0, rules)
    refold(again, sorted(rows, key=lambda row: row.offset), landing.last)
    assert same_state(fold, again)


def test_rules_on_events_are_part_of_the_land_rules_revision_and_others_are_not() -> None:
    base = LandRules().revision
    events = gate_of(events=[rule(V + "be_null", column="id")])
    steps = gate_of(steps=[rule(V + "be_null", column="cost_usd")])
    assert LandRules(row_rules=events).revision != base
    assert LandRules(row_rules=steps).revision == base


def test_the_shipped_suites_find_nothing_wrong_with_a_sound_run() -> None:
    tables = land(story(), compile_gate(load_suites()))
    marks = {mark for table in tables.values() if "quality" in table.column_names for row in failed(table) if row
             for mark in row}  # fmt: skip
    assert {severity for _, severity in marks} <= {"info"}
