"""Puts redacted texts back where they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trajlake.transforms.redact.leaves import Leaf


def literals_in(value: Any) -> Iterable[Any]:
    """The literals of a value of `jsontext.read`, in the order of `lay_out`."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from literals_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from literals_in(item)
    elif isinstance(value, (str, int)) and not isinstance(value, bool):
        yield value


def rebuild(value: Any, leaves: list[Leaf], texts: dict[int, str]) -> Any:
    """The value with the texts of some leaves replaced; the same traversal as `lay_out`."""
    place = iter(range(len(leaves)))

    def build(part: Any) -> Any:
        if isinstance(part, str):
            index = next(place)
            return texts.get(index, part)
        if isinstance(part, dict):
            new: dict[Any, Any] = {}
            for key, item in part.items():
                index = next(place)
                name: Any = texts.get(index, key)
                if index in texts:
                    name = _free_name(name, part, new)
                new[name] = build(item)
            return new
        if isinstance(part, (list, tuple)):
            return [build(item) for item in part]
        if isinstance(part, int) and part is not True and part is not False:
            index = next(place)
            return texts.get(index, part)
        return part

    return build(value)


def _free_name(name: str, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> str:
    """Two keys must not become one because they get the same marker: the later ones are numbered."""
    if name not in new and name not in old:
        return name
    number = 2
    while f"{name}#{number}" in new or f"{name}#{number}" in old:
        number += 1
    return f"{name}#{number}"
