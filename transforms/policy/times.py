"""Times of rows as microseconds since the Unix epoch."""

from __future__ import annotations

from datetime import UTC, datetime

from trajlake.transforms.decode import timestamps


def micros(time: datetime | int | None) -> int | None:
    """A time in µs since the Unix epoch, exactly. Numbers are taken as µs, a time without a zone as UTC."""
    if time is None or isinstance(time, int):
        return time
    return timestamps.micros(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
