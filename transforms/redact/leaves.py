"""Lays a JSON value out as a list of texts, in document order, each with what its surroundings say about it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from trajlake.transforms.redact.errors import DepthLimit
from trajlake.transforms.redact.names import NAME_FIELDS, STREAM_FIELDS, VALUE_FIELDS, Strength, passes_on, strength_of

Path = tuple[Any, ...]
"""A path as nested pairs: (path of the parent, key), () for the root. Cheap to grow; `pointer` writes it out."""


class Leaf(NamedTuple):
    """One text of a value: a string, a key, or an integer written out.

    `name` is the field's name (for elements of a list, the list's), `strength` what it says about the value.
    """

    text: str
    name: str
    strength: Strength
    path: Path
    kind: str


STRING: Final = "string"
KEY: Final = "key"
NUMBER: Final = "number"


class Layout(NamedTuple):
    """The leaves of a value, and groups of leaves that may be pieces of one text (elements of a list)."""

    leaves: list[Leaf]
    groups: list[list[int]]


class _Field(NamedTuple):
    strength: Strength
    is_name: bool
    is_value: bool
    passes_on: bool


_JWK_SECRETS: Final = frozenset("d p q dp dq qi k".split())
"""Private members of a JSON web key (RFC 7518, 6.2.2, 6.3.2, 6.4.1)."""


@lru_cache(maxsize=16384)
def _field(key: str) -> _Field:
    lowered = key.lower()
    return _Field(strength_of(key), lowered in NAME_FIELDS, lowered in VALUE_FIELDS, passes_on(key))


def lay_out(value: Any, max_depth: int) -> Layout:
    """Lay out a value. Raises DepthLimit where it nests deeper than `max_depth`."""
    layout = Layout([], [])
    try:
        _walk(value, "", Strength.NONE, (), layout, max_depth)
    except _TooDeep:
        raise DepthLimit("max_depth", max_depth) from None
    return layout


class _TooDeep(Exception):
    """The value nests deeper than allowed."""


def _walk(value: Any, name: str, strength: Strength, path: Path, layout: Layout, left: int) -> None:
    if isinstance(value, str):
        layout.leaves.append(Leaf(value, name, strength, path, STRING))
    elif isinstance(value, dict):
        if left <= 0:
            raise _TooDeep
        _walk_dict(value, name, strength, path, layout, left - 1)
    elif isinstance(value, (list, tuple)):
        if left <= 0:
            raise _TooDeep
        _walk_list(value, name, strength, path, layout, left - 1)
    elif isinstance(value, int) and value is not True and value is not False:
        layout.leaves.append(
            Leaf(str(value) if strength or not -1000000 < value < 1000000 else "", name, strength, path, NUMBER)
        )


def _walk_dict(value: dict[Any, Any], name: str, strength: Strength, path: Path, layout: Layout, left: int) -> None:
    named = ""
    secret_manifest = value.get("kind") == "Secret"
    private_jwk = "kty" in value
    fields = [_field(key) if isinstance(key, str) else _field(str(key)) for key in value]
    if any(field.is_value for field in fields):
        for field, item in zip(fields, value.values(), strict=True):
            if field.is_name and isinstance(item, str) and len(item) <= 80 and strength_of(item):
                named = item
                break
    leaves = layout.leaves
    for (key, item), field in zip(value.items(), fields, strict=True):
        text = key if isinstance(key, str) else str(key)
        here = (path, text)
        leaves.append(Leaf(text, "", Strength.NONE, here, KEY))
        if field.is_value and named:
            _walk(item, named, strength_of(named), here, layout, left)
        elif private_jwk and key in _JWK_SECRETS and isinstance(item, str):
            leaves.append(Leaf(item, text, Strength.SECRET, here, STRING))
        elif secret_manifest and key in ("data", "stringData") and isinstance(item, dict):
            _walk_manifest(item, here, layout)
        elif field.strength:
            _walk(item, text, field.strength, here, layout, left)
        elif strength and field.passes_on:
            _walk(item, name, strength, here, layout, left)
        elif isinstance(item, str):
            leaves.append(Leaf(item, text, Strength.NONE, here, STRING))
        else:
            _walk(item, text, Strength.NONE, here, layout, left)


def _walk_manifest(items: dict[Any, Any], path: Path, layout: Layout) -> None:
    """The data of a Kubernetes secret: every value counts, whatever its key is called."""
    for key, item in items.items():
        layout.leaves.append(Leaf(str(key), "", Strength.NONE, (path, key), KEY))
        _walk(item, str(key), Strength.PASSWORD, (path, key), layout, 8)


def _walk_list(
    value: list[Any] | tuple[Any, ...], name: str, strength: Strength, path: Path, layout: Layout, left: int
) -> None:
    first = len(layout.leaves)
    if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str) and not strength:
        # A pair as in lists of headers: [["Authorization", "…"], …].
        pair = strength_of(value[0])
        _walk(value[0], name, Strength.NONE, (path, 0), layout, left)
        _walk(
            value[1],
            value[0] if pair else name,
            pair if pair >= Strength.SECRET else min(pair, Strength.TOKEN),
            (path, 1),
            layout,
            left,
        )
    else:
        for index, item in enumerate(value):
            _walk(item, name, strength, (path, index), layout, left)
    if len(value) > 1:
        layout.groups.extend(_pieces(value, name, layout.leaves, first, path))


def _pieces(value: Any, name: str, leaves: list[Leaf], first: int, path: Path) -> Iterator[list[int]]:
    """Leaves of a list's elements that stand at the same place in each: pieces of one text, if it was streamed."""
    if isinstance(value[0], str):
        group = [i for i in range(first, len(leaves)) if leaves[i].kind == STRING and leaves[i].path[0] is path]
        if len(group) > 1:
            yield group
    elif isinstance(value[0], dict):
        by_place: dict[Path, list[int]] = {}
        for i in range(first, len(leaves)):
            if leaves[i].kind == STRING and leaves[i].text:
                by_place.setdefault(_relative(leaves[i].path, path), []).append(i)
        for place, group in by_place.items():
            if len(group) > 1 and any(str(key).lower() in STREAM_FIELDS for key in (name, *place)):
                yield group


def _relative(path: Path, root: Path) -> Path:
    keys = []
    while path and path[0] is not root:
        keys.append(path[1] if not isinstance(path[1], int) else "*")
        path = path[0]
    return tuple(keys)


def pathname(path: Path) -> str:
    """A path as the `redactions` of a row show it: keys with dots between, `[]` for the elements of a list."""
    parts: list[str] = []
    while path:
        path, key = path
        parts.append("[]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(parts)).removeprefix(".")
