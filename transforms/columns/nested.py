"""Nested columns of the tables, built flat: one list per child field and the number of children per row."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pyarrow as pa

from trajlake.expectations.events import Message
from trajlake.expectations.tables import MESSAGES, OBSERVATIONS, REDACTIONS, TOOL_CALLS
from trajlake.transforms.assemble.state import OpenStep
from trajlake.transforms.columns.arrow import list_column, nested_column
from trajlake.transforms.text import as_text, payload_reference


def messages_column(rows: list[list[Message] | None]) -> pa.Array:
    """`input_messages` and `final_messages`: null where none came."""
    if not any(rows):
        return pa.nulls(len(rows), MESSAGES)
    flat = list(chain.from_iterable(row for row in rows if row))
    columns = ([m.role for m in flat], [as_text(m.content) for m in flat], [m.name for m in flat])
    return nested_column(MESSAGES, [None if row is None else len(row) for row in rows], columns)


def tool_calls_column(steps: list[OpenStep]) -> pa.Array:
    """`tool_calls` in the order emitted; never null."""
    flat = list(chain.from_iterable([step.calls for step in steps]))
    columns = (
        [call.tool_call_id for call in flat],
        [call.function_name for call in flat],
        [as_text(call.arguments) for call in flat],
    )
    return nested_column(TOOL_CALLS, [len(step.calls) for step in steps], columns)


def observations_column(steps: list[OpenStep]) -> pa.Array:
    """`observations` in the order of their calls; never null."""
    answered = [[result for result in step.results if result is not None] for step in steps]
    flat = list(chain.from_iterable(answered))
    data = [result.data for result in flat]
    texts = [as_text(d.content) for d in data]
    columns = (
        [d.tool_call_id for d in data],
        texts,
        [payload_reference(text) for text in texts],
        [d.is_error for d in data],
        [d.error_type for d in data],
        [d.error_message for d in data],
        [d.http_status for d in data],
        [signed(d.exit_code) for d in data],
        [d.exit_signal for d in data],
        [d.retry_count for d in data],
        [result.latency_ms for result in flat],
        [result.offset for result in flat],
    )
    return nested_column(OBSERVATIONS, [len(row) for row in answered], columns)


def redactions_column(rows: list[Any]) -> pa.Array:
    """`redactions`: null where nothing was removed."""
    return list_column(REDACTIONS, rows)


def signed(code: int | None) -> int | None:
    """An exit code in 32 bits; Windows writes them unsigned."""
    return code - 2**32 if code is not None and code >= 2**31 else code
