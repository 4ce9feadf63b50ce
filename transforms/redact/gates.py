"""The gates: groups of signs that rules name in their triggers (`#number`), or that open a view of the text.

Signs may call too often, never too seldom: whatever the rules behind them can match, in plain text or behind any
number of JSON escapes, shows one of them. Tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from trajlake.transforms.redact.signs import Sign, Where, after, around
from trajlake.transforms.redact.signs_encoded import DISGUISED_SIGNS, ENCODED_SIGNS, SPLIT_SIGNS, STREAMED_SIGNS
from trajlake.transforms.redact.signs_names import NAME_SIGNS
from trajlake.transforms.redact.signs_numbers import NUMBER_SIGNS

ENCODED: Final = "#encoded"
"""Base64, hex, percent encoding and escapes of characters that need none."""
DISGUISED: Final = "#disguised"
"""Zero-width, full-width and other forms of ASCII."""
SPLIT: Final = "#split"
"""Lists of strings, over whose borders a secret may run."""
STREAMED: Final = "#streamed"
"""Lists of objects that hold pieces of one text."""

_USER_PART: Final = re.compile(rb"\\*/(?:[^\s/\"'<>]*:[^\s/\"'<>]+|[A-Za-z0-9_~+=-]{12}[^\s/\"'<>\\]*)@(?!@)").match
_ORACLE_USER: Final = re.compile(rb"(?:thin|oci):\w+\\*/[^\s\"'<>/@]+@\Z").search


def _user_part(raw: bytes, end: int) -> bool:
    """The user part of a URL with a password or a long name, between `//` and this `@`."""
    slash = raw.rfind(b"/", max(0, end - 600), end)
    if slash < 0:
        return False
    if _USER_PART(raw, slash) is not None:
        return True
    start = max(0, end - 200)
    oracle = raw.find(b"thin:", start, end) >= 0 or raw.find(b"oci:", start, end) >= 0
    return oracle and _ORACLE_USER(raw, start, end) is not None


_DOMAIN: Final = re.compile(
    rb"\[|\\+u|[\w-]*[\x80-\xff]|(?![\w.-]*\()[\w.-]*\.(?:[A-Za-z\x80-\xff]|\\+u)|[\w.-]{1,120}>"
).match
_LOCAL: Final = re.compile(rb"(?:(?<!\\)[\w.+%'\"-]|[\x80-\xff])@\Z").search


def _address(raw: bytes, end: int) -> bool:
    """Something like a domain behind the `@`, and something like a name before it."""
    return _DOMAIN(raw, end) is not None and _LOCAL(raw, max(0, end - 2), end) is not None


_IPV4: Final = around(r"(?:(?<![\w.])|(?<=\\[nrt]))\d{1,3}(?:\.\d{1,3}){3}(?!\w)", 20, 8)
_IPV6_SHORT: Final = around(
    r"(?:(?<![\w:.])|(?<=\\[nrt]))[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,5}::[0-9a-fA-F]", 34, 6
)
_MAC: Final = around(r"[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}", 20, 20)
_COLONS: Final = around(r"(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}", 20, 40)


def _hex(*shapes: str) -> Iterator[str]:
    """Shapes with a hexadecimal digit for every X, as literals over classes."""
    for shape in shapes:
        for digits in product("0aA", repeat=shape.count("X")):
            yield re.escape(shape.replace("X", "{}").format(*digits))


GATES: Final[dict[str, tuple[Sign, ...]]] = {
    "#number": NUMBER_SIGNS,
    "#assigned": NAME_SIGNS,
    "#email": (
        Sign("@", _address),
        Sign(r"(?i:[\[({] ?(?:at|@) ?[\])}])"),
        *(Sign(written) for written in ("%40", "&#64;", "&#x40;", "&commat;", r"\\u0040")),
    ),
    "#url": (Sign("@", _user_part),),
    "#ip": (
        *(Sign(rf"0\.{'0' * i}\.{'0' * j}\.0", _IPV4, Where.CLASSES) for i, j in product((1, 2, 3), repeat=2)),
        Sign("::[0-9a-fA-F]", _IPV6_SHORT),
        *(
            Sign(written, _COLONS, Where.CLASSES)
            for written in _hex("X:XX:XX:X", ":XXXX:", ":XXX:", ":XX:XX:", ":X:X:X:")
        ),
        *(Sign(written, _MAC, Where.CLASSES) for written in _hex("X-XX-XX-X")),
        *(
            Sign(f"(?i:{word})[^a-z]", after(r"[^\n]{0,24}?[0-9a-fA-F]{4}\.[0-9a-fA-F]{4}\."))
            for word in ("mac", "address", "hwaddr", "ether", "arp")
        ),
    ),
    "#commit": (Sign(r":00 \+0000 ", None, Where.CLASSES), Sign(":00 -0000 ", None, Where.CLASSES)),
    "#bearer": tuple(Sign(rf"(?i:{word})\s", after(r"\s{0,2}[A-Za-z0-9._~+/=-]{12}")) for word in ("bearer", "basic")),
    "#telegram": (Sign("000000:", after(r"[A-Za-z0-9_-]{25}"), Where.CLASSES),),
    "#facebook": (Sign("000000000000x", after(r"[A-Za-z0-9_-]{20}"), Where.CLASSES),),
    "#asana": (Sign("/0000000000000000", None, Where.CLASSES),),
    ENCODED: ENCODED_SIGNS,
    DISGUISED: DISGUISED_SIGNS,
    SPLIT: SPLIT_SIGNS,
    STREAMED: STREAMED_SIGNS,
}
