"""Which run each record of a Claude Code file belongs to.

A file is a log of one session, with others mixed in:

- Records of sub-agents have `isSidechain`; newer ones carry `agentId`, files of their own are named
  `agent-<id>.jsonl`, and the oldest are told apart only by the chain of `parentUuid`.
- A session that resumes another may begin with a copy of its records, which keep their `sessionId`: the session
  changes in the middle of the file, and the first record after the change hangs on one before it. Where it does not,
  two sessions were only put into one file.
- `/clear` empties the context; what follows is a run of its own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from trajlake.transforms.importers import fields
from trajlake.transforms.importers.origin import digest

CONVERSATION: Final = ("user", "assistant")
CHAINED: Final = ("user", "assistant", "system", "attachment", "progress")
"""Types of records that hang on each other by `parentUuid`. All others only describe the session."""

_AGENT_FILE = re.compile(r"agent-([\w.@-]{1,100})\.jsonl(?:\.gz)?\Z")
_CLEAR = "<command-name>/clear</command-name>"


@dataclass(frozen=True, slots=True)
class Route:
    """A run as the file names it.

    `part` tells the runs of a session apart; "" is its main conversation up to `/clear`.
    """

    session: str
    part: str = ""
    agent_id: str | None = None
    is_sidechain: bool = False


class Router:
    """Follows a file record by record. The same records lead to the same routes, whatever comes after them."""

    def __init__(self, file: str) -> None:
        found = _AGENT_FILE.search(file.rsplit("/", 1)[-1])
        self._file_agent = found.group(1) if found else None
        self._seen: set[int] = set()
        self._roots: dict[int, str] = {}
        self._session: str | None = None
        self._part = ""
        self.homes: dict[str, str] = {}
        """Session of a record -> session that it is told in: its own, or the one that resumed it by copying."""

    def route(self, record: dict[str, Any]) -> Route | None:
        """The run of a record, or None where there is no session yet to lay it to."""
        session = fields.text(record.get("sessionId")) or self._session
        if session is None:
            if record.get("type") not in CONVERSATION:
                return None
            session = f"unnamed-{digest(record)}"
        if record.get("isSidechain") is True:
            if self._session is None:
                self._session = session
            return self._side_route(record, session)
        if record.get("type") in CHAINED and session != self._session:
            self._change_session(record, session)
        return Route(session, self._part)

    def note(self, record: dict[str, Any]) -> bool:
        """Remember a record's uuid. Returns whether it was there before; False where it has none."""
        key = hashed(record.get("uuid"))
        if key is None:
            return False
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def knows(self, uuid: Any) -> bool:
        """Whether a record of this uuid has been noted."""
        return hashed(uuid) in self._seen

    def clear(self, uuid: str) -> None:
        """The context was emptied: main records from here on belong to a new run."""
        self._part = f":{uuid}"

    def home(self, session: str) -> str:
        """Session that a record's session is told in."""
        while (next_home := self.homes.get(session, session)) != session:
            session = next_home
        return session

    def _change_session(self, record: dict[str, Any], session: str) -> None:
        parent = record.get("parentUuid") or record.get("logicalParentUuid")
        if self._session is not None and self.knows(parent):
            if self.home(session) != self.home(self._session):
                self.homes[self.home(self._session)] = session
        else:
            self._part = ""
        self._session = session

    def _side_route(self, record: dict[str, Any], session: str) -> Route:
        agent = fields.text(record.get("agentId")) or self._file_agent
        if agent is not None:
            return Route(session, f":agent-{agent}", agent, True)
        parent, own = hashed(record.get("parentUuid")), hashed(record.get("uuid"))
        root = self._roots.get(parent) if parent is not None else None
        if root is None:
            root = fields.text(record.get("uuid")) or digest(record)
        if own is not None:
            self._roots[own] = root
        return Route(session, f":sidechain-{root}", None, True)


def is_usable(record: dict[str, Any]) -> bool:
    """Whether a record is whole enough to be followed. A message without content must not move the session either."""
    return record.get("type") not in CONVERSATION or isinstance(record.get("message"), dict)


def is_clear(record: dict[str, Any]) -> bool:
    """Whether a record is the user's `/clear`. Records marked `isMeta` only talk about one."""
    if record.get("type") != "user" or record.get("isMeta") is True or record.get("isSidechain") is True:
        return False
    content = fields.flat(fields.mapping(record.get("message")).get("content"))
    return isinstance(content, str) and _CLEAR in content[:200]


def hashed(uuid: Any, salt: Any = None) -> int | None:
    """64 bits that stand for a uuid (and what goes with it): sets of them fit in memory for very long files."""
    if not isinstance(uuid, str) or not uuid:
        return None
    text = uuid if salt is None else f"{uuid}\0{salt}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")
