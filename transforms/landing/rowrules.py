"""Row rules on events, before assembly: an event that fails a critical rule goes to quarantine.

All events of a batch are judged at once, each by itself, so batch boundaries play no part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from trajlake.expectations.tables import EVENTS, TIME
from trajlake.transforms.assemble.openrun import type_of
from trajlake.transforms.gate.rowgate import CompiledSuite, as_frame
from trajlake.transforms.gate.rules import CompiledRule
from trajlake.transforms.records import Decoded, Record

_VALUES: Final[dict[str, Callable[[Record, Decoded], Any]]] = {
    "offset": lambda record, decoded: record.offset,
    "append_time": lambda record, decoded: record.append_us,
    "id": lambda record, decoded: decoded.event.id,
    "source": lambda record, decoded: decoded.event.source,
    "type": lambda record, decoded: type_of(decoded.event),
    "time": lambda record, decoded: decoded.event.time,
    "tenant_id": lambda record, decoded: decoded.event.tenantid,
    "run_id": lambda record, decoded: decoded.event.runid,
    "sequence": lambda record, decoded: decoded.event.sequence,
    "parent_run_id": lambda record, decoded: decoded.event.parentrunid,
    "traceparent": lambda record, decoded: decoded.event.traceparent,
    "event": lambda record, decoded: decoded.text.decode(),
}
"""Columns of `events` that a row rule may name to refuse an event."""


def rows_refused(suite: CompiledSuite, rows: list[tuple[int, Record, Decoded]]) -> dict[int, tuple[str, str]]:
    """Of events, each with its place and record, those that fail a rule: place -> what they fail, and the field."""
    if not rows:
        return {}
    arrays = []
    for name in suite.columns:
        values = [_VALUES[name](record, decoded) for _, record, decoded in rows]
        is_micros = name == "append_time"
        array = pa.array(values, pa.int64() if is_micros else EVENTS.schema.field(name).type)
        arrays.append(array.view(TIME) if is_micros else array)
    frame = as_frame(pa.RecordBatch.from_arrays(arrays, names=suite.columns), suite.columns)
    failing: dict[int, list[CompiledRule]] = {}
    for rule, mask in suite.failures(frame):
        for row in mask.arg_true().to_list():
            failing.setdefault(rows[row][0], []).append(rule)
    return {
        place: (
            f"fails {', '.join(rule.rule_id for rule in rules)} of suite events {suite.revision}",
            rules[0].expectation.columns[0],
        )
        for place, rules in failing.items()
    }
