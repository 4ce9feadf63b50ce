"""Messages of the rolling workers to rows of `skill_stats` and `decisions`."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from trajlake.expectations.outcomes import CLASSES, Decision, Interval, Quantiles, SkillStats, WindowStats
from trajlake.expectations.tables import DECISIONS, POSITIONS, SKILL_STATS, TIME
from trajlake.transforms.columns.arrow import list_column, to_batch

_NANO: Final = 1e9
_MOST: Final = 2**63 - 1
_MOST_RESTATED: Final = 2**31 - 1
_STATS: Final = msgspec.json.Decoder(SkillStats)
_DECISIONS: Final = msgspec.json.Decoder(Decision)


class Place(NamedTuple):
    """Where a message stands."""

    topic: str
    partition: int
    offset: int


def read_stats(content: bytes) -> SkillStats | None:
    """A message of the statistics topic; None for one that is not for the table. Raises `msgspec.DecodeError`."""
    stats = _STATS.decode(content)
    return stats if stats.keep else None


def read_decision(content: bytes) -> Decision | None:
    """A message of the decisions topic. Raises `msgspec.DecodeError`."""
    return _DECISIONS.decode(content)


def stats_batch(messages: Sequence[tuple[Place, SkillStats]]) -> pa.RecordBatch:
    """Columns of `skill_stats`: a row for each window of each message."""
    rows = [(place, stats, window) for place, stats in messages for window in stats.windows]
    places = [place for place, _, _ in rows]
    all_stats = [stats for _, stats, _ in rows]
    windows = [window for _, _, window in rows]
    versions = [stats.versions for stats in all_stats]
    columns: dict[str, Any] = {
        **_places(places),
        "tenant_id": [stats.tenant_id for stats in all_stats],
        "skill_name": [stats.skill_name for stats in all_stats],
        "window_name": [window.window for window in windows],
        "as_of": _times([stats.as_of_us for stats in all_stats]),
        "window_start": _times([window.start_us for window in windows]),
        "window_end": _times([window.end_us for window in windows]),
        "emitted_at": _times([stats.emitted_us for stats in all_stats]),
        "positions": _positions(all_stats),
        "runs": [window.runs for window in windows],
        **{name: [window.counts.get(name, 0) for window in windows] for name in CLASSES},
        **{name: [getattr(window, name) for window in windows] for name in ("scorable", "successes", "rate")},
        **_bounds("rate", [window.interval for window in windows]),
        **_bounds("wilson", [window.wilson for window in windows]),
        **_bounds("open", [window.open_bounds for window in windows]),
        **{
            name: [min(getattr(window, name), _MOST) for window in windows]
            for name in ("attempts", "input_tokens", "output_tokens", "priced_runs")
        },
        "cost_usd": [window.cost_nano_usd / _NANO for window in windows],
        **_quantiles("cost", "usd", [window.cost_usd for window in windows], ("p50", "p95")),
        **_quantiles("latency", "ms", [window.latency_ms for window in windows], ("p50", "p95", "p99")),
        "streak": [stats.streak for stats in all_stats],
        "streak_since": _times([stats.streak_since_us for stats in all_stats]),
        "skill_version": [version.skill for version in versions],
        "prompt_version": [version.prompt for version in versions],
        "memory_version": [version.memory for version in versions],
        "model_name": [version.model for version in versions],
        "model_tier": [stats.model_tier for stats in all_stats],
        "strata": _strata(windows),
        "causes": _causes(windows),
        **_standing(all_stats),
        **_drop(all_stats),
        "restatement": [min(window.restatement, _MOST_RESTATED) for window in windows],
        "code_revision": [stats.code_revision for stats in all_stats],
    }
    return to_batch(SKILL_STATS, columns, len(rows))


def decision_batch(messages: Sequence[tuple[Place, Decision]]) -> pa.RecordBatch:
    """Columns of `decisions`: a row for each message."""
    found = [decision for _, decision in messages]
    schema = DECISIONS.schema
    plain = (
        "decision_id", "revision", "tenant_id", "skill_name", "skills", "lever", "target_kind", "target", "summary",
        "confidence", "expected_gain", "expected_gain_unit", "expected_cost_usd", "policy_revision", "code_revision",
        "supersedes", "flag", "flag_detail", "old_rule",
    )  # fmt: skip
    columns: dict[str, Any] = {
        **_places([place for place, _ in messages]),
        **{name: [getattr(decision, name) for decision in found] for name in plain},
        "rejected": list_column(
            schema.field("rejected").type, [[(r.lever, r.reason, r.detail) for r in d.rejected] for d in found]
        ),
        "evidence": list_column(
            schema.field("evidence").type, [[(e.name, e.value, e.detail) for e in d.evidence] for d in found]
        ),
        "inputs": [bytes(decision.inputs).decode() for decision in found],
        "table_versions": list_column(
            schema.field("table_versions").type, [sorted(decision.table_versions.items()) for decision in found]
        ),
        "positions": _positions(found),
        "as_of": _times([decision.as_of_us for decision in found]),
        "made_at": _times([decision.made_us for decision in found]),
        "expires_at": _times([decision.expires_us for decision in found]),
    }
    return to_batch(DECISIONS, columns, len(found))


def _places(places: list[Place]) -> dict[str, Any]:
    return {name: [getattr(place, name) for place in places] for name in Place._fields}


def _times(values: Sequence[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(TIME)


def _positions(found: Sequence[SkillStats] | Sequence[Decision]) -> pa.Array:
    return list_column(POSITIONS, [[(p.topic, p.partition, p.offset) for p in each.positions] for each in found])


def _bounds(name: str, intervals: list[Interval | None]) -> dict[str, Any]:
    return {
        f"{name}_low": [None if each is None else each.low for each in intervals],
        f"{name}_high": [None if each is None else each.high for each in intervals],
    }


def _quantiles(name: str, unit: str, found: list[Quantiles | None], wanted: Sequence[str]) -> dict[str, Any]:
    return {f"{name}_{q}_{unit}": [None if each is None else getattr(each, q) for each in found] for q in wanted}


def _strata(windows: list[WindowStats]) -> pa.Array:
    rows = [
        [
            (s.model_tier, s.task_family, s.successes, s.failures, s.priced_runs, s.cost_nano_usd / _NANO)
            for s in w.strata
        ]
        for w in windows
    ]
    return list_column(SKILL_STATS.schema.field("strata").type, rows)


def _causes(windows: list[WindowStats]) -> pa.Array:
    rows = [
        [(c.outcome_class, c.failure_kind, c.model_provider, c.failing_tool, c.error_type, c.count) for c in w.causes]
        for w in windows
    ]
    return list_column(SKILL_STATS.schema.field("causes").type, rows)


def _standing(found: list[SkillStats]) -> dict[str, Any]:
    fields = {
        "state": "state", "state_code": "code", "state_reason": "reason", "state_e_value": "e_value",
        "baseline_rate": "baseline",
    }  # fmt: skip
    return {
        column: [None if stats.standing is None else getattr(stats.standing, name) for stats in found]
        for column, name in fields.items()
    }


def _drop(found: list[SkillStats]) -> dict[str, Any]:
    drops = [stats.drop for stats in found]
    return {
        "change_log_e_value": [None if d is None or d.e_value <= 0 else log(d.e_value) for d in drops],
        "change_alarm": [None if d is None else d.alarm for d in drops],
        "change_before": [None if d is None else _rate(d.before) for d in drops],
        "change_after": [None if d is None else _rate(d.after) for d in drops],
        "change_since": _times([None if d is None else d.since_us for d in drops]),
        "unjudged_e_value": [None if stats.unjudged is None else stats.unjudged.e_value for stats in found],
    }


def _rate(counts: tuple[int, int]) -> float | None:
    return counts[0] / sum(counts) if sum(counts) else None
