"""Texts as a reader would decode them, with the way back: every span found in a view maps to the text it came from.

`fold` undoes disguise (zero-width, full-width), `decode_once` undoes one layer of escapes, percent encoding and HTML
entities, `encoded_runs` opens base64 and hex. Only detection sees views; what is stored is the original with spans
replaced, so text outside the spans stays as it was, byte for byte.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple


class View:
    """A decoded text and where each part of it came from."""

    __slots__ = ("_in", "_in_len", "_out", "_out_len", "text")

    def __init__(
        self, text: str, inner: list[int], inner_len: list[int], outer: list[int], outer_len: list[int]
    ) -> None:
        self.text = text
        self._in, self._in_len, self._out, self._out_len = inner, inner_len, outer, outer_len

    def outer(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original that holds `start` to `end` of the view; whole escapes, never parts of one."""
        return self._place(start, 0), self._place(end - 1, 1)

    def _place(self, at: int, past: int) -> int:
        i = bisect_right(self._in, at) - 1
        if i < 0:
            return at + past
        over = at - self._in[i] - self._in_len[i]
        if over < 0:
            return self._out[i] + past * self._out_len[i]
        return self._out[i] + self._out_len[i] + over + past


def substitute(text: str, pattern: re.Pattern[str], decode: Callable[[str], str]) -> View | None:
    """The view of a text with every match decoded; None where nothing matches."""
    parts: list[str] = []
    inner: list[int] = []
    inner_len: list[int] = []
    outer: list[int] = []
    outer_len: list[int] = []
    last = size = 0
    for found in pattern.finditer(text):
        start, end = found.span()
        token = found.group()
        plain = decode(token)
        if plain == token:
            continue
        parts.append(text[last:start])
        size += start - last
        inner.append(size)
        inner_len.append(len(plain))
        outer.append(start)
        outer_len.append(end - start)
        parts.append(plain)
        size += len(plain)
        last = end
    if not parts:
        return None
    parts.append(text[last:])
    return View("".join(parts), inner, inner_len, outer, outer_len)


# -- disguise ---------------------------------------------------------------------------------------------------------

INVISIBLE: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-"
    "\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
"""Characters that show nothing: controls, format characters, fillers, selectors, tags (Unicode
Default_Ignorable_Code_Point)."""
_SPACES: Final = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_DASHES: Final = "\u2010-\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d\u30fc"
_COMPATIBLE: Final = (
    "\uff01-\uff0c\uff0e-\uff5e\ufe50-\ufe57\ufe59-\ufe62\ufe64-\ufe6b\U0001d400-\U0001d7ff\u2070-\u209c\u00b2"
    "\u00b3\u00b9\u2460-\u249b\u24b6-\u24ea"
)
_TERMINAL: Final = r"\x1b\[[0-9;:?]{0,20}[ -/]?[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)"
"""Sequences that colour a terminal or set its title (ECMA-48)."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FOLDABLE: Final = re.compile(rf"{_TERMINAL}|[{INVISIBLE}{_SPACES}{_DASHES}{_COMPATIBLE}]|(?![0-9])\d")


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    if len(char) > 1 or re.match(f"[{INVISIBLE}]", char):
        return ""
    if re.match(f"[{_SPACES}]", char):
        return " "
    if re.match(f"[{_DASHES}]", char):
        return "-" if char != "\u30fc" else char
    digit = unicodedata.digit(char, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() and len(plain) == 1 else char


def fold(text: str) -> View | None:
    """The view without invisible characters and terminal sequences, with full-width and other forms of letters,
    digits, spaces and dashes in ASCII; None where the text has none of them."""
    if text.isascii() and not _CONTROL.search(text):
        return None
    return substitute(text, _FOLDABLE, _fold_char)


# -- one layer of escapes ---------------------------------------------------------------------------------------------

_LAYER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]{1,6}\}"
    r"|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}"
    r"|\\[nrtbfv0]|\\[^\w\s]|%[0-7][0-9a-fA-F]|(?:%[89a-fA-F][0-9a-fA-F])+|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}"
    r"|[A-Za-z]{2,8});"
)
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


@lru_cache(maxsize=4096)
def _decode_layer(token: str) -> str:
    head = token[0]
    if head == "%":
        return bytes.fromhex(token.replace("%", "")).decode("utf-8", "replace")
    if head == "&":
        return html.unescape(token)
    kind = token[1]
    if kind in _SIMPLE and len(token) == 2:
        return _SIMPLE[kind]
    if kind == "u" and len(token) == 12:
        high, low = int(token[2:6], 16), int(token[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if kind in "uUx" and len(token) > 2:
        code = int(token[2:].strip("{}"), 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return token[1:]


def decode_once(text: str) -> View | None:
    """The view with one layer of JSON, C and shell escapes, percent encoding and HTML entities undone, all at once."""
    if "\\" not in text and "%" not in text and "&" not in text:
        return None
    return substitute(text, _LAYER, _decode_layer)


# -- base64 and hex ---------------------------------------------------------------------------------------------------

BASE64_GROUP: Final = "[I-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
"""Four characters of base64 that stand for three printable ASCII characters: 7% of all groups, so that four in a row do
not happen by chance, and alignment is found without trying."""
_BASE64: Final = re.compile(rf"(?:{BASE64_GROUP}){{4}}")
_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]+(?:\r?\n[ \t]*[A-Za-z0-9+/_-]{4,})*={0,2}")
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]+")
_URL_SAFE: Final = str.maketrans("-_", "+/")
HEX_PAIR: Final = "[2-7][0-9a-fA-F]"
_HEX: Final = re.compile(
    rf"(?:(?:{HEX_PAIR}|0[9aAdD]){{10,}}|{HEX_PAIR}(?:([ :,-])(?:{HEX_PAIR})){{1}}(?:\1(?:{HEX_PAIR}|0[9aAdD]))"
    rf"{{8,}}|(?:0x{HEX_PAIR}[, ]{{1,2}}){{9,}}0x{HEX_PAIR})"
)
_HEX_ONLY: Final = re.compile(r"0x|[^0-9a-fA-F]")


class Run(NamedTuple):
    """An encoded part of a text and what it says."""

    start: int
    end: int
    text: str


def encoded_runs(text: str) -> Iterator[Run]:
    """Yield the parts of a text that are base64 or hex of mostly readable text, decoded."""
    done = 0
    for found in _BASE64.finditer(text):
        if found.start() < done:
            continue
        start = _run_start(text, found.start())
        run = _BASE64_RUN.match(text, start)
        end = run.end() if run else found.end()
        done = end
        plain = _from_base64(text[found.start() : end])
        lead = (
            _from_base64(text[start + (found.start() - start) % 4 : found.start()])
            if found.start() - start >= 4
            else ""
        )
        if plain:
            yield Run(start, end, lead + plain)
    for found in _HEX.finditer(text):
        digits = _HEX_ONLY.sub("", found.group())
        yield Run(found.start(), found.end(), bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace"))


def _run_start(text: str, at: int) -> int:
    while at > 0 and ((text[at - 1].isascii() and text[at - 1].isalnum()) or text[at - 1] in "+/_-"):
        at -= 1
    return at


def _from_base64(encoded: str) -> str:
    clean = _NOT_BASE64.sub("", encoded.translate(_URL_SAFE))
    if len(clean) % 4 == 1:
        clean = clean[:-1]
    try:
        return base64.b64decode(clean + "=" * (-len(clean) % 4)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
