"""What the `atif` package objects to in a trajectory, as places and reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

PROBLEMS_SHOWN: Final = 20
"""Objections listed per trajectory; the rest is one more line with their number."""

# Pydantic names the branch of a union in the path (`str`, `list[ContentPart]`, `function-after[...]`); documents have
# none.
_BRANCH = re.compile(r"[A-Z\[\](-]|\A(str|int|float|bool|dict|list)\Z")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def problems_of(body: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Each objection once per place: JSON path and reason. Nothing when the trajectory is valid."""
    from atif import Trajectory
    from pydantic import ValidationError

    try:
        Trajectory.model_validate(body)
    except ValidationError as error:
        seen: dict[str, str] = {}
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            seen.setdefault(_path(place, item["loc"]), _reason(item["msg"]))
        yield from list(seen.items())[:PROBLEMS_SHOWN]
        if len(seen) > PROBLEMS_SHOWN:
            yield place, f"{len(seen) - PROBLEMS_SHOWN} more objections of the same kind"
    except RecursionError:
        yield place, "nested too deeply to be checked"


def _path(place: str, parts: tuple[int | str, ...]) -> str:
    path = place
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _BRANCH.search(part):
            path += f".{part}"
    return path


def _reason(message: str) -> str:
    """The objection without the values that it quotes; the document's own names for fields stay."""
    message = message.removeprefix("Value error, ")
    return _QUOTED.sub("'…'", message)[:300]
