"""Event times as their producers write them, normalised to UTC datetimes with microseconds.

Accepted: RFC 3339 with any offset, the same without a zone (read as UTC, and noted), epoch numbers in seconds,
milliseconds, microseconds or nanoseconds (told apart by magnitude), and the leap second `:60` of ISO 8601 (read as
the last microsecond of its minute, so that order is kept). Finer fractions are rounded to the nearest microsecond,
halves up.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from trajlake.expectations.reasons import Gap

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?\s*([Zz]|[+-]\d\d:?\d\d|[+-]\d\d)?\Z",
    re.ASCII,
)
# Magnitudes at which an epoch number changes its unit: seconds reach 1e11 in the year 5138, and so on by thousands.
_EPOCH_UNITS = ((10**11, 1_000_000, 1), (10**14, 1_000, 1), (10**17, 1, 1), (10**20, 1, 1_000))
"""Below this magnitude, that many microseconds (a fraction) are one unit."""


class BadTime(ValueError):
    """A time that cannot be read. The message names the form, never the value."""


def normalise_time(value: object) -> tuple[datetime, str | None]:
    """Read a producer's time. Returns it in UTC, and a `Gap` code when something had to be assumed.

    Raises `BadTime` when the value is no time or out of the years 1 to 9999.
    """
    if isinstance(value, bool):
        raise BadTime("a boolean is no time")
    if isinstance(value, int | float):
        return _from_epoch(value), None
    if isinstance(value, str):
        return _from_text(value)
    raise BadTime(f"a {type(value).__name__} is no time")


def to_utc(value: datetime) -> tuple[datetime, str | None]:
    """A decoded datetime in UTC; one without a zone is read as UTC, and said so."""
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC), Gap.TIME_ASSUMED_UTC.value
    try:
        return value.astimezone(UTC), None
    except OverflowError:
        raise BadTime("time out of the years 1 to 9999") from None


def micros(value: datetime) -> int:
    """Microseconds since the Unix epoch of an aware datetime."""
    return (value - EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """UTC datetime of microseconds since the Unix epoch."""
    return EPOCH + timedelta(microseconds=value)


def _from_epoch(value: int | float) -> datetime:
    magnitude = abs(value)
    for limit, times, per in _EPOCH_UNITS:
        if magnitude < limit:
            # Half a microsecond rounds up, as it does in texts.
            us = (value * times * 2 + per) // (per * 2) if isinstance(value, int) else round(value * times / per)
            try:
                return EPOCH + timedelta(microseconds=us)
            except OverflowError:
                break
    raise BadTime("epoch number out of the years 1 to 9999")


def _from_text(text: str) -> tuple[datetime, str | None]:
    match = _RFC3339.match(text.strip())
    if match is None:
        raise BadTime("not an RFC 3339 time")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    us = (int((fraction or "0").ljust(7, "0")[:7]) + 5) // 10
    sec = int(second or 0)
    if sec == 60:
        sec, us = 59, 999_999
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), sec, tzinfo=UTC)
        moment += timedelta(microseconds=us)
        if zone is None:
            return moment, Gap.TIME_ASSUMED_UTC.value
        return moment - _offset(zone), None
    except (ValueError, OverflowError):
        raise BadTime("not a moment of the calendar") from None


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta()
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:4] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("no such zone")
    delta = timedelta(hours=hours, minutes=minutes)
    return -delta if zone[0] == "-" else delta
