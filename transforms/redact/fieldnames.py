"""Names of denied fields: what may be written in a setting, and how a name is compared with the keys of an event.

    password           the key `password`, anywhere
    user.email         the key `email` directly under the key `user`, anywhere; a list between the two is seen through

Any case, `-` and `_` alike.
"""

from __future__ import annotations

import re
import string
from itertools import product
from typing import Final

MOST_SEPARATORS: Final = 7
"""`-` and `_` in one key of a name. The quick look holds every way to write them."""

_SENSELESS: Final = re.compile(r"""[\x00-\x1f\x7f"'`\\\[\]{}*,]""")
_FOLD: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normal(name: str) -> str:
    """A key as names are compared: ASCII letters in lower case, `-` as `_`."""
    return (name.lower() if name.isascii() else name.translate(_FOLD)).replace("-", "_")


def keys_of(name: str) -> tuple[str, ...]:
    """Normal keys of a name, outermost first. Raises ValueError for a name that could never match what it seems to."""
    keys = tuple(normal(key) for key in name.split("."))
    if not all(keys):
        raise ValueError(f"denied field {name!r} has an empty part; write key, or outer.key")
    if keys[0] == "$":
        raise ValueError(f"denied field {name!r} begins with '$'; write it without, paths match at any depth")
    found = _SENSELESS.search(name)
    if found is not None:
        hint = "; lists are seen through, leave the brackets out" if found[0] in "[]" else ""
        raise ValueError(f"denied field {name!r} has {found[0]!r}, which no path may hold{hint}")
    for key in keys:
        if key != key.strip():
            raise ValueError(f"denied field {name!r} has a space beside a dot or at an end; take it out")
        if key.count("_") > MOST_SEPARATORS:
            raise ValueError(f"denied field {name!r} has more than {MOST_SEPARATORS} separators; shorten the name")
    return keys


def spellings(key: str) -> list[str]:
    """Every way to write a normal key's separators."""
    parts = key.split("_")
    return [
        "".join(part + separator for part, separator in zip(parts, (*separators, ""), strict=True))
        for separators in product("_-", repeat=len(parts) - 1)
    ]
