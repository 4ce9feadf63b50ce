"""The gate of the land path: the row suites of all tables, compiled, and what they do to record batches.

A rule is judged on a whole record batch at once. What fails a rule of `steps`, `runs` or `rewards` lands with the rule
in its `quality` column: curation holds the runs concerned, and nothing is lost. An event that fails a critical rule is
refused before assembly sees it and goes to quarantine; one that fails a lesser rule is marked. What trajlake itself
writes into the log is never judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import polars as pl
import pyarrow as pa

from trajlake.expectations.events import OWN_TYPES
from trajlake.expectations.suites.suite import ROW_SUITES, Severity, Suite, SuiteError
from trajlake.expectations.tables import QUALITY, TABLES
from trajlake.transforms.gate.columntypes import kinds_of
from trajlake.transforms.gate.rules import CompiledRule, compile_rule

BEFORE_ASSEMBLY: Final = frozenset(
    "offset append_time id source type time tenant_id run_id sequence parent_run_id traceparent event".split()
)
"""Columns of `events` that are known before assembly; a rule that refuses events may read no others."""
_OURS: Final = pl.col("type").is_in(sorted(OWN_TYPES))


@dataclass(frozen=True)
class CompiledSuite:
    """Rules that judge the rows of one table. `revision`: that of the suite."""

    table: str
    revision: str
    rules: tuple[CompiledRule, ...]

    @cached_property
    def columns(self) -> list[str]:
        """Columns that the rules read."""
        return sorted({name for rule in self.rules for name in rule.columns})

    def failures(self, frame: pl.DataFrame) -> list[tuple[CompiledRule, pl.Series]]:
        """Rules that some row fails, each with a mask of the rows that fail it. `frame` has at least `columns`."""
        if not self.rules:
            return []
        masks = frame.select(rule.fails.alias(str(place)) for place, rule in enumerate(self.rules))
        return [(rule, mask) for rule, mask in zip(self.rules, masks.get_columns(), strict=True) if mask.any()]

    def mark(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its `quality` and `suite_revision` columns filled: each row's failed rules, in the suite's
        order; null where it failed none."""
        names = batch.schema.names
        if self.rules:
            frame = as_frame(batch, self.columns)
            batch = _put(batch, names.index("quality"), _quality(self.failures(frame), batch.num_rows))
        if "suite_revision" in names:
            revision = pa.repeat(pa.scalar(self.revision, pa.string()), batch.num_rows)
            batch = _put(batch, names.index("suite_revision"), revision)
        return batch


@dataclass(frozen=True)
class RowGate:
    """All row suites, compiled. Without suites it marks nothing and refuses nothing."""

    suites: Mapping[str, CompiledSuite] = field(default_factory=dict)

    @cached_property
    def revision(self) -> str:
        """Content hash of the rules on events: they decide what is let in. "none" without such rules.

        Rules on derived rows decide nothing that the fold depends on; theirs stands on each row."""
        events = self.suites.get("events")
        return events.revision if events is not None and events.rules else "none"

    @cached_property
    def refusing(self) -> CompiledSuite | None:
        """Rules whose events go to quarantine; None where there are none."""
        return self._part("events", critical=True)

    @cached_property
    def _marking(self) -> Mapping[str, CompiledSuite]:
        """By table, the rules whose rows are marked."""
        marking = dict(self.suites)
        lesser = self._part("events", critical=False)
        if "events" in marking and lesser is not None:
            marking["events"] = lesser
        elif "events" in marking:
            marking["events"] = CompiledSuite("events", marking["events"].revision, ())
        return marking

    def _part(self, table: str, *, critical: bool) -> CompiledSuite | None:
        suite = self.suites.get(table)
        if suite is None:
            return None
        rules = tuple(rule for rule in suite.rules if (rule.severity is Severity.CRITICAL) is critical)
        return CompiledSuite(table, suite.revision, rules) if rules else None

    def mark(self, batches: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
        """Record batches by table with their rows judged."""
        marking = self._marking
        return {name: marking[name].mark(batch) if name in marking else batch for name, batch in batches.items()}


def compile_gate(suites: Mapping[str, Suite]) -> RowGate:
    """Compile the row suites among those given by name. Raises `SuiteError` naming the first rule that has no form."""
    compiled = {}
    for name in ROW_SUITES:
        if name in suites:
            rules, problems = compile_rules(suites[name])
            if problems:
                raise problems[0]
            compiled[name] = CompiledSuite(name, suites[name].revision, tuple(rules))
    return RowGate(compiled)


def compile_rules(suite: Suite, table: str | None = None) -> tuple[list[CompiledRule], list[SuiteError]]:
    """The rules of a suite that can judge rows of a table (that of the suite's name, unless given), and what is wrong
    with the others."""
    kinds = kinds_of(TABLES[table or suite.name].schema)
    rules: list[CompiledRule] = []
    problems: list[SuiteError] = []
    for expectation in suite.expectations:
        try:
            rules.append(compile_rule(expectation, kinds))
        except SuiteError as problem:
            problems.append(problem)
    return (_of_events(rules, problems) if (table or suite.name) == "events" else rules), problems


def _of_events(rules: Iterable[CompiledRule], problems: list[SuiteError]) -> list[CompiledRule]:
    """Rules that pass over what trajlake itself writes; adds to the problems those that refuse by what comes later."""
    kept = []
    for rule in rules:
        later = sorted(set(rule.columns) - BEFORE_ASSEMBLY)
        if later and rule.severity is Severity.CRITICAL:
            told = f"reads {later[0]}, which an event has only once it is let in: make it a warning"
            expectation = rule.expectation
            problems.append(SuiteError(expectation.suite, f"{expectation.type} {told}", rule.rule_id))
            continue
        columns = tuple(sorted({*rule.columns, "type"}))
        kept.append(CompiledRule(rule.expectation, rule.fails & ~_OURS, columns))
    return kept


def as_frame(batch: pa.RecordBatch, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a record batch as a frame; text is not copied."""
    frame = pl.from_arrow(batch.select(list(columns)))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _quality(failures: Iterable[tuple[CompiledRule, pl.Series]], count: int) -> pa.Array:
    """The `quality` column. Only rows that fail something cost anything."""
    found: dict[int, list[CompiledRule]] = {}
    for rule, mask in failures:
        for row in mask.arg_true().to_list():
            found.setdefault(row, []).append(rule)
    if not found:
        return pa.nulls(count, QUALITY)
    flat = [rule for row in sorted(found) for rule in found[row]]
    offsets: list[int | None] = []
    end = 0
    for row in range(count):
        offsets.append(end if row in found else None)
        end += len(found.get(row, ()))
    offsets.append(end)
    children = [
        pa.array([r.rule_id for r in flat], pa.string()),
        pa.array([r.severity.value for r in flat], pa.string()),
    ]
    values = pa.StructArray.from_arrays(children, fields=list(QUALITY.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=QUALITY)


def _put(batch: pa.RecordBatch, place: int, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(place, batch.schema.field(place), values)


def revision_of(gate: RowGate) -> str:
    """Content hash of all suites of a gate, for manifests."""
    text = "\n".join(f"{name}={suite.revision}" for name, suite in sorted(gate.suites.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
