"""A team's own tier file (`skill_model_policy.json`): read for what it says, given back otherwise untouched.

Shapes that are read, at the root or under `skills`: an object by skill name, or a list of objects that name their
skill. An entry is an object, or the tier alone as text. Fields go by several names (`_NAMES`); what is not known is
kept: values that are not changed are given back byte for byte, and a file that nothing changed is given back as it
came.
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
    "tier": ("tier", "model_tier", "model"),
    "pinned": ("pinned", "pin", "locked"),
    "consecutive_failures": ("consecutive_failures", "failures_in_a_row", "fail_streak", "failure_streak", "failures"),
    "reason": ("reason", "note", "why"),
    "date": ("date", "updated_at", "updated", "changed_at", "since"),
}
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
        if _CONTAINER in members and _kind(members[_CONTAINER]) in ("object", "array"):
            members[_CONTAINER] = _rewritten(members[_CONTAINER], file, wanted)
            return _pretty(members)
    return _pretty(_rewritten(root, file, wanted))


def _rewritten(container: Raw, file: TierFile, wanted: Mapping[str, TierEntry]) -> Raw:
    if _kind(container) == "array":
        items = msgspec.json.decode(container, type=list[Raw])
        names = [_named(msgspec.json.decode(item)) for item in items]
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
            fields[next((alias for alias in aliases if alias in fields), name)] = _raw(after)
    return _raw(fields)


def _find(value: Any) -> list[tuple[str, Any]]:
    """Entries with their skill's names, wherever the file keeps them."""
    if isinstance(value, dict) and isinstance(value.get(_CONTAINER), (dict, list)):
        value = value[_CONTAINER]
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


def _known(entry: dict[str, Any]) -> bool:
    return any(alias in entry for alias in (*_NAMES["tier"], *_NAMES["pinned"]))


def _named(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((entry[key] for key in _SKILL_NAMES if isinstance(entry.get(key), str)), None)


def _entry(name: str, entry: Any) -> TierEntry:
    if isinstance(entry, str):
        return TierEntry(tier=entry)
    given = {
        field: next((entry[alias] for alias in aliases if alias in entry), None) for field, aliases in _NAMES.items()
    }
    wanted = {"tier": str, "pinned": bool, "consecutive_failures": int, "reason": str, "date": str}
    for field, value in given.items():
        if value is not None and (not isinstance(value, wanted[field]) or (wanted[field] is int and value is True)):
            raise TierFileError(f"skill {name}: {field} is a {type(value).__name__}, not a {wanted[field].__name__}")
    return TierEntry(**{field: value for field, value in given.items() if value is not None})


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


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
