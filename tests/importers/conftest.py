"""What the importers' tests share: an import as a pure function of file contents, and a writer of session records."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest

from trajlake.transforms.importers.detect import by_name, detect
from trajlake.transforms.importers.framing import read_values
from trajlake.transforms.importers.origin import ImportedEvent, ImportProblem, Origin, encode_event
from trajlake.transforms.importers.plan import plan
from trajlake.transforms.importers.sample import take_sample

Content = bytes | Sequence[Any]


@dataclass
class Outcome:
    """Events that one import publishes, as JSON objects in order, and its problems."""

    events: list[dict[str, Any]] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)

    @property
    def published(self) -> dict[str, dict[str, int]]:
        """Run -> event id -> sequence: what a later import is told is known."""
        known: dict[str, dict[str, int]] = defaultdict(dict)
        for event in self.events:
            known[event["runid"]][event["id"]] = event["sequence"]
        return known

    def of(self, kind: str, run: str | None = None) -> list[dict[str, Any]]:
        """`data` of all events of a type, of one run where it is named."""
        return [
            event["data"]
            for event in self.events
            if event["type"] == f"agent.{kind}" and (run is None or event["runid"] == run)
        ]

    def run(self, run: str) -> list[dict[str, Any]]:
        """All events of a run, in order of sequence."""
        return sorted((event for event in self.events if event["runid"] == run), key=lambda event: event["sequence"])

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(event["runid"] for event in self.events))

    @property
    def lost(self) -> list[ImportProblem]:
        return [problem for problem in self.problems if not problem.kept]


class ImportContents(Protocol):
    """`import_contents({name: bytes or records}, known, format)`: what an import of these files does."""

    def __call__(
        self,
        files: Mapping[str, Content],
        known: Mapping[str, Mapping[str, int]] | None = None,
        *,
        format: str = "auto",
        skill: str | None = None,
        chunk: int = 1 << 16,
    ) -> Outcome: ...


def to_bytes(content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    return b"".join(json.dumps(record).encode() + b"\n" for record in content)


@pytest.fixture(scope="session")
def import_contents() -> ImportContents:
    def run(
        files: Mapping[str, Content],
        known: Mapping[str, Mapping[str, int]] | None = None,
        *,
        format: str = "auto",
        skill: str | None = None,
        chunk: int = 1 << 16,
    ) -> Outcome:
        texts = {name: to_bytes(content) for name, content in files.items()}
        outcome = Outcome()
        jobs: list[tuple[Any, Origin, bytes, Any]] = []
        for name, text in texts.items():
            fmt, sample = detect([text]) if format == "auto" else (by_name(format), take_sample([text]))
            jobs.append((fmt, Origin(fmt.name, name, "acme", skill), text, sample.shape))
        surveys = [fmt.survey(read_values([text], shape, origin.file), origin) for fmt, origin, text, shape in jobs]
        relations = {
            fmt.name: fmt.relate([s for s, job in zip(surveys, jobs, strict=True) if job[0] is fmt]) for fmt, *_ in jobs
        }

        def events() -> Iterator[ImportedEvent]:
            for (fmt, origin, text, shape), survey in zip(jobs, surveys, strict=True):
                chunks = (text[at : at + chunk] for at in range(0, len(text), chunk))
                for imported in fmt.read(read_values(chunks, shape, origin.file), origin, survey, relations[fmt.name]):
                    if isinstance(imported, ImportProblem):
                        outcome.problems.append(imported)
                    else:
                        yield imported

        for imported in plan(events(), known or {}):
            text = encode_event(imported)
            assert orjson.dumps(orjson.loads(text)) == text
            outcome.events.append(orjson.loads(text))
        for event_ids in outcome.published.values():
            numbers = sorted(event_ids.values())
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "a run's sequence has holes"
        return outcome

    return run


class Session:
    """Writes records of a Claude Code session, each hanging on the one before. Ids are counted: u1, u2, ..."""

    def __init__(self, session: str = "s1", *, start: int = 0, parent: str | None = None, **common: Any) -> None:
        self.session = session
        self.common = common
        self.count = start
        self.last: str | None = parent
        self.records: list[dict[str, Any]] = []

    def add(self, type: str, **fields: Any) -> dict[str, Any]:
        self.count += 1
        uuid = fields.pop("uuid", f"{self.session}-{self.count}")
        record = {
            "type": type,
            "uuid": uuid,
            "parentUuid": fields.pop("parentUuid", self.last),
            "sessionId": self.session,
            "timestamp": f"2026-01-01T00:{self.count // 60:02d}:{self.count % 60:02d}Z",
            **self.common,
            **fields,
        }
        self.last = uuid
        self.records.append(record)
        return record

    def user(self, content: Any, **fields: Any) -> dict[str, Any]:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, *blocks: Any, id: str | None = None, stop: str | None = None, **fields: Any) -> dict[str, Any]:
        message = {
            "id": id or f"msg_{self.session}_{self.count}",
            "role": "assistant",
            "model": fields.pop("model", "claude-x"),
            "content": [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks],
            "stop_reason": stop,
            "usage": fields.pop("usage", {"input_tokens": 10, "output_tokens": 5}),
        }
        return self.add("assistant", message=message, **fields)

    def result(self, call: str, content: Any = "ok", **fields: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        if "is_error" in fields:
            block["is_error"] = fields.pop("is_error")
        return self.user([block], **fields)

    @staticmethod
    def call(id: str, name: str = "Bash", **input: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": id, "name": name, "input": input}


@pytest.fixture(scope="session")
def session() -> type[Session]:
    """Maker of session records: `session("s1")`."""
    return Session


@pytest.fixture(scope="session")
def runs_folder(cases: Path) -> Path:
    """Folder of public trajectory files."""
    folder = cases / "trajectories"
    if not folder.is_dir():
        pytest.skip("no trajectory files among the cases")
    return folder
