"""First look at Claude Code files: what must be known of all of them before events of one are made.

Three things cannot be told while reading a file once: that a session goes on in another one further down, which call
of which run spawned the sub-agent that has a file of its own, and which responses stand in several files because a
session was resumed by copying.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trajlake.transforms.decode.timestamps import micros
from trajlake.transforms.importers import fields
from trajlake.transforms.importers.claude_routes import CONVERSATION, Route, Router, hashed, is_clear, is_usable
from trajlake.transforms.importers.framing import Value
from trajlake.transforms.importers.origin import ImportProblem, digest

SPAWNING_TOOLS: Final = ("Task", "Agent")

_TAIL = 64
"""Last records of a session that a resumed one may hang on."""


class Spawn(NamedTuple):
    """The call that started a sub-agent: the caller's run id, the call's id, the kind of agent asked for."""

    run_id: str
    tool_call_id: str
    kind: str | None


@dataclass
class Survey:
    """What one file says. Keys are 64-bit hashes; times are microseconds since the Unix epoch."""

    homes: dict[str, str] = field(default_factory=dict)
    spawns: dict[tuple[str, str], tuple[Route, str]] = field(default_factory=dict)
    """(session, agent id) -> route of the caller, id of the call."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Id of a spawning call -> kind of agent asked for."""
    responses: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Record of a response that a session calls its own -> session, time.

    Records that say they are copies are not here.
    """
    tail: dict[int, str] = field(default_factory=dict)
    """Last records -> session."""


@dataclass
class Relations:
    """What the files say about each other."""

    spawns: dict[tuple[str, str], Spawn] = field(default_factory=dict)
    origins: dict[int, str] = field(default_factory=dict)
    """Response record that stands in several sessions -> the session that it was made in."""
    tails: dict[int, str] = field(default_factory=dict)


def run_id(route: Route, homes: dict[str, str]) -> str:
    """Id of a route's run.

    Main conversations are told under the session that resumed them, sub-agents under their own.
    """
    session = route.session
    if not route.is_sidechain:
        while (home := homes.get(session, session)) != session:
            session = home
    return f"{session}{route.part}"


def survey(values: Iterable[Value | ImportProblem], file: str) -> Survey:
    """Look through one file."""
    found = Survey()
    router = Router(file)
    responses: dict[int, tuple[Route, int]] = {}
    tail: deque[tuple[int, Route]] = deque(maxlen=_TAIL)
    for value in values:
        if not isinstance(value, Value) or not isinstance(value.body, dict) or not is_usable(value.body):
            continue
        record = value.body
        route = router.route(record)
        repeated = router.note(record)
        if route is None or (repeated and record.get("type") != "assistant"):
            continue
        if is_clear(record):
            router.clear(fields.text(record.get("uuid")) or value.place)
        _note_spawn(found, record, route)
        if record.get("type") in CONVERSATION and (key := hashed(record.get("uuid"))) is not None:
            tail.append((key, route))
        key = response_key(record)
        if key is not None and key not in responses and "forkedFrom" not in record:
            time = fields.moment(record.get("timestamp"))
            responses[key] = (route, micros(time) if time is not None else 0)
    found.homes = router.homes
    found.responses = {
        key: (route.session, time)
        for key, (route, time) in responses.items()
        if router.home(route.session) == route.session
    }
    found.tail = {key: router.home(route.session) for key, route in tail}
    return found


def relate(surveys: Sequence[Survey]) -> Relations:
    """Join the surveys of all files that are imported together."""
    relations = Relations()
    kinds = {call: kind for found in surveys for call, kind in found.kinds.items()}
    for found in surveys:
        for agent, (route, call) in found.spawns.items():
            relations.spawns.setdefault(agent, Spawn(run_id(route, found.homes), call, kinds.get(call)))
        relations.tails |= found.tail
    relations.origins = _origins(surveys)
    return relations


def response_key(record: dict[str, Any]) -> int | None:
    """What a response's record keeps when a session is copied: uuid, message id and content. Usage may be zeroed."""
    if record.get("type") != "assistant":
        return None
    message = fields.mapping(record.get("message"))
    return hashed(record.get("uuid"), f"{message.get('id')}\0{digest(message.get('content'))}")


def _note_spawn(found: Survey, record: dict[str, Any], route: Route) -> None:
    if record.get("type") == "progress":
        data = fields.mapping(record.get("data"))
        agent, call = fields.text(data.get("agentId")), fields.text(record.get("parentToolUseID"))
        if agent and call and data.get("type") == "agent_progress":
            found.spawns.setdefault((route.session, agent), (route, call))
        return
    blocks = fields.sequence(fields.mapping(record.get("message")).get("content"))
    if record.get("type") == "assistant":
        for block in blocks:
            block = fields.mapping(block)
            kind = fields.mapping(block.get("input")).get("subagent_type")
            if block.get("name") in SPAWNING_TOOLS and isinstance(kind, str) and isinstance(block.get("id"), str):
                found.kinds[block["id"]] = kind[:256]
    elif record.get("type") == "user":
        result = fields.mapping(record.get("toolUseResult"))
        agent = fields.text(result.get("agentId") or result.get("agent_id"))
        calls = [fields.text(fields.mapping(block).get("tool_use_id")) for block in blocks]
        if agent and len(calls) == 1 and calls[0]:
            found.spawns[route.session, agent] = (route, calls[0])


def _origins(surveys: Sequence[Survey]) -> dict[int, str]:
    """For each response that several sessions call their own, the one that made it.

    It is the session whose own story goes on first after what they share; one that has nothing of its own was resumed
    before it said more, and so comes before all.
    """
    first: dict[int, str] = {}
    shared: dict[int, set[str]] = {}
    for found in surveys:
        for key, (session, _) in found.responses.items():
            if first.setdefault(key, session) != session:
                shared.setdefault(key, {first[key]}).add(session)
    if not shared:
        return {}
    own: dict[str, int] = {}
    for found in surveys:
        for key, (session, time) in found.responses.items():
            if key not in shared:
                own[session] = min(time, own.get(session, time))
    return {key: min(told, key=lambda session: (own.get(session, -(2**62)), session)) for key, told in shared.items()}
