"""Names that people compare by sight and programs byte by byte: tenants, skills, licences."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode's categories of controls, format characters, and separators of lines and paragraphs."""


@lru_cache(maxsize=4096)
def unseen_in(name: str) -> str | None:
    """What of a name does not show, so that it could pass for another; None where all of it does."""
    if name != name.strip():
        return "begins or ends with a space"
    if any(unicodedata.category(char) in _UNSEEN for char in name):
        return "holds a character that does not show"
    return None
