"""L16: what producers write as a time becomes microseconds UTC, or is refused; the fast and the careful reader
agree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fold.story import Log
from trajlake.transforms.decode.decoder import decode_fast, decode_value
from trajlake.transforms.decode.timestamps import EPOCH, BadTime, from_micros, micros, normalise_time, to_utc
from trajlake.transforms.records import Decoded

MOMENT = datetime(2026, 11, 30, 22, 18, 57, 123456, tzinfo=UTC)
US = micros(MOMENT)
EDGES = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC))
"""A day within what any zone can say."""
ASSUMED = "time_assumed_utc"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-30T22:18:57.123456Z", MOMENT),
        ("2026-11-30T22:18:57.123456789Z", MOMENT + timedelta(microseconds=1)),
        ("2026-11-30T22:18:57.1234564Z", MOMENT),
        ("2026-11-30T22:18:57.123Z", MOMENT.replace(microsecond=123000)),
        ("2026-11-30T22:18Z", MOMENT.replace(second=0, microsecond=0)),
        ("2026-11-30 22:18:57.123456 Z", MOMENT),
        ("2026-11-30t22:18:57,123456z", MOMENT),
        ("2026-12-01T07:18:57.123456+09:00", MOMENT),
        ("2026-12-01T03:48:57.123456+0530", MOMENT),
        ("2026-11-30T14:18:57.123456-08", MOMENT),
        ("1969-07-20T20:17:40Z", datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)),
        ("2262-04-12T00:00:00Z", datetime(2262, 4, 12, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2017-01-01T08:59:60.5+09:00", datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        (US * 1000 + 499, MOMENT),
        (US * 1000 + 500, MOMENT + timedelta(microseconds=1)),
        (US, MOMENT),
        (US // 1000, MOMENT.replace(microsecond=123000)),
        (US // 10**6, MOMENT.replace(microsecond=0)),
        (US / 10**6, MOMENT),
        (US / 10**3, MOMENT),
        (-14_182_940, datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)),
        (0, EPOCH),
    ],
)
def test_L16_times_are_read_in_every_form(written: Any, read: datetime) -> None:
    moment, gap = normalise_time(written)
    assert (moment, gap) == (read, None)
    assert moment.tzinfo is UTC


def test_L16_a_time_without_a_zone_is_read_as_utc_and_said_so() -> None:
    assert normalise_time("2026-11-30T22:18:57.123456") == (MOMENT, ASSUMED)
    assert to_utc(MOMENT.replace(tzinfo=None)) == (MOMENT, ASSUMED)


@pytest.mark.parametrize(
    "written",
    [
        "", "yesterday", "2026-11-30", "2026-13-01T00:00:00Z", "2026-11-31T00:00:00Z", "2026-11-30T24:00:00Z",
        "2026-11-30T22:18:61Z", "2026-11-30T22:18:57+99:00", "2026-11-30T22:18:57+09:61", "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59.9999999Z", "２０２６-11-30T22:18:57Z", "1767225600",
        True, None, [], {}, 10**20, -(10**20), 10**400, 1e300, float("inf"), float("nan"),
    ],
)  # fmt: skip
def test_L16_what_is_no_time_is_refused_without_its_value(written: Any) -> None:
    with pytest.raises(BadTime) as refused:
        normalise_time(written)
    if isinstance(written, str) and written:
        assert written not in str(refused.value)


moments = st.datetimes(timezones=st.just(UTC)).filter(lambda moment: EDGES[0] < moment < EDGES[1])
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(moments, zones)
def test_L16_any_moment_survives_being_written_and_read(moment: datetime, zone: timezone) -> None:
    assert normalise_time(moment.astimezone(zone).isoformat()) == (moment, None)
    assert from_micros(micros(moment)) == moment


@given(st.integers(10**14, 10**17 - 1) | st.integers(-62_135_596_800_000_000, -(10**14)))
def test_L16_epoch_microseconds_are_read_exactly(us: int) -> None:
    assert micros(normalise_time(us)[0]) == us


@given(moments, st.text("0123456789", min_size=1, max_size=9))
@example(datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC), "9999999")
@example(datetime(2026, 1, 1, tzinfo=UTC), "1234565")
def test_L16_the_fast_and_the_careful_reader_agree_on_every_fraction(moment: datetime, fraction: str) -> None:
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction}Z".rjust(len(fraction) + 21, "0")
    assert normalise_time(text) == (msgspec.convert(text, datetime), None)


def test_L16_the_ledger_and_the_steps_hold_the_same_normal_time() -> None:
    log = Log()
    run = log.run()
    run.starts(time=US * 1000)
    run.responds("a", time="2026-12-01T07:18:57.123456+09:00")
    run.ends(time="2026-11-30T22:18:57.123456")
    landed = log.land()
    assert [row["time"] for row in landed.rows("events")] == [MOMENT] * 3
    row = landed.one("runs")
    assert (row["started_at"], row["ended_at"]) == (MOMENT, MOMENT)
    assert landed.gaps() == [ASSUMED]


def test_L16_an_event_that_waited_for_its_turn_keeps_what_was_assumed_of_it() -> None:
    log = Log()
    run = log.run()
    run.responds("second", sequence=2, time="2026-11-30T22:18:57")
    run.starts(sequence=1)
    run.ends(sequence=3)
    assert log.land().gaps() == [ASSUMED]


def test_L16_an_event_with_a_time_that_is_none_is_quarantined_with_its_place() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("a", time="soon")
    run.act("consent.changed", {"subject_id": "s", "purpose": "training", "state": "granted", "effective_at": "soon"})
    landed = log.land()
    assert [(row["reason_code"], row["field_path"]) for row in landed.rows("quarantine")] == [
        ("bad_time", "time"),
        ("bad_time", "data.effective_at"),
    ]


@given(moments)
def test_L16_both_paths_of_the_decoder_give_the_same_time(moment: datetime) -> None:
    event = Log().run().event("model.responded", {"message": "x"}, time=moment.isoformat())
    compact = orjson.dumps(event)
    fast = decode_fast(compact)
    careful = decode_value(
        orjson.dumps(event, option=orjson.OPT_INDENT_2), inline_max_bytes=10**6, event_inline_max_bytes=10**6
    )
    assert fast is not None
    assert isinstance(careful, Decoded)
    assert careful.event == fast


def test_the_skew_of_an_event_that_was_held_is_that_of_its_own_record() -> None:
    """All events carry the append time of their own record as their time, but the first comes an hour late."""
    log = Log()
    run = log.run()

    def now() -> str:
        return from_micros(log.now_us).isoformat()

    run.responds("early", sequence=2, time=now())
    run.ends(sequence=3, time=now())
    late = now()
    log.waits(3_600)
    run.starts(sequence=1, time=late)
    (row,) = log.land().rows("runs")
    assert row["max_time_skew_ms"] == 3_600_000
    again = Log()
    other = again.run()
    other.responds("early", sequence=2, time=from_micros(again.now_us).isoformat())
    other.ends(sequence=3, time=from_micros(again.now_us).isoformat())
    again.waits(3_600)
    other.starts(sequence=1, time=from_micros(again.now_us).isoformat())
    assert again.land().one("runs")["max_time_skew_ms"] == 0


def test_the_skew_of_the_last_event_is_that_of_its_own_record() -> None:
    """A run without an end; what has the latest time is not what came last."""
    log = Log()
    run = log.run()
    run.starts(time=from_micros(log.now_us).isoformat())
    run.responds("latest", sequence=3, time=from_micros(log.now_us).isoformat())
    log.waits(600)
    run.responds("between", sequence=2, time=from_micros(log.now_us - 602_000_000).isoformat())
    log.waits(3_600)
    log.tick(idle_s=60)
    assert log.land().one("runs")["max_time_skew_ms"] == 0
