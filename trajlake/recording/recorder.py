"""Publishing what an agent does: `from trajlake import Recorder`.

    rec = Recorder(tenant="acme")
    with rec.run(skill="refund", skill_version="3", model="m-large", task_id="t-17") as run:
        with run.step() as step:
            step.respond(message="Let me look.", tool_calls=[{"tool_call_id": "c1", "function_name": "search"}])
            with step.tool("search", {"q": "order 17"}) as call:
                call.result(search("order 17"))
        run.reward("tests", 1.0)

The same works with `async with rec.arun(...)`. The agent is never stopped by what it records: no method raises
because of a value, of Kafka or of the disk, and none waits for them (`trajlake.streams.publish.publisher` names the one
exception, and the one case in which events are lost). Mistakes in the constructor's own arguments do raise.

How long an event is safe, and against what:

- A process that is killed (SIGKILL, out of memory, `os._exit`, SIGTERM without a handler) loses what was recorded in
  about its last 10 ms (20 ms while Kafka is away). All else is in the spool; the next process that starts with the
  same spool folder sends it.
- A normal end of the process, and Ctrl-C, lose nothing: events go to Kafka within `exit_timeout_s`, or stay in the
  spool.
- A power failure loses what the kernel had not written: nothing that Kafka acknowledged, and while Kafka is away
  about one second.
- Each event has an id that stays the same however often it is sent, so landing keeps it once.

Logs go to the logger `trajlake.recording.recorder` and never hold a payload or a value of `kafka_options`.
"""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from trajlake.expectations.events import kafka_key
from trajlake.recording.runs import Run, needs_sequence
from trajlake.recording.steps import Call, Step
from trajlake.streams.publish.envelope import Stamp, format_time, new_id, to_json
from trajlake.streams.publish.parked import read_parked
from trajlake.streams.publish.publisher import EXIT_TIMEOUT_S, QUEUE_BYTES, Publisher
from trajlake.streams.publish.reports import Counts
from trajlake.streams.publish.sender import Target
from trajlake.streams.publish.spool import DEFAULT_LIMIT_BYTES
from trajlake.streams.settings import SettingError, load_settings

if TYPE_CHECKING:
    from trajlake.recording.fields import RunFields

__all__ = ["Call", "Counts", "Recorder", "Run", "Step"]

_PLAIN_RUNS: Final = 10_000


class Recorder:
    """Publishes the events of one tenant's agents. Make one a process, and share it between threads and tasks.

    tenant: who owns the runs; default `TRAJLAKE_TENANT`, else `default`. No `/`, at most 128 characters.
    bootstrap_servers, topic, kafka_options: where to; default from the settings (`trajlake config`). `kafka_options`
    are
        librdkafka properties such as TLS and SASL; they are never shown.
    source: CloudEvents source, a URI reference for the program; default `TRAJLAKE_SOURCE`, else `urn:agent:<program>`.
    spool: folder for events that Kafka does not have yet; default `TRAJLAKE_SPOOL`, else
    `~/.local/state/trajlake/spool`
        (`XDG_STATE_HOME`). Processes may share it. False keeps events in memory only.
    queue_bytes, spool_limit_bytes: most bytes of events in the memory queue, and on disk.
    exit_timeout_s: longest wait for Kafka at the end of the process.

    Raises SettingError (a ValueError) naming the argument that cannot be used.
    """

    def __init__(
        self,
        tenant: str | None = None,
        *,
        bootstrap_servers: str | None = None,
        topic: str | None = None,
        source: str | None = None,
        spool: Path | str | bool | None = None,
        kafka_options: Mapping[str, Any] | None = None,
        queue_bytes: int = QUEUE_BYTES,
        spool_limit_bytes: int = DEFAULT_LIMIT_BYTES,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
    ) -> None:
        given = dict(kafka_options or {})
        # Callbacks (`oauth_cb`) are options of Kafka's client too, but no settings.
        callbacks = {name: value for name, value in given.items() if callable(value)}
        options = {name: _option(value) for name, value in given.items() if name not in callbacks}
        settings = load_settings(bootstrap_servers=bootstrap_servers, events_topic=topic, kafka_options=options or None)
        self.tenant = _check_tenant(tenant or settings.tenant or "default")
        self.source = _check_source(source or settings.source or _default_source())
        target = Target(settings.bootstrap_servers, settings.events_topic, {**settings.kafka_options, **callbacks})
        if target.options:
            _check_options(target)
        self._target = target
        self._publisher = Publisher(
            target,
            _spool_folder(spool, settings.spool),
            queue_bytes=queue_bytes,
            spool_limit_bytes=spool_limit_bytes,
            exit_timeout_s=exit_timeout_s,
        )
        self._plain: OrderedDict[str, Run] = OrderedDict()
        self._has_forgotten = False
        self._open: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
        weakref.finalize(self, self._publisher.retire).atexit = False

    def __repr__(self) -> str:
        return f"<Recorder of {self.tenant} to {self._target.topic} at {self._target.bootstrap_servers}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def counts(self) -> Counts:
        """What became of the events so far."""
        return self._publisher.counts

    def run(
        self,
        *,
        run_id: str | None = None,
        parent: Run | Step | Call | str | None = None,
        traceparent: str | None = None,
        **fields: Unpack[RunFields],
    ) -> Run:
        """One run of an agent, as a context manager for `with` or `async with`.

        It ends as `completed` when it is left, as `failed` with the exception's type when an exception leaves it, as
        `cancelled` on Ctrl-C and on a cancelled task; `Run.end` says otherwise.

        run_id: default a new UUIDv7. Give one only if it is used once: a second run of that id is a conflict.
        parent: the run, step, call or run id that started this one. A call also sets `spawned_by_tool_call_id`.
        traceparent: W3C Trace Context of the surrounding trace.
        fields: those of `agent.run.started`; `skill="a", skill_version="2"` and the like are taken too.
        """
        run = Run(self, run_id, parent, traceparent, fields)
        self._open[run.id] = run
        return run

    arun = run
    """`run` under the name that reads well in `async with rec.arun(...)`; it never waits, so one serves both."""

    def emit(
        self,
        kind: str,
        data: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        sequence: int | None = None,
        event_id: str | None = None,
        time: datetime | None = None,
        subject: str | None = None,
    ) -> str:
        """Publish one event of any type and return its id; "" after an internal error.

        sequence: 1-based within the run. Without it, types that need one get the run's next (`rec.run` and `emit` of
        this recorder count together); a reward or other judgement that comes from outside the run has none. The counts
        of the 10,000 runs that were last used are kept: a run that is taken up again after that many others begins at 1
        anew, and what lands of it then is a conflict, so give such events their sequence. event_id:
        give one that is derived from the source when the same event may be published again. time: when it happened;
        default now.
        """
        try:
            data = {} if data is None else data
            moment = None if time is None else format_time(time)
            event_id = None if event_id is None else str(event_id)
            if run_id is None:
                return self._emit_runless(kind, data, event_id, moment, subject)
            run = self._find_run(str(run_id))
            if sequence is None and needs_sequence(kind):
                sequence = run.take_sequence()
                event_id = event_id or run.event_id(sequence)
            return run.record_apart(kind, data, sequence, event_id, moment)
        except Exception as error:
            self._publisher.reports.error(error)
            return ""

    def flush(self, timeout: float = 30.0) -> int:
        """Wait, at most `timeout` s, until Kafka has what was recorded before. Returns how many events it lacks."""
        return self._publisher.flush(timeout)

    async def aflush(self, timeout: float = 30.0) -> int:
        """`flush` without holding up the event loop."""
        import asyncio

        return await asyncio.to_thread(self._publisher.flush, timeout)

    def close(self, timeout: float = EXIT_TIMEOUT_S) -> int:
        """`flush`, then stop the background thread. What Kafka does not have stays in the spool for the next process.

        Returns how many events that are. Recording afterwards starts again.
        """
        return self._publisher.close(timeout)

    async def aclose(self, timeout: float = EXIT_TIMEOUT_S) -> int:
        """`close` without holding up the event loop."""
        import asyncio

        return await asyncio.to_thread(self._publisher.close, timeout)

    def retry_parked(self, path: Path | str) -> int:
        """Publish the events of a file of parked events again, after what Kafka refused them for was changed.

        Returns how many; the file stays, remove it once they are delivered. Raises OSError when it cannot be read.
        """
        count = 0
        for parked in read_parked(Path(path)):
            count += self._publisher.put(parked.key, parked.event)
        return count

    def _find_run(self, run_id: str) -> Run:
        """The open run of this id, or one that only counts."""
        run = self._open.get(run_id)
        if run is not None:
            return run
        with self._publisher.lock:
            run = self._plain.get(run_id)
            if run is None:
                run = Run(self, run_id)
                run._is_started = True
                self._plain[run_id] = run
                if len(self._plain) > _PLAIN_RUNS:
                    self._plain.popitem(last=False)
                    self._tell_forgotten()
            else:
                self._plain.move_to_end(run_id)
            return run

    def _tell_forgotten(self) -> None:
        """Say once that counts of runs are no longer kept."""
        if not self._has_forgotten:
            self._has_forgotten = True
            self._publisher.reports.say(
                "forgotten runs",
                f"more than {_PLAIN_RUNS:,} runs got events by emit(run_id=...): of the oldest the sequence is "
                "forgotten; pass `sequence` for runs that come back",
                logging.WARNING,
            )

    def _emit_runless(
        self, kind: str, data: Mapping[str, Any], event_id: str | None, moment: bytes | None, subject: str | None
    ) -> str:
        if type(kind) is not str:
            raise TypeError("the type of an event is a text")
        encoded, is_clean = to_json(data)
        if not is_clean:
            self._publisher.reports.altered(kind, ["a value that JSON cannot hold"])
        event_id = event_id or new_id()
        stamp = Stamp(source=self.source, tenant_id=self.tenant, run_id=None, nonce=event_id, subject=subject)
        draft = (stamp, kind, None, event_id, moment or time_ns())
        self._publisher.put(kafka_key(self.tenant, ""), encoded, draft)
        return event_id


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_options(target: Target) -> None:
    """Let Kafka's client look at the options now: in the background nobody would see the mistake."""
    try:
        target.make_producer()
    except ValueError as error:
        raise SettingError("kafka_options", str(error)) from None


def _check_tenant(tenant: object) -> str:
    if not isinstance(tenant, str) or not tenant.strip() or "/" in tenant or len(tenant) > 128:
        raise SettingError("tenant", "must be a text of 1 to 128 characters without '/'")
    return tenant


def _check_source(source: object) -> str:
    if not isinstance(source, str) or not source.strip() or len(source) > 1024:
        raise SettingError("source", "must be a URI reference of 1 to 1024 characters, for example urn:agent:billing")
    return source


def _default_source() -> str:
    program = Path(sys.argv[0]).stem if getattr(sys, "argv", None) and sys.argv[0] else ""
    return f"urn:agent:{program if program not in {'', '-c', '-m', '__main__'} else 'python'}"


def _spool_folder(spool: Path | str | bool | None, setting: str) -> Path | None:
    if spool is False:
        return None
    if spool is None or spool is True:
        spool = setting or (
            Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "trajlake" / "spool"
        )
    return Path(spool).expanduser().absolute()
