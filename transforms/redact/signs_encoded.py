"""Signs of what is not written plainly: encodings, characters that look alike or are not seen, texts in pieces."""

from __future__ import annotations

import re
from typing import Final

from trajlake.transforms.redact.names import STREAM_FIELDS
from trajlake.transforms.redact.signs import Sign, Where, after
from trajlake.transforms.redact.views import BASE64_GROUP, HEX_PAIR

_UPPER_GROUP: Final = BASE64_GROUP.replace("[I-Za-f]", "[I-Z]", 1)
_CONTROL: Final = (
    r"(?:\x1b\[[0-9;?]*[@-~]|[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\\+u(?:001[bB])\[[0-9;?]*[@-~]"
    r"|\\+u(?i:000[0-8bcef]|001[0-9a-f]|007f|008[0-9a-f]|009[0-9a-f])|\xc2[\x80-\x9f])"
)
_INVISIBLE: Final = (
    rf"(?:{_CONTROL}|"
    r"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad|\xcd\x8f|\xef\xb8[\x80-\x8f]"
    r"|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xef\xbe\xa0|\xef\xbf[\xb9-\xbb]"
    r"|\xe3\x85\xa4|\xe1\xa0[\x8b-\x8f]"
    r"|\xf3\xa0[\x80-\x87][\x80-\xbf]"
    r"|\\+u(?i:200[b-f]|202[a-e]|206[0-9a-f]|feff|00ad|034f|fe0[0-9a-f]|180[b-f]|3164|115f|1160|ffa0|061c|17b[45]|fff[9ab]"
    r"|db40\\+udc[0-9a-f]{2}))"
)
_WIDE: Final = (
    r"(?:\xef\xbc[\x90-\x99\xa0-\xba\xbf]|\xef\xbd[\x81-\x9a]|\xf0\x9d[\x90-\x9f][\x80-\xbf]"
    r"|\xe2\x92[\xb6-\xbf]|\xe2\x93[\x80-\xaa]|\\+u(?i:24(?:b[6-9a-f]|[cd][0-9a-f]|e[0-9a]))"
    r"|\\+u(?i:ff(?:1[0-9]|2[0-9a-f]|3[0-9af]|4[0-9a-f]|5[0-9a]))|\\+u(?i:d835\\+ud[c-f][0-9a-f]{2}))"
)
_OTHER_DIGIT: Final = (
    r"(?:\xd9[\xa0-\xa9]|\xdb[\xb0-\xb9]|\xe0\xa5[\xa6-\xaf]|\xe0\xa7[\xa6-\xaf]|\xe0\xb9[\x90-\x99]"
    r"|\\+u(?i:066[0-9]|06f[0-9]|096[6-9a-f]|09e[6-9a-f]|0e5[0-9]))"
)
_ODD_DASH: Final = (
    r"(?:\xe2\x80[\x90-\x95]|\xe2\x88\x92|\xef\xb9[\x98\xa3]|\xef\xbc\x8d|\\+u(?i:201[0-5]|2212|fe58|fe63|ff0d))"
)
_ODD_SPACE: Final = r"(?:\xc2\xa0|\xe2\x80[\x80-\x8a\xaf]|\xe3\x80\x80|\\+u(?i:00a0|200[0-9a]|202f|3000))"

_WORD: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz@._+/=-")
_HIDDEN: Final = re.compile(rf"[0-9A-Za-z@._+/=-]{_INVISIBLE}{{1,40}}\Z".encode("latin-1")).search
_WIDE_RUN: Final = re.compile(rf"[0-9A-Za-z@._-]{_WIDE}|{_WIDE}[0-9A-Za-z@._-]|{_WIDE}{{4}}".encode("latin-1")).search
_ODD_NUMBER: Final = re.compile(
    (
        rf"\d{{3}}{_ODD_DASH}\d{{2,4}}(?:{_ODD_DASH}|-)\d{{3}}|\d{{6}}{_ODD_DASH}\d{{4}}"
        rf"|\d{{4}}{_ODD_DASH}\d{{4}}{_ODD_DASH}"
        rf"|\d{{3}}-\d{{2,4}}{_ODD_DASH}\d{{3}}|\d{{3}}{_ODD_SPACE}\d{{2,4}}(?:{_ODD_SPACE}| )\d{{3}}"
        rf"|\d{{6}}{_ODD_SPACE}\d{{4}}"
        rf"|{_OTHER_DIGIT}{{6}}"
    ).encode("latin-1")
).search


def _hidden(raw: bytes, end: int) -> bool:
    """Something invisible stands between two characters of a word."""
    return end < len(raw) and raw[end] in _WORD and _HIDDEN(raw, max(0, end - 60), end) is not None


def _wide(raw: bytes, end: int) -> bool:
    return _WIDE_RUN(raw, max(0, end - 14), end + 20) is not None


def _odd_number(raw: bytes, end: int) -> bool:
    """Digits on both sides of a dash or space outside ASCII, or other digits than ASCII's."""
    return _ODD_NUMBER(raw, max(0, end - 24), end + 24) is not None


# What a decoded byte must be for a rule to match, or to be decoded once more: a letter, a digit or one of `-_@%&\\`.
_NEEDED: Final = r"(?i:4[0-9a-f]|5[0-9acf]|6[1-9a-f]|7[0-9a]|3[0-9]|2[56d])"

ENCODED_SIGNS: Final[tuple[Sign, ...]] = (
    Sign(rf"{_UPPER_GROUP}(?:{BASE64_GROUP}){{3}}", None, Where.RUNS),
    Sign(rf"(?:{HEX_PAIR}[ :,-]?){{10}}", None, Where.RUNS),
    Sign(rf"0x{HEX_PAIR}[, ]", after(rf" ?(?:0x{HEX_PAIR}[, ]{{1,2}}){{7}}")),
    Sign(r"%(?:4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa]|3[0-9]|2[56dD])"),
    *(Sign(sign, after(_NEEDED)) for sign in (r"\\u00", r"\\u\{", r"\\x")),
    Sign("&#", after(r"(?:[xX][2-7][0-9a-fA-F]|3[78]|[4-9]\d|1[01]\d|12[0-6]);")),
    Sign("&amp;#"),
)
DISGUISED_SIGNS: Final[tuple[Sign, ...]] = (
    Sign(_INVISIBLE, _hidden, Where.ODD),
    Sign(r"\x7f", _hidden),
    Sign(_WIDE, _wide, Where.ODD),
    Sign(rf"{_OTHER_DIGIT}{{3}}", _odd_number, Where.ODD),
    Sign(rf"\d{{2}}{_ODD_DASH}\d{{2}}", _odd_number, Where.ODD),
    Sign(rf"\d{{2}}{_ODD_SPACE}\d{{2}}", _odd_number, Where.ODD),
)

# -- texts in pieces ---------------------------------------------------------------------------------------------------

_STRINGS: Final = re.compile(
    rb"(?:\s|\\+n){0,40}(?:\\*\")?[^\"\\]*(?:\\+[^\"\\][^\"\\]*)*\\*\"(?:\s|\\+n){0,40},(?:\s|\\+n){0,40}\\*\""
).match


def _strings_follow(raw: bytes, end: int) -> bool:
    """A list opens with two strings."""
    return _STRINGS(raw, end) is not None


_ESCAPED: Final = (
    *("\\" * count + '"' for count in (1, 3, 7, 15, 31)),
    *("\\" * count + "n" for count in (1, 2, 4, 8, 16)),
)
"""A quote, or a new line, at each level of JSON in strings."""
SPLIT_SIGNS: Final[tuple[Sign, ...]] = tuple(
    Sign(re.escape(opening), _strings_follow)
    for opening in ('["', '[ "', "[\n", *(f"[{gap}{written}" for written in _ESCAPED for gap in ("", " ")))
)
STREAMED_SIGNS: Final[tuple[Sign, ...]] = tuple(
    Sign(rf'(?i:"{field}){end}') for field in sorted(STREAM_FIELDS) for end in ('"', r"\\")
)
