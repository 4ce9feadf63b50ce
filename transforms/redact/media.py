"""Media inside of texts: pictures, sound and archives as long base64, which hold no words to search.

Searched as text they are millions of false signs; a picture of 30 MB would cost minutes. A run of base64 as long as
`LEAST_CHARS` whose beginning decodes to bytes that are no text is blanked out before any search, character for
character, so that places stay true; it is kept as it is. One that decodes to text is searched behind its encoding.
"""

from __future__ import annotations

import base64
import re
from typing import Final

LEAST_CHARS: Final = 16_384
_SAMPLED: Final = 4096
"""Characters that are decoded to tell what a run holds; a multiple of 4."""
_FORM: Final = rf"[A-Za-z0-9+/_-]{{{LEAST_CHARS},}}={{0,2}}"
_IN_TEXT: Final = re.compile(_FORM, re.ASCII)
_IN_BYTES: Final = re.compile(_FORM.encode())
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def blank_media(text: str) -> str:
    """The text, as long as before, with spaces in place of media."""
    if len(text) < LEAST_CHARS:
        return text
    return _IN_TEXT.sub(lambda run: " " * len(run[0]) if _is_binary(run[0][:_SAMPLED].encode()) else run[0], text)


def blank_media_bytes(raw: bytes) -> bytes:
    """As `blank_media`, of raw JSON."""
    if len(raw) < LEAST_CHARS:
        return raw
    return _IN_BYTES.sub(lambda run: b" " * len(run[0]) if _is_binary(run[0][:_SAMPLED]) else run[0], raw)


def _is_binary(run: bytes) -> bool:
    """Whether the beginning of a run of base64 decodes to something that is no text."""
    decoded = base64.b64decode(run.translate(_TO_STANDARD))
    if _CONTROLS.search(decoded):
        return True
    try:
        # The sample may end within a character.
        decoded[: len(decoded) - 3].decode()
    except UnicodeDecodeError as error:
        return error.end < len(decoded) - 6
    return False
