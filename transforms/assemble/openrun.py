"""Changes to an open run that do not concern one of its steps: sequence numbers, gaps, rewards, compaction, time
skew."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import numpy as np

from trajlake.expectations.events import (
    ContextCompactedEvent,
    FeedbackGiven,
    FeedbackGivenEvent,
    RewardAssignedEvent,
)
from trajlake.expectations.reasons import Gap
from trajlake.transforms.assemble.state import GapNote, OpenRun, RedactionNote
from trajlake.transforms.decode.timestamps import micros
from trajlake.transforms.records import AnyEvent, UnknownEvent
from trajlake.transforms.text import as_text

MAX_NOTES: Final = 100
"""Gap notes and redaction notes kept per run; what is beyond is counted in the last note."""
MAX_DETAIL: Final = 256
"""Characters of a gap's detail."""
MAX_HOLE: Final = 100_000
"""Missing sequence numbers that are remembered one by one, so that they may still come. Behind a longer hole the run's
memory of sequence numbers begins anew."""
_NONE: Final = bytes(4)


def add_gap(run: OpenRun, code: Gap | str, detail: str | None) -> None:
    """Note a gap once; a run with very many keeps the first `MAX_NOTES` and counts the others."""
    note = (str(code), detail if detail is None else detail[:MAX_DETAIL])
    if run.gaps is None:
        run.gaps = [note]
    elif note not in run.gaps:
        if len(run.gaps) < MAX_NOTES:
            run.gaps.append(note)
        else:
            run.more_gaps += 1


def gap_notes(run: OpenRun) -> list[GapNote] | None:
    """Everything that is known to be missing or odd, for the run's row; a list of its own."""
    notes = list(run.gaps or ())
    more = run.more_gaps
    if run.absent:
        for first, last in absent_ranges(run):
            reason = (run.quarantined or {}).get(first)
            detail = str(first) if first == last else f"{first}-{last}"
            if len(notes) < MAX_NOTES:
                notes.append((Gap.MISSING_SEQUENCE.value, f"{detail}: quarantined, {reason}" if reason else detail))
            else:
                more += 1
    if more:
        code, shown = notes[-1]
        notes[-1] = (code, f"{shown or ''} and {more} more notes".strip())
    return notes or None


def sum_redactions(known: list[RedactionNote] | None, cuts: Iterable[RedactionNote]) -> list[RedactionNote]:
    """Redactions summed by rule, as a new list; paths stay with the event."""
    counts = {rule: count for _, rule, count in known or ()}
    for _, rule, count in cuts:
        counts[rule] = counts.get(rule, 0) + count
    return [("", rule, count) for rule, count in sorted(counts.items())][:MAX_NOTES]


# Sequence numbers


def mark_of(event_id: str) -> bytes:
    """What is remembered of an event's id: its CRC-32, 4 bytes."""
    return zlib.crc32(event_id.encode()).to_bytes(4, "little")


def seen_mark(run: OpenRun, sequence: int) -> bytes | None:
    """The mark of the event that came with a sequence number; None where none came. Raises KeyError where it is
    forgotten."""
    if sequence < run.seen_from:
        raise KeyError(sequence)
    place = (sequence - run.seen_from) * 4
    mark = bytes(run.seen[place : place + 4])
    return None if mark == _NONE else mark


def fill(run: OpenRun, sequence: int, event_id: str) -> None:
    """A sequence number that was given up has come after all."""
    place = (sequence - run.seen_from) * 4
    run.seen[place : place + 4] = mark_of(event_id)
    run.held_bytes -= 4
    run.absent -= 1
    if run.quarantined:
        run.quarantined.pop(sequence, None)


def give_up(run: OpenRun, following: int) -> None:
    """The sequence numbers from the next one to before `following` are missing; the run goes on without them."""
    first, count = run.next_sequence, following - run.next_sequence
    run.next_sequence = following
    if count <= MAX_HOLE:
        run.seen += bytes(4 * count)
        run.held_bytes += 4 * count
        run.absent += count
        return
    run.gaps, run.more_gaps = gap_notes(run), 0
    add_gap(run, Gap.MISSING_SEQUENCE, f"{first}-{following - 1}")
    run.held_bytes -= 4 * run.absent
    run.seen = bytearray()
    run.seen_from = following
    run.absent = 0
    run.quarantined = None


def pass_quarantined(run: OpenRun, reason: str) -> None:
    """The record of the next sequence number is in quarantine; the run goes on without it."""
    if run.quarantined is None:
        run.quarantined = {}
    if len(run.quarantined) < MAX_NOTES:
        run.quarantined[run.next_sequence] = reason
    run.seen += _NONE
    run.held_bytes += 4
    run.absent += 1
    run.next_sequence += 1


def absent_ranges(run: OpenRun) -> list[tuple[int, int]]:
    """Ranges of sequence numbers that never came, both ends included; one whose record is in quarantine stands
    alone."""
    absent = np.flatnonzero(np.frombuffer(run.seen, "<u4") == 0) + run.seen_from
    if not len(absent):
        return []
    parts = absent[1:] != absent[:-1] + 1
    if run.quarantined:
        alone = np.isin(absent, list(run.quarantined))
        parts |= alone[1:] | alone[:-1]
    starts = np.concatenate(([0], np.flatnonzero(parts) + 1))
    ends = np.append(starts[1:] - 1, len(absent) - 1)
    return list(zip(absent[starts].tolist(), absent[ends].tolist(), strict=True))


# Times, rewards, context


def skew(largest: int | None, time: datetime | None, append_us: int) -> int | None:
    """Larger of `largest` and |append time - event time|, microseconds."""
    if time is None:
        return largest
    distance = abs(append_us - micros(time))
    return distance if largest is None or distance > largest else largest


def rewarded(run: OpenRun, event: RewardAssignedEvent | FeedbackGivenEvent) -> None:
    """Remember the last score that may decide the run.

    Scores of single steps, by people's feedback and by the agent itself do not. A reward without score and verdict
    takes nothing back, unless it says that it replaces another.
    """
    reward = event.data
    if isinstance(reward, FeedbackGiven) or reward.step_id is not None or reward.annotator_kind == "self":
        return
    if reward.score is None and reward.passed is None and reward.supersedes is None:
        return
    run.reward_score = reward.score
    run.reward_passed = reward.passed


def context_compacted(run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
    """A summary replaced earlier turns: later steps belong to a new segment."""
    assert isinstance(event, ContextCompactedEvent)
    data = event.data
    run.segment += 1
    run.held_bytes += size
    note = (event.sequence, data.trigger, as_text(data.summary), data.tokens_before, data.tokens_after)
    if run.compactions is None:
        run.compactions = [note]
    else:
        run.compactions.append(note)


def type_of(event: AnyEvent) -> str:
    """CloudEvents `type` of an event."""
    if isinstance(event, UnknownEvent):
        return event.kind
    return str(event.__struct_config__.tag)
