"""A team's own tier file (`skill_model_policy.json`): read for what it says, given back otherwise untouched.

Shapes that are read, at the root, under `skills`, or under the one member that has such entries: an object by skill
name, or a list of objects that name their skill. An entry is an object, or the tier alone as text. Fields go by several
names (`_NAMES`); what is not known, or is of another type (a date in seconds), is kept: values that are not changed are
given back byte for byte, and a file that nothing changed is given back as it came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from trajlake.expectations.decisions import TierEntry
from trajlake.expectations.errors import TrajlakeError

MOST_BYTES: Final = 16 << 20

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "tier": ("tier", "model_tier", "current_tier", "assigned_tier", "model"),
    "pinned": ("pinned", "is_pinned", "pin", "locked"),
    "consecutive_failures": ("consecutive_failures", "failures_in_a_row", "fail_streak", "failure_streak", "failures"),
    "reason": ("reason", "note", "why"),
    "date": ("date", "updated_at", "updated", "changed_at", "since"),
}
_TYPES: Final = {"tier": str, "pinned": bool, "consecutive_failures": int, "reason": str, "date": str}
_STRICT: Final = frozenset({*_NAMES["tier"], *_NAMES["pinned"], "consecutive_failures"})
"""Names that mean one thing: a value of another type is an error there, and elsewhere somebody else's field."""
_SKILL_NAMES: Final = ("skill", "skill_name", "name")
_CONTAINER: Final = "skills"


class TierFileError(TrajlakeError, ValueError):
    """A text is not a tier file; the message says where and what is wrong."""


class TierFile(Struct, frozen=True):
    """A tier file as it came, and what it says by skill."""

    text: bytes
    entries: dict[str, TierEntry]


def read_tier_file(text: bytes) -> TierFile:
    """Read a tier file. Raises `TierFileError` for what is none, or says two things of one skill."""
    if len(text) > MOST_BYTES:
        raise TierFileError(f"larger than {MOST_BYTES:,} bytes")
    try:
        value = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise TierFileError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise TierFileError("nested too deep") from None
    except json.JSONDecodeError as error:
        raise TierFileError(f"line {error.lineno}: is not JSON: {error.msg}") from None
    except TierFileError:
        raise
    except ValueError:
        # Python reads whole numbers of some thousand digits at most.
        raise TierFileError("a number is too long") from None
    entries = {name: _entry(name, each) for name, each in _find(value)}
    if not entries:
        raise TierFileError("no skill with a tier is in it: wanted {skill: {tier: ...}}, under `skills` or at the root")
    return TierFile(text, entries)


def write_tier_file(file: TierFile, changes: Mapping[str, TierEntry]) -> bytes:
    """The file with other entries for some skills; all else as it came. Skills that it does not know are left out.

    Of an entry only fields that differ are written, under the names that the file uses. Raises nothing.
    """
    wanted = {name: each for name, each in changes.items() if name in file.entries and each != file.entries[name]}
    if not wanted:
        return file.text
    root = msgspec.json.decode(file.text.removeprefix(b"\xef\xbb\xbf"), type=Raw)
    kind = _kind(root)
    if kind == "object":
        members = msgspec.json.decode(root, type=dict[str, Raw])
        container = _container(_value(root))
        if container is not None:
            members[container] = _rewritten(members[container], file, wanted)
            return _pretty(members)
    return _pretty(_rewritten(root, file, wanted))


def _rewritten(container: Raw, file: TierFile, wanted: Mapping[str, TierEntry]) -> Raw:
    if _kind(container) == "array":
        items = msgspec.json.decode(container, type=list[Raw])
        names = [_named(_value(item)) for item in items]
        return _raw(
            [
                _changed(item, file.entries[name], wanted[name]) if name is not None and name in wanted else item
                for item, name in zip(items, names, strict=True)
            ]
        )
    members = msgspec.json.decode(container, type=dict[str, Raw])
    for name, entry in wanted.items():
        members[name] = _changed(members[name], file.entries[name], entry)
    return _raw(members)


def _changed(entry: Raw, was: TierEntry, now: TierEntry) -> Raw:
    if _kind(entry) != "object":
        return _raw(now.tier)
    fields = msgspec.json.decode(entry, type=dict[str, Raw])
    for name, aliases in _NAMES.items():
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            alias = _alias(name, aliases, {each: _value(value) for each, value in fields.items()})
            if alias is not None or name not in fields:
                fields[alias or name] = _raw(after)
    return _raw(fields)


def _find(value: Any) -> list[tuple[str, Any]]:
    """Entries with their skill's names, wherever the file keeps them."""
    if isinstance(value, dict) and (container := _container(value)) is not None:
        value = value[container]
    if isinstance(value, list):
        named = [(_named(each), each) for each in value]
        seen: set[str] = set()
        for name, _ in named:
            if name is None:
                raise TierFileError(f"an entry of the list names no skill ({', '.join(_SKILL_NAMES)})")
            if name in seen:
                raise TierFileError(f"skill {name} stands twice")
            seen.add(name)
        return [(name, each) for name, each in named if name is not None]
    if not isinstance(value, dict):
        raise TierFileError("is neither an object nor a list")
    objects = [(name, each) for name, each in value.items() if isinstance(each, dict) and _known(each)]
    if objects or not all(isinstance(each, str) for each in value.values()):
        return objects
    return list(value.items())


def _container(root: dict[str, Any]) -> str | None:
    """The member of the root that holds the entries; None where they are at the root itself."""
    if isinstance(root.get(_CONTAINER), (dict, list)):
        return _CONTAINER
    if any(isinstance(each, dict) and _known(each) for each in root.values()):
        return None
    holding = [name for name, each in root.items() if _holds_entries(each)]
    return holding[0] if len(holding) == 1 else None


def _holds_entries(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_named(each) is not None and _known(each) for each in value)
    if not isinstance(value, dict) or not value:
        return False
    return any(isinstance(each, dict) and _known(each) for each in value.values())


def _known(entry: dict[str, Any]) -> bool:
    return any(alias in entry for alias in (*_NAMES["tier"], *_NAMES["pinned"]))


def _named(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((entry[key] for key in _SKILL_NAMES if isinstance(entry.get(key), str)), None)


def _entry(name: str, entry: Any) -> TierEntry:
    if isinstance(entry, str):
        return TierEntry(tier=entry)
    given = {}
    for field, aliases in _NAMES.items():
        alias = _alias(field, aliases, entry)
        value = None if alias is None else entry[alias]
        if value is not None and not _is_of(field, value):
            raise TierFileError(f"skill {name}: {field} is a {type(value).__name__}, not a {_TYPES[field].__name__}")
        if value is not None:
            given[field] = value
    return TierEntry(**given)


def _alias(field: str, aliases: tuple[str, ...], entry: Mapping[str, Any]) -> str | None:
    """The name under which an entry has a field: the first with a value of its type, else one that is null or wrong."""
    there = [alias for alias in aliases if alias in entry]
    fitting = [alias for alias in there if _is_of(field, entry[alias])]
    fitting += [alias for alias in there if entry[alias] is None or alias in _STRICT]
    return fitting[0] if fitting else None


def _is_of(field: str, value: Any) -> bool:
    return type(value) is _TYPES[field]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise TierFileError(f"key {twice[:64]} stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise TierFileError(f"{name} is not JSON")


def _kind(raw: Raw) -> str:
    first = bytes(raw).lstrip()[:1]
    return {b"{": "object", b"[": "array"}.get(first, "scalar")


def _value(raw: Raw) -> Any:
    return json.loads(bytes(raw))  # takes numbers of any size


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
