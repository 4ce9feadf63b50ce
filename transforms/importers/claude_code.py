"""Claude Code session files: JSON Lines, one record a message, tool result, attachment or note of the harness.

The format is not published; the rules come from session files and from readers of them (claude-code-log, inspect_swe,
ccusage, claude-convos). A session is a run; so is what follows a `/clear`, and so is each sub-agent. Files that are
imported together are related: a sub-agent's file finds the call that spawned it, and history that a resumed session
copied is marked, so that its tokens count once.

Types that only describe the session (`summary`, `queue-operation`, `file-history-snapshot`, `progress`, ...) make no
events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trajlake.expectations.events import Named, RunStarted
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.claude_responses import Entry
from trajlake.transforms.importers.claude_routes import CONVERSATION, Route, Router, hashed, is_clear, is_usable
from trajlake.transforms.importers.claude_survey import (
    SPAWNING_TOOLS,
    Relations,
    Spawn,
    Survey,
    relate,
    response_key,
    run_id,
    survey,
)
from trajlake.transforms.importers.claude_threads import Thread
from trajlake.transforms.importers.format import Format, Values
from trajlake.transforms.importers.framing import Value
from trajlake.transforms.importers.origin import Imported, ImportProblem, Origin, Scribe, digest
from trajlake.transforms.importers.sample import Sample

NAME: Final = "claude-code"
_NOTES_OF_A_SESSION = frozenset({"summary", "file-history-snapshot", "queue-operation", "last-prompt", "custom-title"})
_COMPACTIONS = frozenset({"compact_boundary", "microcompact_boundary"})


class ClaudeCode(Format):
    name = NAME
    title = "Claude Code session file"

    def fits(self, sample: Sample) -> bool:
        if sample.shape not in ("lines", "document"):
            return False
        bodies = sample.objects
        return any(_is_record(body) for body in bodies) or (
            bool(bodies) and all(body.get("type") in _NOTES_OF_A_SESSION for body in bodies)
        )

    def survey(self, values: Values, origin: Origin) -> Survey:
        return survey(values, origin.file)

    def relate(self, surveys: Sequence[Any]) -> Relations:
        return relate(surveys)

    def read(self, values: Values, origin: Origin, survey: Any, relations: Any) -> Iterator[Imported]:
        reader = _Reader(origin, survey, relations)
        for value in values:
            if isinstance(value, ImportProblem):
                yield value
            else:
                yield from reader.take(value)
        yield from reader.close()


FORMAT: Final = ClaudeCode()


class _Reader:
    """Reads one file: hands each record to the thread of its run."""

    def __init__(self, origin: Origin, found: Survey, relations: Relations) -> None:
        self.origin = origin
        self.homes = found.homes
        self.relations = relations
        self.router = Router(origin.file)
        self.threads: dict[str, Thread] = {}
        self.prompts: dict[str, Spawn] = {}
        self.repeats: dict[str, int] = {}

    def take(self, value: Value) -> Iterator[Imported]:
        """The events that a record makes certain."""
        record = value.body
        if not isinstance(record, dict):
            yield ImportProblem(self.origin.file, value.place, "not a record: no JSON object")
            return
        kind = record.get("type")
        if not is_usable(record):
            yield ImportProblem(self.origin.file, value.place, f"a record of type {kind} without a message")
            return
        route = self.router.route(record)
        orphan_of = self._orphan_of(record)
        repeated = self.router.note(record)
        if route is None or (repeated and kind != "assistant"):
            return
        if is_clear(record):
            yield from self._clear(record, route, value.place)
            return
        if kind in CONVERSATION or kind in ("attachment", "system"):
            forked_from = self._forked_from(record, route)
            entry = Entry(record, value.place, self._uid(record), forked_from, orphan_of, repeated)
            yield from self._dispatch(entry, route)
        if orphan_of is not None:
            reason = "hangs on a record that no file given holds; kept, with gap orphan_parent"
            yield ImportProblem(self.origin.file, value.place, reason, kept=True)

    def close(self) -> Iterator[Imported]:
        """The file is over: so are all its runs."""
        for thread in self.threads.values():
            yield from thread.close()

    def _dispatch(self, entry: Entry, route: Route) -> Iterator[Imported]:
        record = entry.record
        kind, subtype = record.get("type"), record.get("subtype")
        if kind == "system" and subtype not in _COMPACTIONS and subtype != "api_error":
            return
        thread = self._thread(entry, route)
        if entry.forked_from is not None and not route.is_sidechain:
            thread.note_fork(entry.forked_from)
        if kind == "assistant":
            self._note_prompts(entry, thread)
            yield from thread.assistant(entry)
        elif kind == "attachment":
            thread.attachment(entry)
        elif kind == "system":
            if subtype == "api_error":
                thread.retried(entry)
            else:
                yield from thread.compacted(entry)
        elif record.get("isCompactSummary") is True:
            yield from thread.summary(entry)
        else:
            yield from thread.user(entry)

    def _thread(self, entry: Entry, route: Route) -> Thread:
        run = run_id(route, self.homes)
        thread = self.threads.get(run)
        if thread is None:
            spawn = self._spawn(entry, route)
            parent = spawn.run_id if spawn else None
            if route.is_sidechain and parent is None:
                parent = run_id(Route(route.session), self.homes)
            started = self._started(entry, route, spawn)
            thread = self.threads[run] = Thread(Scribe(self.origin, run, parent), started)
        return thread

    def _started(self, entry: Entry, route: Route, spawn: Spawn | None) -> RunStarted:
        version = fields.text(entry.record.get("version"))
        kind = spawn.kind if spawn else None
        name = f"{NAME}/{kind}" if kind else NAME
        return RunStarted(
            agent=Named(name, version),
            skill=Named(self.origin.skill or name),
            framework=Named(NAME, version),
            session_id=route.session if route.is_sidechain else run_id(Route(route.session), self.homes),
            spawned_by_tool_call_id=spawn.tool_call_id if spawn else None,
            origin=self.origin.label,
        )

    def _spawn(self, entry: Entry, route: Route) -> Spawn | None:
        if not route.is_sidechain:
            return None
        known = self.relations.spawns.get((route.session, route.agent_id)) if route.agent_id else None
        prompt = fields.flat(entry.message.get("content"))
        asked = self.prompts.pop(digest(prompt), None) if isinstance(prompt, str) else None
        return known or asked

    def _note_prompts(self, entry: Entry, thread: Thread) -> None:
        """Remember what sub-agents are asked: the oldest ones are known by nothing else."""
        for block in fields.sequence(entry.message.get("content")):
            block = fields.mapping(block)
            asked = fields.mapping(block.get("input"))
            if block.get("name") in SPAWNING_TOOLS and isinstance(asked.get("prompt"), str):
                kind = fields.text(asked.get("subagent_type"))
                self.prompts[digest(asked["prompt"])] = Spawn(thread.scribe.run_id, str(block.get("id")), kind)

    def _clear(self, record: dict[str, Any], route: Route, place: str) -> Iterator[Imported]:
        thread = self.threads.pop(run_id(route, self.homes), None)
        self.router.clear(fields.text(record.get("uuid")) or place)
        if thread is not None:
            yield from thread.close("clear")

    def _uid(self, record: dict[str, Any]) -> str:
        """The record's uuid; else a digest of it, numbered where equal ones repeat."""
        uuid = fields.text(record.get("uuid"))
        if uuid is not None:
            return uuid
        content = digest(record)
        self.repeats[content] = self.repeats.get(content, 0) + 1
        return content if self.repeats[content] == 1 else f"{content}.{self.repeats[content]}"

    def _orphan_of(self, record: dict[str, Any]) -> str | None:
        parent = record.get("parentUuid")
        if record.get("type") not in CONVERSATION or not isinstance(parent, str) or not parent:
            return None
        key = hashed(parent)
        return None if self.router.knows(parent) or key in self.relations.tails else fields.text(parent)

    def _forked_from(self, record: dict[str, Any], route: Route) -> str | None:
        """Session whose history a record repeats, or that a session's first record hangs on."""
        stated = fields.text(fields.mapping(record.get("forkedFrom")).get("sessionId"))
        if stated is not None:
            return stated
        if route.is_sidechain:
            return None
        home = run_id(Route(route.session), self.homes)
        if home != route.session:
            return route.session
        key = response_key(record)
        made_in = self.relations.origins.get(key) if key is not None else None
        if made_in is not None and made_in != home:
            return made_in
        if record.get("type") == "assistant" or self.router.knows(record.get("parentUuid")):
            return None
        parent = hashed(record.get("parentUuid"))
        hangs_on = self.relations.tails.get(parent) if parent is not None else None
        return hangs_on if hangs_on != home else None


def _is_record(body: dict[str, Any]) -> bool:
    kind, message = body.get("type"), body.get("message")
    if not isinstance(kind, str):
        return False
    if {"uuid", "parentUuid", "sessionId"} <= body.keys():
        return True
    says_so = kind in CONVERSATION and isinstance(message, dict) and message.get("role", kind) == kind
    return says_so and ("uuid" in body or "sessionId" in body)
