"""Evidence as rules compare it: normal names, a status that is a failure, exits, flags that count beside an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from trajlake.expectations.failure_rules import name_ends, normal_name, rule_table

MESSAGE_CHARS: Final = 300
"""Characters of an error message in which phrases are looked for: what is behind may be the request, echoed."""

_normal = lru_cache(maxsize=4096)(normal_name)
_ends = lru_cache(maxsize=4096)(name_ends)

_SIGNALS: Final = {
    "1": "SIGHUP", "2": "SIGINT", "3": "SIGQUIT", "6": "SIGABRT", "7": "SIGBUS", "9": "SIGKILL", "11": "SIGSEGV",
    "15": "SIGTERM",
}  # fmt: skip
_STATUS_NAME: Final = re.compile(r"(?:http|status|code|error)*([45]\d\d)(?:error)?")
"""Names that are a status in words: `HTTP_429`, `http error 503`, `status_code_401`."""
FINISH_NAMES: Final = frozenset(normal_name(name) for rule in rule_table().rule for name in rule.when.finish)
"""Finish reasons, in normal form, that are failure evidence."""


class View(Struct, gc=False):
    """Evidence as rules compare it: normal names, lower-case message, flags that count only beside an error."""

    by: str
    names: tuple[str, ...]
    written: tuple[str, ...]
    """The names as they were given."""
    status: int | None
    message: str
    finish: str | None
    exits: tuple[int | str, ...]
    denied: bool
    is_error: bool
    tool_known: bool | None
    arguments_valid: bool | None
    exit_nonzero: bool
    refused: bool
    """The request was refused: HTTP 4xx, or no status but a name for the error."""
    failing: bool


def failure_view(
    by: str,
    names: Iterable[str | None],
    status: int | None,
    message: str | None,
    exit_code: int | None = None,
    exit_signal: str | None = None,
    finish: str | None = None,
    denied: bool = False,
    is_error: bool = False,
    tool_known: bool | None = None,
    arguments_valid: bool | None = None,
) -> View:
    """See evidence as rules compare it. A status below 400 and an exit code of 0 are no failure."""
    written = tuple(name for name in names if name and _normal(name))
    given = tuple(map(_normal, written))
    if status is not None and not 400 <= status <= 599:
        status = None
    if status is None:
        status = next((int(found[1]) for name in given if (found := _STATUS_NAME.fullmatch(name)) is not None), None)
    exits: tuple[int | str, ...] = ()
    if exit_code:
        exits = (_signal(str(-exit_code)),) if exit_code < 0 else (exit_code,)
    if exit_signal:
        exits = (*exits, _signal(exit_signal))
    is_error = is_error or bool(given)
    error = is_error or status is not None
    finish_name = _normal(finish) if finish else None
    return View(
        by, given, written, status, message[:MESSAGE_CHARS].lower() if message else "", finish_name, exits, denied,
        is_error,
        tool_known if error else None,
        arguments_valid if error else None,
        bool(exits),
        bool(given) if status is None else status < 500,
        error or denied or bool(exits) or bool(message) or finish_name in FINISH_NAMES,
    )  # fmt: skip


def name_has(view: View, words: tuple[str, ...]) -> bool:
    """Whether a name has one of the words of a rule, from the beginning of a word on."""
    return any(_ends(name).has(words) for name in view.written)


def _signal(name: str) -> str:
    upper = name.strip().upper()
    return _SIGNALS.get(upper, upper if upper.startswith("SIG") else f"SIG{upper}")
