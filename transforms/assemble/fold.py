"""Assembly: the fold that turns a partition's events, in log order, into steps, runs and rewards.

A pure function of the log. It reads no clock: time comes from the records' append times and from `trajlake.tick`
events. The same events in the same order give the same rows with the same `offset`, wherever batches end and however
often the worker restarts.

Order within a run is the event's `sequence`. What comes early is held until its predecessors are there; what comes
twice is refused as a duplicate; what never comes is a gap once a tick says so. Results pair with calls by id only.

The caller reads the output lists after each batch and starts them anew with `take`.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from trajlake.expectations.events import (
    ContextCompactedEvent,
    FeedbackGivenEvent,
    ModelRespondedEvent,
    PolicyDecidedEvent,
    Reclassify,
    RewardAssignedEvent,
    RunEnded,
    RunEndedEvent,
    RunStarted,
    RunStartedEvent,
    Tick,
    ToolCalledEvent,
    ToolReturnedEvent,
)
from trajlake.expectations.reasons import Gap, Reason, Stage
from trajlake.transforms.assemble import openrun, opensteps
from trajlake.transforms.assemble.pairing import remember_answers
from trajlake.transforms.assemble.restated import Restated
from trajlake.transforms.assemble.runs import RunRow, run_row
from trajlake.transforms.assemble.state import (
    RUN_BYTES,
    SNAPSHOT_FORMAT,
    GapNote,
    Head,
    Held,
    OpenRun,
    OpenStep,
    PartitionState,
    RedactionNote,
)
from trajlake.transforms.assemble.steps import StepRow, emit_step
from trajlake.transforms.records import AnyEvent, Rejected

MAX_OPEN_STEPS: Final = 128
"""Steps kept open per run. What is unanswered or unfinished after so many more decisions is emitted as it is."""
_HELD_BYTES: Final = 200
_DIGEST_BYTES: Final = 64
"""What a held event costs besides its text, and what the memory of an event without sequence costs."""

_crc32 = zlib.crc32
_NO_START = RunStarted()


class RewardRow(NamedTuple):
    """One reward or feedback event, with the offset at which its turn came."""

    event: RewardAssignedEvent | FeedbackGivenEvent
    offset: int
    late: bool


class Rows(NamedTuple):
    """What the fold emitted, each list in the order of `offset`."""

    steps: list[StepRow]
    runs: list[RunRow]
    rewards: list[RewardRow]


class Assembler:
    """The fold of one partition.

    `redecode`: turns a ledger text back into an event; needed for events that were held for their predecessors.
    `closed_runs_kept`: closed runs remembered, oldest forgotten first; they also are when they hold more than a
    quarter of `state_max_bytes`, which is what open runs may hold: above it the runs opened first are closed as
    abandoned, with gap `evicted`, until half is free. `fingerprint`: goes into every snapshot.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        redecode: Callable[[bytes], AnyEvent],
        *,
        closed_runs_kept: int = 20_000,
        state_max_bytes: int = 512 << 20,
        state: PartitionState | None = None,
        fingerprint: str = "",
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._redecode = redecode
        self._fingerprint = fingerprint
        self.limit(closed_runs_kept, state_max_bytes)
        self.open: dict[bytes, OpenRun] = {}
        self.closed: OrderedDict[bytes, OpenRun] = OrderedDict()
        self.offset = -1
        self.held_bytes = 0
        self.closed_bytes = 0
        """Sums of the runs' `held_bytes`, of open and of closed ones."""
        self._holding = 0
        self._restated = Restated()
        self.catches: Callable[[AnyEvent], bool] | None = None
        """Set where runs may have been erased: whether a start shows that its run is one of them."""
        self.caught: list[bytes] = []
        """Keys of open runs whose start came late and showed that they are erased; for the caller to drop."""
        if state is not None:
            self._restore(state)
        self._rows = Rows([], [], [])
        self._now_us = 0
        self._event_us = 0
        """Append times: of the record that the log brings, and of the event that is folded, which may have waited."""
        self._dispatch: dict[type, Callable[[OpenRun, AnyEvent, int, int], None]] = {
            RunStartedEvent: self._run_started,
            ModelRespondedEvent: self._model_responded,
            ToolCalledEvent: opensteps.tool_called,
            ToolReturnedEvent: opensteps.tool_returned,
            PolicyDecidedEvent: opensteps.policy_decided,
            ContextCompactedEvent: openrun.context_compacted,
            FeedbackGivenEvent: self._rewarded,
            RewardAssignedEvent: self._rewarded,
            RunEndedEvent: self._run_ended,
        }

    def limit(self, closed_runs_kept: int, state_max_bytes: int) -> None:
        """Set the limits of the memory; they hold from the next record on."""
        self._closed_runs_kept = closed_runs_kept
        self._state_max_bytes = state_max_bytes
        self._closed_max_bytes = state_max_bytes // 4

    # The log's side

    def apply(
        self,
        event: AnyEvent,
        offset: int,
        append_us: int,
        key: bytes,
        text: bytes,
        gaps: list[GapNote] | None = None,
        redactions: list[RedactionNote] | None = None,
    ) -> Rejected | None:
        """Fold one event of a run. `key` is `kafka_key` of the event and has been checked.

        `gaps`, `redactions`: what decoding assumed and what redaction removed. Returns a rejection when the event is a
        duplicate or conflicts with another: it is not in the ledger after all.
        """
        self.offset = offset
        self._now_us = append_us
        run = self.open.get(key)
        if run is None:
            run = self._admit(event, offset, append_us, key)
        sequence = event.sequence
        if sequence == run.next_sequence:
            run.next_sequence = sequence + 1
            run.seen += _crc32(event.id.encode()).to_bytes(4, "little")
        elif sequence is None:
            if not self._first_time(run, event):
                return _refused(run, event, text, Reason.DUPLICATE)
        elif sequence > run.next_sequence:
            held = run.held.get(sequence)
            if held is not None and held.reason is None:
                same = held.event_id == event.id
                return _refused(run, event, text, Reason.DUPLICATE if same else Reason.SEQUENCE_CONFLICT)
            run.event_count += 1
            if run.ended is not None:
                openrun.add_gap(run, Gap.EVENT_AFTER_END, None)
            self._hold(run, sequence, Held(offset, append_us, event.id, text, gaps, redactions))
            if self.held_bytes > self._state_max_bytes:
                self._evict()
            return None
        elif (refused := self._late(run, event, sequence, text)) is not None:
            return refused
        run.last_append_us = append_us
        run.event_count += 1
        self._event_us = append_us
        self._fold(run, event, offset, len(text), gaps, redactions)
        if run.held:
            self._release_held(run)
        if run.ended is not None and not run.closed and not run.held:
            self._close(run)
        if self.held_bytes > self._state_max_bytes:
            self._evict()
        if self.closed_bytes > self._closed_max_bytes:
            # Rewards and feedback add to a closed run without opening it.
            self._trim_closed(run)
        return None

    def skip(self, key: bytes, sequence: int, offset: int, append_us: int, reason: Reason) -> None:
        """A record of a known run went to quarantine: its sequence number is used up, and the run knows why."""
        self.offset = offset
        self._now_us = append_us
        run = self.open.get(key)
        if run is None or sequence < run.next_sequence or sequence in run.held:
            return
        self._hold(run, sequence, Held(offset, append_us, "", b"", reason=reason.value))
        self._release_held(run)
        if run.ended is not None and not run.held:
            self._close(run)
        if self.held_bytes > self._state_max_bytes:
            self._evict()

    def pass_by(self, offset: int) -> None:
        """Note that the log moved on to `offset` without anything to fold."""
        self.offset = offset

    def tick(self, tick: Tick, offset: int, append_us: int) -> None:
        """Apply the limits that a tick wrote into the log."""
        self.offset = offset
        self._now_us = append_us
        if self._holding:
            limit = append_us - tick.release_held_after_us
            for run in [run for run in self.open.values() if run.held and run.held_since_us < limit]:
                self._give_up_waiting(run, limit)
        limit = append_us - tick.close_idle_after_us
        for run in [run for run in self.open.values() if run.last_append_us < limit]:
            self._give_up_waiting(run)
            if not run.closed:
                self._close(run)
        limit = append_us - tick.forget_closed_after_us
        for key in [key for key, run in self.closed.items() if run.last_append_us < limit]:
            self._forget(key)

    def reclassify(self, asked: Reclassify, key: bytes, offset: int) -> bool:
        """An operator asks at `offset` for a closed run to be classified again.

        Returns whether the row that the request names is still the run's newest: then revisions move on, and the caller
        makes the rows. A run that goes on is left alone: its next close says what it comes to.
        """
        self.offset = offset
        if self._restated.since(asked.first_offset, asked.seen):
            return False
        run = self.known(key)
        if run is not None and run.first_offset == asked.first_offset:
            if not run.closed or run.revision != asked.revision + 1:
                return False
            again = {step.step_index for step in asked.steps}
            run.revision += 1
            for step in run.steps:
                step.revision += step.index in again
        self._restated.note(asked.first_offset, offset)
        return True

    def due(self, idle_before_us: int, held_before_us: int, forget_before_us: int) -> bool:
        """Whether a tick with these limits would do anything now."""
        if any(run.last_append_us < forget_before_us for run in self.closed.values()):
            return True
        return any(
            run.last_append_us < idle_before_us or (run.held and run.held_since_us < held_before_us)
            for run in self.open.values()
        )

    # The caller's side

    def take(self) -> Rows:
        """The rows since the last call; the lists start anew."""
        rows, self._rows = self._rows, Rows([], [], [])
        return rows

    def snapshot(self) -> PartitionState:
        """State after `offset`. Shares its structs with the fold: encode it before the next `apply`."""
        return PartitionState(
            SNAPSHOT_FORMAT,
            self.topic,
            self.partition,
            self.offset,
            list(self.open.values()),
            list(self.closed.values()),
            self._fingerprint,
            restated=self._restated.entries(),
            restated_floor=self._restated.floor,
        )

    def _restore(self, state: PartitionState) -> None:
        self.offset = state.offset
        self.open = {run.key: run for run in state.open_runs}
        self.closed = OrderedDict((run.key, run) for run in state.closed_runs)
        self._holding = sum(bool(run.held) for run in state.open_runs)
        self.held_bytes = sum(run.held_bytes for run in state.open_runs)
        self.closed_bytes = sum(run.held_bytes for run in state.closed_runs)
        self._restated = Restated(state.restated, state.restated_floor)

    # Order within the run

    def _admit(self, event: AnyEvent, offset: int, append_us: int, key: bytes) -> OpenRun:
        """The run of a key that is not open: a closed one that may go on, or a new one."""
        run = self.closed.get(key)
        if run is not None:
            return run
        head = Head(event.tenantid, event.runid or "", _NO_START, event.parentrunid)
        run = self.open[key] = OpenRun(key, head, offset, append_us)
        self.held_bytes += RUN_BYTES
        return run

    def _first_time(self, run: OpenRun, event: AnyEvent) -> bool:
        """Whether an event without a sequence is the first of its id in the run."""
        digest = int.from_bytes(hashlib.blake2b(event.id.encode(), digest_size=8).digest(), "little")
        if digest in run.unsequenced:
            return False
        run.unsequenced[digest] = True
        self._charge(run, _DIGEST_BYTES)
        return True

    def _late(self, run: OpenRun, event: AnyEvent, sequence: int, text: bytes) -> Rejected | None:
        """Judge an event whose sequence number has passed: a duplicate, a conflict, or one that was given up.

        The last is folded where the run stands now.
        """
        if sequence < run.seen_from:
            detail = f"sequence {sequence} lies before a hole so long that the run's memory begins behind it"
            return _refused(run, event, text, Reason.SEQUENCE_CONFLICT, detail)
        mark = openrun.seen_mark(run, sequence)
        if mark is None:
            self._reopen(run)
            before = run.held_bytes
            openrun.fill(run, sequence, event.id)
            self._account(run, run.held_bytes - before)
            run.late = True
            return None
        same = mark == openrun.mark_of(event.id)
        return _refused(run, event, text, Reason.DUPLICATE if same else Reason.SEQUENCE_CONFLICT)

    def _hold(self, run: OpenRun, sequence: int, held: Held) -> None:
        """Keep an event (or the sign of a quarantined record) until its predecessors are there."""
        self._reopen(run)
        run.last_append_us = held.append_us
        if not run.held:
            self._holding += 1
        earlier = run.held.pop(sequence, None)
        run.held[sequence] = held
        run.held_since_us = next(iter(run.held.values())).append_us
        self._charge(run, _weight(held) - (_weight(earlier) if earlier is not None else 0))

    def _release_held(self, run: OpenRun) -> None:
        """Apply held events as long as the next one is there."""
        if not run.held:
            return
        while (held := run.held.pop(run.next_sequence, None)) is not None:
            self._charge(run, -_weight(held))
            if held.reason is not None:
                before = run.held_bytes
                openrun.pass_quarantined(run, held.reason)
                self._account(run, run.held_bytes - before)
                continue
            run.next_sequence += 1
            run.seen += openrun.mark_of(held.event_id)
            event = self._redecode(held.text)
            self._event_us = held.append_us
            self._fold(run, event, held.offset, len(held.text), held.gaps, held.redactions)
        if not run.held:
            self._holding -= 1
        else:
            # Since the first of those that still wait: a run in disorder all along waits for none of them long.
            run.held_since_us = next(iter(run.held.values())).append_us

    def _give_up_waiting(self, run: OpenRun, since_before_us: int | None = None) -> None:
        """Record missing sequence numbers and apply what was held for them, if anything waits `since_before_us`."""
        last = None
        if since_before_us is not None:
            last = max(sequence for sequence, held in run.held.items() if held.append_us < since_before_us)
        for following in sorted(run.held):
            if last is not None and following > last:
                break
            if following in run.held:
                before = run.held_bytes
                openrun.give_up(run, following)
                self._account(run, run.held_bytes - before)
                self._release_held(run)
        if run.ended is not None and not run.closed and not run.held:
            self._close(run)

    def _charge(self, run: OpenRun, grown: int) -> None:
        run.held_bytes += grown
        self._account(run, grown)

    def _account(self, run: OpenRun, grown: int) -> None:
        if run.closed:
            self.closed_bytes += grown
        else:
            self.held_bytes += grown

    # One event

    def _fold(
        self,
        run: OpenRun,
        event: AnyEvent,
        offset: int,
        size: int,
        gaps: list[GapNote] | None,
        redactions: list[RedactionNote] | None,
    ) -> None:
        if run.closed or run.ended is not None:
            self._meet_end(run, event)
        before = run.held_bytes
        time = event.time
        if time is not None:
            last = run.last_time
            if last is None or run.first_time is None:
                run.first_time = run.last_time = time
                run.last_time_append_us = self._event_us
            elif time > last:
                run.last_time = time
                run.last_time_append_us = self._event_us
            elif time < run.first_time:
                run.first_time = time
        handler = self._dispatch.get(event.__class__)
        if handler is not None:
            handler(run, event, offset, size)
        if gaps is not None:
            for code, detail in gaps:
                openrun.add_gap(run, code, detail)
        if redactions is not None:
            run.redactions = openrun.sum_redactions(run.redactions, redactions)
            opensteps.note_redactions(run, event, redactions)
        if run.closed:
            self.closed_bytes += run.held_bytes - before
        else:
            self.held_bytes += run.held_bytes - before

    def _run_started(self, run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
        assert isinstance(event, RunStartedEvent)
        if self.catches is not None and self.catches(event):
            self.caught.append(run.key)
        if run.has_start:
            openrun.add_gap(run, Gap.SECOND_START, None)
            return
        run.has_start = True
        run.head = Head(event.tenantid, event.runid, event.data, event.parentrunid or run.head.parent_run_id)
        run.held_bytes += size
        run.skew_us = openrun.skew(run.skew_us, event.time, self._event_us)

    def _model_responded(self, run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
        opensteps.model_responded(run, event, offset, size)
        if len(run.steps) > 1:
            self._emit_complete(run)

    def _rewarded(self, run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
        assert isinstance(event, RewardAssignedEvent | FeedbackGivenEvent)
        # The row stands at the offset at which its turn came, as all rows do: a restart cuts tables by offset.
        self._rows.rewards.append(RewardRow(event, self.offset, run.revision > 0))
        openrun.rewarded(run, event)

    def _run_ended(self, run: OpenRun, event: AnyEvent, offset: int, size: int) -> None:
        assert isinstance(event, RunEndedEvent)
        earlier = run.ended or run.earlier_end
        run.ended = event.data
        run.held_bytes += size
        run.skew_us = openrun.skew(run.skew_us, event.time, self._event_us)
        if run.revision and run.steps and _flags(earlier) != _flags(run.ended):
            # The row of the last step says how the run ended.
            run.steps[-1].dirty = True

    def _meet_end(self, run: OpenRun, event: AnyEvent) -> None:
        """An event came to a run that has ended or was closed. What changes its rows opens it again."""
        sequence = event.sequence
        if run.ended is not None and sequence is not None and sequence + 1 == run.next_sequence:
            openrun.add_gap(run, Gap.EVENT_AFTER_END, None)
        if sequence is not None or isinstance(event, PolicyDecidedEvent):
            self._reopen(run)

    # Rows

    def _emit(self, run: OpenRun, step: OpenStep, last_index: int | None) -> None:
        if not step.emitted:
            opensteps.count_response(run, step.response, len(step.calls))
            opensteps.answer_of(run, step)
        self._rows.steps.append(emit_step(run, step, self.offset, last_index))

    def _emit_complete(self, run: OpenRun) -> None:
        """Emit the finished steps at the head of the run; the newest one may still get calls, so it stays."""
        steps = run.steps
        done = 0
        while done < len(steps) - 1:
            step = steps[done]
            if (step.open_calls or step.response.partial) and len(steps) - done <= MAX_OPEN_STEPS:
                break
            if not step.emitted or step.dirty or step.was_last:
                self._emit(run, step, None)
            remember_answers(run, step)
            done += 1
        if done:
            del steps[:done]

    def _close(self, run: OpenRun) -> None:
        """Close a run: emit its last steps and its row, and keep a short memory of it."""
        del self.open[run.key]
        self.held_bytes -= run.held_bytes
        if run.next_sequence > 1:
            self._emit_rest(run)
            run.skew_us = openrun.skew(run.skew_us, run.last_time, run.last_time_append_us)
            self._rows.runs.append(run_row(run, self.offset, self._now_us))
            if run.revision:
                self._restated.note(run.first_offset, self.offset)
            run.revision += 1
        # Else all that came is a reward or verdict for a run that is yet to start, or is forgotten: that makes no run.
        run.closed = True
        self.closed[run.key] = run
        self.closed_bytes += run.held_bytes
        self._trim_closed(run)

    def _trim_closed(self, run: OpenRun) -> None:
        """Forget closed runs, oldest first, until the others keep to the limits. `run`: the one that changed."""
        limit = self._closed_max_bytes
        if run.held_bytes > limit and run.key in self.closed:
            # One such run would push out the memory of all others.
            self._forget(run.key)
        while len(self.closed) > self._closed_runs_kept or self.closed_bytes > limit:
            self._forget(next(iter(self.closed)))

    def _emit_rest(self, run: OpenRun) -> None:
        """Emit what has no row yet, or an old one. Steps that wait for results stay, and the last one of the run."""
        opensteps.orphans_to_steps(run)
        last = run.steps[-1].index if run.steps else None
        kept = []
        for step in run.steps:
            if not step.emitted or step.dirty or step.was_last is not (step.index == last):
                self._emit(run, step, last)
            if step.open_calls or step.index == last:
                kept.append(step)
            else:
                remember_answers(run, step)
        run.steps = kept

    def _reopen(self, run: OpenRun) -> None:
        """What changes a closed run came: its next close writes one more revision."""
        if not run.closed:
            return
        run.closed = False
        run.late |= run.revision > 0
        del self.closed[run.key]
        self.closed_bytes -= run.held_bytes
        self.open[run.key] = run
        self.held_bytes += run.held_bytes
        earlier = run.ended if run.ended is not None else run.earlier_end
        run.ended, run.earlier_end = None, earlier

    def known(self, key: bytes) -> OpenRun | None:
        """The run of a key, open or closed, unless it is forgotten."""
        return self.open.get(key) or self.closed.get(key)

    def drop(self, key: bytes) -> None:
        """Forget a run as if it had never come."""
        run = self.open.pop(key, None)
        if run is not None:
            self.held_bytes -= run.held_bytes
            self._holding -= bool(run.held)
        elif key in self.closed:
            self._forget(key)

    def _forget(self, key: bytes) -> None:
        self.closed_bytes -= self.closed.pop(key).held_bytes

    def _evict(self) -> None:
        for run in list(self.open.values()):
            if self.held_bytes <= self._state_max_bytes // 2:
                return
            self.evict(run)

    def evict(self, run: OpenRun) -> None:
        """Close an open run for want of room."""
        openrun.add_gap(run, Gap.EVICTED, None)
        self._give_up_waiting(run)
        if not run.closed:
            self._close(run)


def _flags(end: RunEnded | None) -> tuple[bool | None, bool | None]:
    return (None, None) if end is None else (end.terminated, end.truncated)


def _weight(held: Held) -> int:
    return len(held.text) + _HELD_BYTES


def _refused(run: OpenRun, event: AnyEvent, text: bytes, reason: Reason, detail: str | None = None) -> Rejected:
    """An event that is not in the ledger after all, because another is."""
    if reason is Reason.DUPLICATE:
        run.duplicates += 1
        detail = "an event of this id was applied before"
    return Rejected(
        reason,
        Stage.ASSEMBLE,
        detail or f"another event holds sequence {event.sequence}",
        "id" if event.sequence is None else "sequence",
        event.tenantid,
        event.runid,
        event.id,
        openrun.type_of(event),
        event.sequence,
        keep_payload=reason is not Reason.DUPLICATE,
        text=text,
    )
