"""A suite of Great Expectations as plain values, read without importing Great Expectations (which takes seconds)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trajlake.expectations.errors import TrajlakeError

SHIPPED: Final = Path(__file__).resolve().parent
ROW_SUITES: Final = ("events", "steps", "runs", "rewards")
"""Suites that judge rows as they land, by the table they judge."""
PUBLICATION: Final = "publication"
"""Suite that judges each batch of runs before it is published."""
SUITES: Final = (*ROW_SUITES, PUBLICATION)

_PREFIXES: Final = ("expect_column_values_to_", "expect_column_pair_values_", "expect_column_", "expect_")
_COLUMN_KEYS: Final = ("column", "column_A", "column_B")


class SuiteError(TrajlakeError, ValueError):
    """A suite cannot be used. `suite`: its name or file; `rule`: the rule at fault, None where it is the file."""

    def __init__(self, suite: str, problem: str, rule: str | None = None) -> None:
        super().__init__(f"suite {suite}: {problem}" if rule is None else f"suite {suite}, rule {rule}: {problem}")
        self.suite = suite
        self.rule = rule
        self.problem = problem


class Severity(StrEnum):
    """What a failure means. Great Expectations' own three levels; a rule without one is critical."""

    CRITICAL = "critical"
    """Not to be trusted: an event is quarantined, a run or a batch is held."""
    WARNING = "warning"
    """Published with the mark on it."""
    INFO = "info"
    """Counted."""


@dataclass(frozen=True)
class Expectation:
    """One rule. `rule_id`: `meta.rule` of the file, else made of column and type; unique within the suite.

    `kwargs` as in the file. `place`: 1-based position in the suite.
    """

    suite: str
    place: int
    rule_id: str
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    description: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rule names, those of its row condition left out."""
        named = [self.kwargs.get(key) for key in _COLUMN_KEYS]
        listed = [self.kwargs.get(key) for key in ("column_list", "column_set")]
        named += [name for names in listed if isinstance(names, list) for name in names]
        named += [value for key, value in self.kwargs.items() if key.endswith("_column")]
        return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


@dataclass(frozen=True)
class Suite:
    """A suite file: its rules in order, and the document as Great Expectations reads it."""

    name: str
    expectations: tuple[Expectation, ...]
    document: Mapping[str, Any]

    @cached_property
    def revision(self) -> str:
        """First 12 hex digits of the SHA-256 over what decides: ids, types, arguments, severities, in order."""
        decisive = [[e.rule_id, e.type, _plain(e.kwargs), e.severity] for e in self.expectations]
        text = json.dumps([self.name, decisive], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_suite(text: str, origin: str) -> Suite:
    """Read a suite from the JSON text that Great Expectations writes. `origin`: file name for errors.

    Raises `SuiteError`.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SuiteError(origin, f"is no JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        raise SuiteError(origin, 'is no suite of Great Expectations 1.x: it needs "name" and a list "expectations"')
    name = document.get("name")
    if not isinstance(name, str) or not name:
        raise SuiteError(origin, 'has no "name"')
    return Suite(name, tuple(_expectations(name, document["expectations"])), document)


def load_suites(folder: Path | None = None) -> dict[str, Suite]:
    """All suites by name: those of a folder, and the shipped ones where it has none.

    Raises `SuiteError` for a file that is no suite, whose name is not its file's, or that judges nothing we have.
    """
    suites = {path.stem: _load(path) for path in sorted(SHIPPED.glob("*.json"))}
    if folder is None:
        return suites
    if not folder.is_dir():
        raise SuiteError(str(folder), "there is no such folder")
    for path in sorted(folder.glob("*.json")):
        if path.stem not in SUITES:
            raise SuiteError(path.name, f"no suite has this name; there are: {', '.join(SUITES)}")
        suites[path.stem] = _load(path)
    return suites


def load_suite(path: Path) -> Suite:
    """The suite of one file. Raises `SuiteError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(str(path), f"cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
    return read_suite(text, str(path))


def _load(path: Path) -> Suite:
    suite = load_suite(path)
    if suite.name != path.stem:
        raise SuiteError(path.name, f'says "name": "{suite.name}"; it has to be that of its file, "{path.stem}"')
    return suite


def _expectations(suite: str, entries: list[Any]) -> list[Expectation]:
    found: list[Expectation] = []
    seen: Counter[str] = Counter()
    for place, entry in enumerate(entries, start=1):
        expectation = _expectation(suite, place, entry)
        rule_id = expectation.rule_id
        seen[rule_id] += 1
        if seen[rule_id] > 1:
            if _own_id(entry):
                raise SuiteError(suite, "this id is used twice", rule_id)
            expectation = Expectation(**{**vars(expectation), "rule_id": f"{rule_id}#{seen[rule_id]}"})
        found.append(expectation)
    return found


def _expectation(suite: str, place: int, entry: Any) -> Expectation:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(kind, str):
        is_old = isinstance(entry, dict) and "expectation_type" in entry
        hint = '; "expectation_type" is the format before 1.0' if is_old else ""
        raise SuiteError(suite, f'expectation {place} has no "type"{hint}')
    kwargs = entry.get("kwargs")
    if not isinstance(kwargs, dict):
        raise SuiteError(suite, 'has no "kwargs"', f"{place} ({kind})")
    rule_id = _own_id(entry) or _made_id(kind, kwargs)
    severity = entry.get("severity") or Severity.CRITICAL
    if severity not in tuple(Severity):
        raise SuiteError(suite, f"severity is one of {', '.join(Severity)}", rule_id)
    description = entry.get("description")
    return Expectation(suite, place, rule_id, kind, kwargs, Severity(severity), description or None)


def _own_id(entry: Mapping[str, Any]) -> str | None:
    meta = entry.get("meta")
    own = meta.get("rule") if isinstance(meta, dict) else None
    return own if isinstance(own, str) and own else None


def _made_id(kind: str, kwargs: Mapping[str, Any]) -> str:
    short = next((kind.removeprefix(prefix) for prefix in _PREFIXES if kind.startswith(prefix)), kind)
    columns = [kwargs[key] for key in _COLUMN_KEYS if key in kwargs] or kwargs.get("column_list")
    if not isinstance(columns, list) or not columns:
        columns = ["table"]
    return ".".join(["+".join(map(str, columns)), short])


def _plain(value: Any) -> Any:
    """Arguments without what decides nothing: Great Expectations writes 1 as 1.0, and null or nothing as it likes."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(value.items()) if item is not None and key != "batch_id"}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
