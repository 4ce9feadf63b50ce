"""Frames of the spool: what is read is what was written, whole, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.streams.publish.frames import HEAD, MAX_KEY_BYTES, frame, parse_frames

EVENTS = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=12)


@given(EVENTS, st.integers(0, 10_000))
def test_frames_read_as_they_were_written(events: list[tuple[bytes, bytes]], base: int) -> None:
    data = b"".join(frame(key, value) for key, value in events)
    entries, wanted = parse_frames(data, base)
    assert [(key, value) for _, key, value in entries] == events
    assert wanted == 0
    assert [end for end, _, _ in entries][-1:] == [base + len(data)][: len(events)]


@given(EVENTS, st.data())
def test_a_cut_anywhere_leaves_the_whole_frames_before_it(
    events: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    written = [frame(key, value) for key, value in events]
    whole = b"".join(written)
    cut = data.draw(st.integers(0, len(whole)))
    entries, wanted = parse_frames(whole[:cut])
    kept = 0
    while kept < len(written) and sum(map(len, written[: kept + 1])) <= cut:
        kept += 1
    assert [(key, value) for _, key, value in entries] == events[:kept]
    if sum(map(len, written[:kept])) < cut:
        assert wanted >= HEAD.size


@given(EVENTS.filter(bool), st.data())
def test_a_changed_bit_never_yields_an_event_that_was_not_written(
    events: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    written = bytearray(b"".join(frame(key, value) for key, value in events))
    place = data.draw(st.integers(0, len(written) * 8 - 1))
    written[place // 8] ^= 1 << (place % 8)
    entries, wanted = parse_frames(bytes(written))
    assert wanted != 0
    found = [(key, value) for _, key, value in entries]
    assert found == events[: len(found)]
    assert len(found) < len(events)


def test_zeros_that_a_power_failure_leaves_are_no_events() -> None:
    entries, wanted = parse_frames(frame(b"k", b"v") + bytes(4096))
    assert [(key, value) for _, key, value in entries] == [(b"k", b"v")]
    assert wanted == -1


def test_a_key_that_is_too_long_is_refused() -> None:
    frame(b"k" * MAX_KEY_BYTES, b"")
    with pytest.raises(ValueError, match="65535"):
        frame(b"k" * (MAX_KEY_BYTES + 1), b"")
