"""Runs as context managers that publish events as they are entered and left; `trajlake.recording.steps` has what is
in them.

Each works with `with` and with `async with`, and from any thread. None of them raises because of what it records, and
none waits: they encode the event and put it in the publisher's queue.

A process that was forked inside an open run and goes on using it gets a run of its own there: a child of the run it was
forked from (`parentrunid`, `forked_from_id`), with its own start. The parent's run stays the parent's.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from trajlake.expectations.events import EVENT_TYPES, Unsequenced, kafka_key
from trajlake.recording.shapes import end_of
from trajlake.recording.steps import Call, Context, Step, gather_safely
from trajlake.streams.publish import lifetimes
from trajlake.streams.publish.envelope import Stamp, new_id, to_json

if TYPE_CHECKING:
    from trajlake.recording.fields import (
        AnnotatorKind,
        CallFields,
        CompactionFields,
        EndFields,
        EndState,
        FeedbackFields,
        PolicyFields,
        ResponseFields,
        RewardFields,
        Verdict,
    )
    from trajlake.recording.recorder import Recorder

STARTED: Final = "agent.run.started"
DECIDED: Final = "agent.policy.decided"
COMPACTED: Final = "agent.context.compacted"
FEEDBACK: Final = "agent.feedback.given"
REWARD: Final = "agent.reward.assigned"
ENDED: Final = "agent.run.ended"

MAX_ID_CHARS: Final = 512
_NEEDS_NO_SEQUENCE: Final = frozenset(kind for kind, event in EVENT_TYPES.items() if issubclass(event, Unsequenced))


class Run(Context):
    """One run of an agent. Made by `Recorder.run`; `id` is its run id.

    Events get consecutive sequence numbers from 1 in the order in which they are recorded, whatever the thread.
    """

    def __init__(
        self,
        recorder: Recorder,
        run_id: str | None = None,
        parent: Run | Step | Call | str | None = None,
        traceparent: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        self._recorder = recorder
        self._traceparent = traceparent
        self._fields = dict(fields or {})
        parent_id: str | None = None
        if isinstance(parent, Call):
            self._fields.setdefault("spawned_by_tool_call_id", parent.tool_call_id)
            parent_id = parent._run.id
        elif isinstance(parent, Step):
            parent_id = parent._run.id
        elif parent is not None:
            parent_id = parent.id if isinstance(parent, Run) else _text(parent, MAX_ID_CHARS)
        self._begin(_text(run_id, MAX_ID_CHARS), parent_id)

    def _begin(self, given_id: str | None, parent_id: str | None) -> None:
        self.id = given_id or new_id()
        self.parent_id = parent_id
        self._generation = lifetimes.generation
        self._lock = threading.RLock()
        self._sequence = 0
        self._extra_ids = itertools.count(1)
        self._step_ids = itertools.count(1)
        self._call_ids = itertools.count(1)
        self._is_started = self._is_ended = False
        self._key = kafka_key(self._recorder.tenant, self.id)
        self._stamp = Stamp(
            source=self._recorder.source,
            tenant_id=self._recorder.tenant,
            run_id=self.id,
            # A run id that was given may be given again, by a restarted process: its events must not look like these.
            nonce=new_id() if given_id else self.id,
            parent_run_id=parent_id,
            traceparent=_text(self._traceparent, MAX_ID_CHARS),
        )

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self._recorder.tenant}>"

    def start(self) -> Self:
        """Publish `agent.run.started`, once. Entering does it, or else the first event of the run."""
        with self._lock:
            if not self._is_started:
                self._is_started = True
                self.record(STARTED, gather_safely(self._recorder, self._fields))
        return self

    def step(self, **fields: Unpack[ResponseFields]) -> Step:
        """One decision of the agent. `fields` are those of its response, as far as they are known already."""
        return Step(self, fields)

    def tool(
        self, name: str, arguments: Any = None, *, tool_call_id: str | None = None, **fields: Unpack[CallFields]
    ) -> Call:
        """A tool call outside any `step`; it belongs to the newest one."""
        return Call(self, None, name, arguments, tool_call_id or self._new_call_id(), fields)

    def reward(
        self,
        name: str,
        score: float | None,
        *,
        annotator_kind: AnnotatorKind = "code",
        **fields: Unpack[RewardFields],
    ) -> str:
        """Publish `agent.reward.assigned` and return its event id. A score that is not finite becomes null, never 0."""
        data: dict[str, Any] = {"name": name, "score": score, "annotator_kind": annotator_kind, **fields}
        if isinstance(score, float) and not math.isfinite(score):
            data["score"] = None
            data.setdefault("explanation", f"the grader gave {score}, which is no score")
        return self._judge(REWARD, data)

    def feedback(self, score: float | None = None, **fields: Unpack[FeedbackFields]) -> str:
        """Publish `agent.feedback.given`: what a person said. Returns the event id."""
        return self._judge(FEEDBACK, {"score": score, **fields})

    def policy(self, policy_id: str, verdict: Verdict, **fields: Unpack[PolicyFields]) -> str:
        """Publish `agent.policy.decided`. Returns the event id."""
        return self._judge(DECIDED, {"policy_id": policy_id, "verdict": verdict, **fields})

    def compacted(self, summary: Any = None, **fields: Unpack[CompactionFields]) -> str:
        """Publish `agent.context.compacted`: a summary replaced earlier turns. Returns the event id."""
        return self.record(COMPACTED, gather_safely(self._recorder, {"summary": summary, **fields}))

    def end(self, end_state: EndState | None = None, **fields: Unpack[EndFields]) -> None:
        """Publish `agent.run.ended`, once. What is judged afterwards (`reward`) still belongs to the run."""
        self._end({"end_state": end_state or "completed", **fields})

    def emit(self, kind: str, data: Mapping[str, Any] | None = None) -> str:
        """Publish any other event of this run, in its sequence. Returns the event id."""
        return self.record(kind, {} if data is None else data)

    def record(self, kind: str, data: Mapping[str, Any]) -> str:
        """Encode one event, give it the run's next sequence number, and put it in the publisher's queue.

        Returns its id, or "" after an internal error.
        """
        publisher = self._recorder._publisher
        try:
            encoded = self._encode(kind, data)
            with self._lock:
                if not self._is_started:
                    self.start()
                sequence = self._sequence = self._sequence + 1
                publisher.put(self._key, encoded, (self._stamp, kind, sequence, None, time.time_ns()))
            return self.event_id(sequence)
        except Exception as error:
            publisher.reports.error(error)
            return ""

    def record_apart(
        self,
        kind: str,
        data: Mapping[str, Any],
        sequence: int | None,
        event_id: str | None = None,
        moment: bytes | None = None,
    ) -> str:
        """`record` with a sequence number that the caller knows, or with none. `moment`: RFC 3339, default now."""
        publisher = self._recorder._publisher
        try:
            encoded = self._encode(kind, data)
            with self._lock:
                if not self._is_started:
                    self.start()
                if sequence is None:
                    event_id = event_id or f"{self._stamp.nonce}:u{next(self._extra_ids)}"
                else:
                    self._sequence = max(self._sequence, sequence)
                    event_id = event_id or f"{self.id}:{sequence}"
                publisher.put(self._key, encoded, (self._stamp, kind, sequence, event_id, moment or time.time_ns()))
            return event_id
        except Exception as error:
            publisher.reports.error(error)
            return ""

    def _encode(self, kind: str, data: Mapping[str, Any]) -> bytes:
        if self._generation != lifetimes.generation:
            self._go_on_in_child()
        if type(kind) is not str:
            raise TypeError("the type of an event is a text")
        encoded, is_clean = to_json(data)
        if not is_clean:
            self._recorder._publisher.reports.altered(kind, ["a value that JSON cannot hold"])
        return encoded

    def take_sequence(self) -> int:
        """The next sequence number, to be used with `record_apart`."""
        with self._lock:
            if not self._is_started:
                self.start()
            self._sequence += 1
            return self._sequence

    def event_id(self, sequence: int) -> str:
        """The id of this run's event of that number."""
        return f"{self._stamp.nonce}:{sequence}"

    def _judge(self, kind: str, fields: Mapping[str, Any]) -> str:
        # The end closes the sequence; a sequenced event behind it would open the run again.
        data = gather_safely(self._recorder, fields)
        return self.record_apart(kind, data, None) if self._is_ended else self.record(kind, data)

    def _end(self, fields: Mapping[str, Any]) -> None:
        with self._lock:
            if self._is_ended and self._generation == lifetimes.generation:
                return
            self.record(ENDED, gather_safely(self._recorder, fields))
            self._is_ended = True

    def _leave(self, error: BaseException | None) -> None:
        self._end(end_of(error))

    def _new_call_id(self) -> str:
        return f"call-{next(self._call_ids)}"

    def _go_on_in_child(self) -> None:
        was = self.id
        self._begin(None, was)
        self._fields["forked_from_id"] = was


def needs_sequence(kind: str) -> bool:
    """Whether landing refuses an event of this type without a sequence number."""
    return kind in EVENT_TYPES and kind not in _NEEDS_NO_SEQUENCE


def _text(value: object, limit: int) -> str | None:
    """An id that somebody gave, as text of legal length; None where none was given or it cannot be read."""
    try:
        return str(value).encode(errors="backslashreplace").decode()[:limit] if value is not None else None
    except Exception:
        return None
