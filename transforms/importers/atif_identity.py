"""Which run an ATIF trajectory is, and which sub-agents it refers to."""

from __future__ import annotations

from typing import Any, Final

from trajlake.transforms.importers import fields
from trajlake.transforms.importers.origin import bounded, digest

NAME: Final = "atif"
Spawns = dict[str, tuple[str, str | None]]
"""`trajectory_path` of a sub-agent -> run and tool call that spawned it."""


def run_id(body: dict[str, Any], parent_run_id: str | None) -> str:
    """Id of a trajectory's run. An embedded one is named within its parent, where alone its id must be unique."""
    session, trajectory = fields.text(body.get("session_id")), fields.text(body.get("trajectory_id"))
    if parent_run_id is not None:
        return bounded(f"{parent_run_id}:{trajectory or digest(body.get('steps'))}")
    if trajectory is not None:
        return bounded(":".join(part for part in (NAME, session, trajectory) if part))
    return bounded(":".join(part for part in (NAME, session, _opening_digest(body)) if part))


def _opening_digest(body: dict[str, Any]) -> str:
    """Digest of what a trajectory begins with, its first agent step included: it stays when the document grows."""
    opening = []
    for step in body["steps"]:
        if isinstance(step, dict):
            opening.append({name: value for name, value in step.items() if name not in ("observation", "metrics")})
            if step.get("source") == "agent":
                break
    return digest([body.get("agent"), opening])


def references(body: dict[str, Any], key: str) -> dict[str, str | None]:
    """Sub-agent named by `key` of a `subagent_trajectory_ref` -> call whose result refers to it."""
    found: dict[str, str | None] = {}
    for step in body["steps"]:
        for result in fields.sequence(fields.mapping(fields.mapping(step).get("observation")).get("results")):
            referred = fields.mapping(result).get("subagent_trajectory_ref")
            for reference in referred if isinstance(referred, list) else [referred]:
                name = fields.mapping(reference).get(key)
                if isinstance(name, str):
                    found.setdefault(name, fields.text(result.get("source_call_id")))
    return found


def same_file(file: str, path: str) -> bool:
    """Whether a `trajectory_path` means a file: it is the file's name, or the end of it."""
    return file == path or file.endswith("/" + path.removeprefix("./"))
