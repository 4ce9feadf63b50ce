"""Signs of numbers: the shapes that telephone, card and national numbers are written in.

Over `CLASSES` a shape is a literal; `s` stands for a separator and `L` for a letter of either case. A shape opens
where no letter, digit or mark that continues a number stands before it, and what it opens is then looked at in the
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

from trajlake.transforms.redact.signs import Confirm, Sign, Where, after, around, escaped

# What may stand before a number that is worth a look. JSON numbers (`":1`, `": 1`, `[1`, `, 1`) are not.
_BEFORE: Final = (
    r"(?:[^\w.+/=:,\[\s\"'\\-]|[^\":,\[\s]\s|[^\"\s\\][:#=]\s?|\\+[nrt\"']|[\"']|[^\x00-\x7f]|\\+u[0-9a-fA-F]{4}\s?)"
)
_END: Final = r"(?:[^\w.-]|[.-]\D|$)"
_BARE: Final = around(
    rf"{_BEFORE}(?:[02-9]\d{{8,18}}|1[0-3]\d{{7,17}}|1[4-9]\d{{7}}(?:\d{{2,3}}|\d{{5,6}})?){_END}", 18, 14
)
_NOT_INSIDE: Final = r"(?:(?<![\w./+-])|(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4}))"

_GROUPED: Final = around(
    "|".join(
        (
            rf"{_NOT_INSIDE}(?:\d{{3}}[-. ]\d{{3}}[-. ]\d{{2,4}}|\d{{4}}[-: ]\d{{4}}[-: ]\d{{4}}"
            r"|\d{6}\s?[-+.~_ /]\s?\d{3}|\d{8}[-+]\d{4}(?!-[0-9a-f]{4}-)|\d{2}[-. ]\d{2}[-. ]\d{6}"
            r"|\d{2}[- ]\d{6}[- ]\d|\d{4}-\d{4}-\d|\d-\d{4}-\d{5}|\d{1,3}[. ]\d{3}[. ]\d{3}"
            r"|\d{1,3}[-. /)]{1,2}\d{3,4}[- .]?\d{4}|\(?0\d{0,4}[ ./)(-]{1,2}\d{2,4}[ ./)-]{0,2}\d{2}[ ./-]?\d"
            r"|\d{2}\.\d{2}\.\d{2}-\d{3}|[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3}|\d{4,6}/\d{3,6})",
            r"\d{6}[A-Y]\d{3}[0-9A-Y]\W",
            r"\d{6}(?:[-.~_\s/:|,]|\\+[nrt-]|[\x80-\xff]|\\+u[0-9a-fA-F]{4}){1,6}[1-8] ?\d ?\d",
            r"\d\d[./]\d\d[./]\d\d ?[-~] ?[1-4]\d{6}|\d(?: \d){5} ?- ?[1-4] ?\d",
            r"01[016789](?: ?(?:[-./~_)]|\xc2\xb7|\\+u00b7) ?)\d{3,4}",
            r"\+\d[\d ().\-/]{7}|\(\d{1,4}\)[ .-]?\d{2,4}|(?:\+"
            r"|00)?82[-. ]{1,2}\(?0?\)?\d{1,3}[-. )]{1,2}\d{3,4}[-. ]?\d{4}",
        )
    ),
    24,
    20,
)
_LETTERED_EDGED: Final = (
    r"[A-Za-z]{1,2}[ -]?\d{7,9}-?[A-Za-z]?|[A-Za-z]{3}\d{6,8}|[A-Za-z]\d{3}[A-Za-z]\d{4}|\d{7,8}-?[A-Za-z]{1,2}"
    r"|(?:DE|de|De|dE)[-. ]?\d{3}[-. ]?\d{3}[-. ]?\d{3}"
    r"|(?:ATU|FR[0-9A-Z]{2} ?|NL|BE|DK|FI|IE|IT|LU|PL|PT|SE|ES) ?[A-Z0-9]?\d{7,12}[A-Z0-9]{0,3}"
)
_LETTERED_OPEN: Final = (
    r"[A-Z]{3}[- ]?\d{3} ?[A-Z]{2}|[A-Z]{2}[ -]?\d{1,2}[ -]?[A-Z]{1,3}[ -]?\d{4}|[A-Za-z]{5}\d{4}[A-Za-z]"
    r"|[A-Za-z]{6}[0-9L-NP-Vl-np-v]{2}[A-Za-z][0-9L-NP-Vl-np-v]{2}[A-Za-z][0-9L-NP-Vl-np-v]{3}[A-Za-z]"
    r"|[A-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]|[1-9][A-Z][A-Z0-9]\d[- ]?[A-Z][A-Z0-9]\d[- ]?[A-Z]{2}\d{2}"
    r"|[1-9][a-z][a-z0-9]\d-[a-z][a-z0-9]\d-[a-z]{2}\d{2}"
    r"|[A-Z]{4}\d{6}[HMX][A-Z]{5}|[A-Z]{2}\d{2}[ -]?[A-Z0-9]{4}[ -]?[A-Z0-9]{4}[ -]?[A-Z0-9]{3}"
    r"|[a-z]{2}\d{2}[ -]?[a-z0-9]{4}[ -]?\d{4}[ -]?\d{3}"
)
_LETTERED_AT: Final = re.compile(rf"(?:{_LETTERED_EDGED})(?:[^\w-]|$)|(?:{_LETTERED_OPEN})(?![a-z])".encode()).match
_LETTERED_AROUND: Final = re.compile(
    rf"{_BEFORE}(?:{_LETTERED_EDGED})(?:[^\w-]|$)|{_NOT_INSIDE}(?:{_LETTERED_OPEN})(?![a-z])".encode()
).search


def _lettered(size: int, short: bool) -> Confirm:
    """Letters and digits that open `size` bytes back: first alone, which nearly always says no, then with what is
    around.

    `short`: nothing that opens so goes on for four letters or digits more.
    """

    def confirm(raw: bytes, end: int) -> bool:
        if short and raw[end : end + 4].isalnum() and len(raw) >= end + 4:
            return False
        start = end - size
        return _LETTERED_AT(raw, start) is not None and _LETTERED_AROUND(raw, max(0, start - 8), end + 24) is not None

    return confirm


_DIGITS_BEHIND: Final = after(r"(?!\d{3}-\d\d-\d\d(?!\d))[\d ().\-/]{6}|[\dA-Za-z-]{4,6}\d")


_CARD_NEAR: Final = around(r"[A-Za-z][A-Za-z0-9]{7}\d", 64, 72)


def _digits_behind(raw: bytes, end: int) -> bool:
    """Digits right behind an escape."""
    return _DIGITS_BEHIND(raw, end)


def _letters_behind(raw: bytes, end: int) -> bool:
    """Letters and digits right behind an escape."""
    start = raw.rfind(b"\\", max(0, end - 14), end) + 2
    return _LETTERED_AT(raw, start + 4 if raw[start - 1 : start] == b"u" else start) is not None


# -- numbers that need a word -----------------------------------------------------------------------------------------

_WORDS_ELSEWHERE: Final = (
    "전화|연락처|휴대폰|핸드폰|팩스|번호|주민|외국인|계좌|은행|여권|면허|차량"
    "|電話|携帯|手机|电话|身份证|マイナンバー|個人番号"
)
_WORDS: Final = frozenset(
    b"""phone phones telephone tel mobile cell fax call calling dial desk hotline whatsapp sms contact answering
    message messages registered handy telefon gsm account acct routing passport pasaporte license licence ausweis
    personalausweis card cards medicare mbi ssn text reach visa npi plate vehicle itin tin aba""".split()
)
_TO_WORDS: Final = bytes(byte | 32 if 65 <= byte <= 90 else byte if 97 <= byte <= 122 else 32 for byte in range(256))
_FOREIGN_NEAR: Final = re.compile(escaped(_WORDS_ELSEWHERE + "|차|표지|납세").encode()).search
_GOES_ON: Final = re.compile(rb"\d*(?:[A-Za-z_]\w|-[0-9a-f]{4}-[0-9a-f]{4})").match
_LABEL_NEAR: Final = re.compile(rb"[\s-]{1,2}\(?(?i:office|fax|mobile|cell|home|work|phone|tel|desk)").match
_NUMBER_KEY: Final = re.compile(
    (
        r"(?i:ssn|rrn|jumin|frn|brn|phone|mobile|tel|fax|cell|card|pan|cc_?num\w*|account|acct|iban|passport"
        r"|licen[cs]e|tax_?id|tin|nik"
        r"|sin|nhs|aadhaar|cpf|pesel|bsn|personnummer|national_?id|identity|social_?security|msisdn|biz_?no"
        r"|business_?\w*|registration"
        rf"|{escaped('주민|전화|휴대|계좌|사업자|번호')})"
        r"(?:[\w ]|\\+u[0-9a-f]{4}|[\x80-\xff]){0,24}\\*\"\s{0,3}:\s{0,3}\Z"
    ).encode()
).search


def _short_number(raw: bytes, end: int) -> bool:
    """Few digits, or digits that could be a clock's: only near a word that says whose they are."""
    if _GOES_ON(raw, end) is not None:
        return False
    near = raw[max(0, end - 72) : end]
    if b"call_" in near:
        near = near.replace(b'"call_', b"")  # the id of a tool call
    if b"\\" in near:
        near = near.replace(b"\\n", b" ").replace(b"\\t", b" ")
    if not _WORDS.isdisjoint(near.translate(_TO_WORDS).split()) or _LABEL_NEAR(raw, end) is not None:
        return True
    return (b"\\u" in near or not near.isascii()) and _FOREIGN_NEAR(near) is not None


def _keyed_number(raw: bytes, end: int) -> bool:
    """A JSON number in a field whose name says that it belongs to somebody."""
    return _NUMBER_KEY(raw, max(0, end - 72), end - 7) is not None


# -- the shapes -------------------------------------------------------------------------------------------------------

_EDGE: Final = r"[^0Aa./+-]"
_EDGE_OR_LETTER: Final = r"[^0A./+-]"
_SHORT_EDGE: Final = r"[^0Aa.+/-]"

_DIGITS: Final = """
    000s000s00 000000s0000 000000s_000 000000_s_000 00000000-0000 00000000+0000 00s00s000000 00s000000s0
    0s000s000 00s000s000 000s0000s0000 00s0000s0000 0s0000s0000 0000s0000s0000 0000:0000:0000 0000s0000s0 0000s00000s0
    000s000s000 000-0000_0000 000s00000000 00s00s00s00 0000s000s00 0000s000000 0000s0000000 0s0000s0000
    00s000s00s00 0_00_00_00_000 0000/000000 000/00000 0000/000s0 00_000_0000 0000_00_00 0000.00.00
    000000_s000 000000-000L 000000+000L
    00s00s0000s0000 00s00s000s0000 00s0s0000s0000 00s0s000s0000 00s00s00000000
""".split()
_DIGITS_ANYWHERE: Final = """
    000000s0000000 000000a0000000 000000x0000000 000000hh0000000 000000hhh0000000 000000/0000000 000000:0000000
    000000:_0000000 000000--0000000 000000__0000000 000000\\a0000000 000000\\\\-0000000 000000\\-0000000
    000000_-_0_0 000000-0_0_0 0_0_0_0_0_0_-_0 00.00.00-0000000 00/00/00-0000000
    000_-_000 000x0000x 000/000 000hh000 000a0000a 000)0000 00)000
    0000-00-0000-0000 000000\\a0000 000000A000 (0)_00 (0)00 (00)_00 (00)00 (000)_00 (000)00
    (0000)_00 (0000)00 )s000 +00 +0- +0_ +0. +0(
""".split()
_LETTERS: Final = """
    L0000000 L-0000000 L_0000000 LL0000000 LL_000000 LLL000000 L000L0000 A000a0000 a000A0000
    0000000L 0000000-L 00000000L 00000000-L LLs000s000 LL-000000
    AAA000AA AAA-000AA AAA_000AA AAA000_AA AAA-000_AA AA00A0000 AA00AA0000 AA00AAA0000 AA0A0000 AA0AA0000 AA0AAA0000
    AA-00-A AA_00_A LLLLL0000L LLLLLL00L00L AA000000A AA_00_00_00 AA_000000 0AA0sAA 0A00sA 0AA0sA0 0A00sAA 0AA0AA
    0A00A0 0AA0A0 0A00AA 0aa0-aa0 0aa0-a00 0a00-aa0 0a00-a00 AAAA000000A AAA000000 AAA00000000 AaA000000 Aaa000000
""".split()
_LETTERS_SHORT: Final = frozenset(
    """L0000000 L-0000000 L_0000000 L000L0000 A000a0000 a000A0000 0000000L 0000000-L 00000000L 00000000-L LLLLL0000L
    LLL000000""".split()
)
_IBANS: Final = (
    *(f"LL00{gap}{group}" for gap in ("", "_", "-") for group in ("0000", "L000", "000L", "LL00")),
    *(f"LL00{gap}LLLL" for gap in ("_", "-")),
    "AA00AAAA",
    "aa00aaaa00",
)
_SHORT: Final = """
    0000000 000s0000 000s00s000 00s00s000 00s000s00 0000s00_ 0000s0000 00s00s00s00 00s000s000 000s000s000 000_000
    00000-000 0000-000-0 00hhh0000 00hhh_0000 000hhh0000 A0000000 00AA00000 000000-00 000000-000 000-00-0000 000-000000
    00000-00 00000_00 00-00000 00_00000
""".split()


def _written(shape: str) -> Iterator[str]:
    """A shape with every separator and letter that it stands for, as literals over classes."""
    for separator, letter in product("-. " if "s" in shape else "-", "Aa" if "L" in shape else "A"):
        yield shape.replace("s", separator).replace("L", letter).replace("_", " ")


def _signs(shapes: Iterable[str], edges: str | None, confirm: Confirm | None) -> Iterator[Sign]:
    """The signs of shapes behind an edge; None stands for the edges that suit each."""
    for shape in shapes:
        for text in _written(shape):
            escapes = "".join(f"\\x{ord(char):02x}" for char in text)
            for edge in _edges_of(text) if edges is None else (edges,):
                yield Sign(edge + escapes, confirm or _lettered(len(text), shape in _LETTERS_SHORT), Where.CLASSES)


def _edges_of(text: str) -> tuple[str, ...]:
    """What stands before a shape. The letter of an escape (`\\n`) is an edge too; where every word would be one, only
    the whole escape is."""
    if text[0] == "a":
        return (_EDGE, r"\\a")
    # Parts of a UUID would open shapes with dashes behind a letter.
    dashed = text[0] == "0" and "-" in text
    return (_EDGE if dashed or text[:-1].isdigit() else _EDGE_OR_LETTER,)


NUMBER_SIGNS: Final[tuple[Sign, ...]] = tuple(
    dict.fromkeys(
        (
            *_signs(_DIGITS, None, _GROUPED),
            *_signs(_DIGITS_ANYWHERE, "", _GROUPED),
            *_signs(_LETTERS, None, None),
            *_signs(_IBANS, None, None),
            # Cards with letters and digits in any order: the whole of a string, or named as what they are.
            Sign(r"\"[A-Za-z][A-Za-z0-9]{7}[0-9][\"\\]"),
            *(Sign(f"(?i:{word})", _CARD_NEAR) for word in ("ausweis", "identity card", "id card")),
            Sign(r"(?i:U1[A-Z0-9]{7}[A-Z])[^A-Za-z0-9]"),
            *_signs(_SHORT, _SHORT_EDGE, _short_number),
            *_signs(
                ["000.00.00", "000-00-00", "000 00 00"],
                "[^0./+-]",
                around(r"(?<![\d./+-])\d{3}[-. ]\d{2}[-. ]\d{4}", 12, 8),
            ),
            Sign(r"[^0Aa.+/-]0{9}", _BARE, Where.CLASSES),
            Sign(r":0000000", _keyed_number, Where.CLASSES),
            Sign(r": 0000000", _keyed_number, Where.CLASSES),
            # Right behind an escape there is no edge that shows in classes.
            *(
                Sign(rf"\\a{start}", _digits_behind, Where.CLASSES)
                for start in (r"0[0 ().\x2f-]{6}", r"0[0aA-]{4}0", r"0[0aA-]{5}0", r"0[0aA-]{6}0", r"\+0", r"\(0")
            ),
            Sign(r"\\u[0-9a-fA-F]{4}[+(]?\d", _DIGITS_BEHIND, Where.ODD),
            Sign(r"\\u[0-9a-fA-F]{4}[A-Za-z]{1,6}[ -]?\d", _letters_behind, Where.ODD),
            Sign(r"\d{2}\\+u[0-9a-fA-F]{4} ?\d{4}", _short_number, Where.ODD),
        )
    )
)
