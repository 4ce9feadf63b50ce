"""Text of someone else's making, made fit to be shown in a terminal or on a page."""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    # Control characters but tab and newline: a terminal would obey them.
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Marks that turn the direction of what follows, and what cannot be seen at all. Joiners stay: scripts need them.
    r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(value: object, limit: int | None = None) -> str:
    """The text of a value with control, direction and invisible characters made visible, cut at `limit` characters.

    None is the empty text. Newlines and tabs stay.
    """
    text = "" if value is None else str(value)
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    return _UNSEEN.sub(_visible, cut)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"
