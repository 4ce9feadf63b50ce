"""One run of a Claude Code file: its records in order, its events out.

A response of the API is written as several records, one content block each, with the results of early tool calls
between them. They are one step: blocks are gathered until something shows that the response is over, and what came in
between follows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from trajlake.expectations.events import ContextCompacted, Message, RunEnded, RunStarted, ToolReturned
from trajlake.transforms.importers import claude_blocks as blocks
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.claude_responses import Entry, Response, additions_of, opened, responded
from trajlake.transforms.importers.origin import END_OF_FILE, Imported, ImportedEvent, Scribe, digest

INTERRUPTED: Final = "[Request interrupted by user"
_COMMAND_TAGS = ("<command-", "<local-command-", "<bash-")
_EXIT_COMMANDS = ("<command-name>/exit<", "<command-name>/quit<")
_REMEMBERED = 8
"""Responses of a run that may still get more blocks although others have begun."""


class Thread:
    """Gathers one run. Each method takes a record of the run and yields the events that are now certain."""

    def __init__(self, scribe: Scribe, started: RunStarted) -> None:
        self.scribe = scribe
        self.started = started
        self.open_calls: dict[str, str | None] = {}
        self._start_entry: Entry | None = None
        self._has_start = False
        self._spoke = False
        self._pending: list[Message] = []
        self._response: Response | None = None
        self._recent: dict[str, Response] = {}
        self._behind: list[tuple[Entry, dict[str, Any], str | None]] = []
        self._boundary: Entry | None = None
        self._retries: int | None = None
        self._last_uid = ""
        self._last_time: datetime | None = None
        self._last = ""
        self._last_failure: dict[str, Any] = {}
        self._exited = False
        self._orphan_of: str | None = None

    def assistant(self, entry: Entry) -> Iterator[Imported]:
        """One more record of a response, or the first of a new one."""
        message = entry.message
        is_error = entry.record.get("isApiErrorMessage") is True
        if message.get("model") == blocks.SYNTHETIC and not is_error:
            # Written by the harness in the model's name: part of the context, but no decision.
            self._touch(entry)
            self._pending.append(Message("assistant", fields.flat(message.get("content")), "synthetic"))
            return
        key = fields.text(message.get("id")) or entry.uid
        if self._response is None or self._response.key != key:
            if entry.repeated and key not in self._recent:
                return
            yield from self._flush()
            self._response = self._recent.pop(key, None) or self._new_response(key, entry)
        self._touch(entry)
        self._response.gather(entry, is_error)
        self.open_calls |= opened(entry)
        self._last = "error" if is_error else "response"
        self._last_failure = self._response.failure

    def user(self, entry: Entry) -> Iterator[Imported]:
        """A record of role user: results of tools, a prompt, or what the harness put into the context."""
        self._touch(entry)
        content = entry.message.get("content")
        rest = content
        if isinstance(content, list):
            results = [block for block in content if fields.mapping(block).get("type") == "tool_result"]
            for block in results:
                yield from self._result(entry, block)
            rest = [block for block in content if fields.mapping(block).get("type") != "tool_result"]
        text = fields.flat(rest)
        if text is not None:
            yield from self._flush()
            self._prompt(entry, text)

    def attachment(self, entry: Entry) -> None:
        """Something that the harness attached to the context: a queued prompt, a file, a reminder."""
        self._touch(entry)
        attached = fields.mapping(entry.record.get("attachment"))
        kind = fields.text(attached.get("type")) or "unknown"
        prompt = attached.get("prompt")
        queued = kind == "queued_command" and isinstance(prompt, str | list)
        content = fields.flat(prompt) if queued else attached
        self._pending.append(Message("user", content, f"attachment:{kind}"[: fields.TEXT_MAX]))

    def note_fork(self, session: str) -> None:
        """The run goes on from another session. Told in its start, so it must be known before the first event."""
        if not self._has_start and self.started.forked_from_id is None:
            self.started.forked_from_id = session

    def retried(self, entry: Entry) -> None:
        """The harness reports a call of the API that failed and is tried again."""
        attempt = fields.count(entry.record.get("retryAttempt"))
        if attempt is not None:
            self._retries = max(attempt, self._retries or 0)

    def compacted(self, entry: Entry) -> Iterator[Imported]:
        """The context is about to be replaced by a summary, which follows; old results may also only be cut short."""
        self._touch(entry)
        yield from self._flush()
        yield from self._compaction()
        self._boundary = entry
        if entry.record.get("subtype") != "compact_boundary":
            yield from self._compaction()

    def summary(self, entry: Entry) -> Iterator[Imported]:
        """The summary that replaces the turns before it."""
        self._touch(entry)
        yield from self._flush()
        text = fields.flat(entry.message.get("content"))
        yield from self._compaction(entry, text)
        self._pending.append(Message("user", text, "compact_summary"))

    def close(self, stop_condition: str = END_OF_FILE) -> Iterator[Imported]:
        """The run's records are over. A run in which nobody spoke is none, and yields nothing."""
        yield from self._flush()
        if not self._spoke:
            return
        yield from self._start()
        data = RunEnded(
            end_state="completed",
            stop_condition="exit" if self._exited and stop_condition == END_OF_FILE else stop_condition,
            input_messages=self._pending or None,
        )
        if self._last == "error":
            data.end_state = "failed"
            for name, value in self._last_failure.items():
                setattr(data, name, value)
        elif self._last == "interrupted":
            data.end_state = "cancelled"
        elif self.open_calls or self._last != "response":
            data.end_state = "abandoned"
        # An end is another event when the file goes on, or when what follows tells more of how it ended.
        key = f"end:{digest([self._last_uid, msgspec.to_builtins(data)])}"
        additions = additions_of(None, self._orphan_of)
        yield self.scribe.write(key, data, place="end of file", time=self._last_time, additions=additions)

    # Parts of a run

    def _touch(self, entry: Entry) -> None:
        if entry.repeated:
            return
        self._last_uid = entry.uid
        self._last_time = entry.time or self._last_time
        if self._start_entry is None:
            self._start_entry = entry

    def _start(self) -> Iterator[Imported]:
        if self._has_start or self._start_entry is None:
            return
        self._has_start = True
        entry = self._start_entry
        extra = {
            name: entry.record[source]
            for name, source in (
                ("cwd", "cwd"),
                ("git_branch", "gitBranch"),
                ("slug", "slug"),
                ("entrypoint", "entrypoint"),
            )
            if isinstance(entry.record.get(source), str)
        }
        additions = {"extra": extra} if extra else None
        yield self.scribe.write("start", self.started, place=entry.place, time=entry.time, additions=additions)

    def _prompt(self, entry: Entry, text: Any) -> None:
        self._orphan_of = self._orphan_of or entry.orphan_of
        is_meta = entry.record.get("isMeta") is True
        self._pending.append(Message("user", text, "meta" if is_meta else None))
        said = text if isinstance(text, str) else ""
        if said.startswith(INTERRUPTED):
            self._last = "interrupted"
        elif any(command in said for command in _EXIT_COMMANDS):
            self._exited = True
        elif not is_meta and not said.startswith(_COMMAND_TAGS):
            self._exited = False
            self._last = "prompt"
            self._spoke = True
            if self.started.input is None and not self._has_start:
                self.started.input = text

    def _new_response(self, key: str, entry: Entry) -> Response:
        self._spoke = True
        response = Response(key, entry.place, entry.time, self._pending, retry_count=self._retries)
        response.orphan_of = self._orphan_of
        self._pending, self._retries, self._orphan_of = [], None, None
        return response

    def _result(self, entry: Entry, block: dict[str, Any]) -> Iterator[Imported]:
        name = self.open_calls.pop(str(block.get("tool_use_id")), None)
        self._last = "result"
        if self._response is not None:
            self._behind.append((entry, block, name))
        else:
            yield from self._start()
            yield self._returned(entry, block, name)

    def _flush(self) -> Iterator[Imported]:
        """Write the gathered response, then what came while it was being gathered."""
        response, self._response = self._response, None
        if response is None:
            return
        revision = response.revision
        if revision != response.written_as:
            yield from self._compaction()
            yield from self._start()
            written = self.scribe.write(
                f"{response.key}:{revision}",
                responded(response),
                place=response.place,
                time=response.time,
                additions=additions_of(response.request_id, response.orphan_of),
            )
            if not isinstance(written, ImportedEvent):
                self._pending = [*response.input_messages, *self._pending]
            yield written
            response.written_as = revision
        self._recent[response.key] = response
        if len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        behind, self._behind = self._behind, []
        for entry, block, name in behind:
            yield self._returned(entry, block, name)

    def _returned(self, entry: Entry, block: dict[str, Any], name: str | None) -> Imported:
        self._spoke = True
        call = block.get("tool_use_id") if isinstance(block.get("tool_use_id"), str) else ""
        content = fields.flat(block.get("content"))
        is_error = block.get("is_error") is True
        took = fields.mapping(entry.record.get("toolUseResult"))
        latency = fields.number(took.get("durationMs", took.get("totalDurationMs")))
        data = ToolReturned(
            tool_call_id=str(call),
            function_name=name,
            content=content,
            is_error=is_error,
            exit_code=blocks.exit_code(content) if is_error else None,
            latency_ms=latency if latency is not None and latency >= 0 else None,
        )
        return self.scribe.write(
            f"r:{call}:{entry.uid}",
            data,
            place=entry.place,
            time=entry.time,
            additions=additions_of(None, entry.orphan_of),
        )

    def _compaction(self, summary: Entry | None = None, text: Any = None) -> Iterator[Imported]:
        boundary, self._boundary = self._boundary, None
        entry = boundary or summary
        if entry is None:
            return
        yield from self._start()
        record = entry.record
        meta = fields.mapping(record.get("compactMetadata") or record.get("microcompactMetadata"))
        before, saved = fields.count(meta.get("preTokens")), fields.count(meta.get("tokensSaved"))
        after = fields.count(meta.get("postTokens"))
        if after is None and before is not None and saved is not None and saved <= before:
            after = before - saved
        trigger = fields.text(meta.get("trigger"))
        if record.get("subtype") == "microcompact_boundary":
            trigger = f"microcompact:{trigger or 'unknown'}"
        data = ContextCompacted(summary=text, trigger=trigger, tokens_before=before, tokens_after=after)
        self._spoke = True
        yield self.scribe.write(f"compact:{entry.uid}", data, place=entry.place, time=entry.time)
