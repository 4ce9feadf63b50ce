"""Finds people: names in Git history, home folders, mail addresses, telephone numbers, bank accounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import phonenumbers

from trajlake.transforms.redact.arithmetic import digits_of, iban, not_epoch
from trajlake.transforms.redact.rules.shapes import NOT_A_PERSON, SYSTEM_ACCOUNTS

# -- names in Git -----------------------------------------------------------------------------------------------------

_NAME: Final = r"[^\W\d_][^\n<>\[\]()@:;\"\\]{0,60}?"
_HEADER_WORDS: Final = ("uthor", "ommit", "agger", "-by", "-By", "Merged-")
_HEADER: Final = re.compile(
    rf"(?:(?:Author|Commit|Committer|Tagger|Merged-by|author|committer|tagger"
    r"|(?:Signed-off|Co-authored|Reviewed|Acked|Tested|Reported|Suggested|Helped|Approved|Committed)-[Bb]y)"
    rf"[ \t]*:?[ \t]+)(?P<v>{_NAME})[ \t]*(?=<)"
)
_HEADER_ALONE: Final = re.compile(
    rf"(?:Author|Committer|Merged-by|(?:Signed-off|Co-authored|Reviewed)-[Bb]y):[ \t]+(?P<v>{_NAME})[ \t]*(?=\n|\r|\Z)"
)
_OPENS_LINE: Final = re.compile(r"(?:\A|[\n\"'>|]|\\n)[ \t]*\Z")
_ADDRESS: Final = re.compile(r"[ ]?(?:<[\w.+%-]{1,64}@[\w.-]{1,120}>|<\[\*{8})")
_NAME_BEFORE: Final = re.compile(r"[^\W\d_][\w.'-]{0,30}(?:[ ][^\W\d_][\w.'-]{0,30}){0,3}\Z")
_LEAD: Final = re.compile(r"(?:(?:From|To|Cc|Author|by|and|email|mail|contact)[ ]){1,2}", re.IGNORECASE)
_BLAME: Final = re.compile(
    r"^\^?[0-9a-f]{7,40}[ \t]+(?:[\w./-]+[ \t]+)?\((?P<v>[^\W\d_][^()\n]{0,60}?)[ \t]+\d{4}-\d\d-\d\d[ T]\d\d:"
    r"\d\d:\d\d[ \t]+[+-]\d{4}[ \t]+\d+\)",
    re.MULTILINE,
)
_NOT_NAMES: Final = frozenset(
    "date from to cc bcc subject author committer commit signed merge the a root github gitlab bot system none "
    "unknown noreply".split()
)


def find_git_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield names of people in the output of Git and in mail headers; hashes, dates and line numbers are never part."""
    for low, high in (
        *(_in_headers(text) if any(word in text for word in _HEADER_WORDS) else ()),
        *(_before_addresses(text) if "<" in text else ()),
        *((found.span("v") for found in _BLAME.finditer(text)) if "(" in text else ()),
    ):
        value = text[low:high]
        if value.strip().lower() not in _NOT_NAMES and not value.startswith("[") and not value.endswith("[bot]"):
            yield low, low + len(value.rstrip())


def _in_headers(text: str) -> Iterator[tuple[int, int]]:
    for pattern in (_HEADER, _HEADER_ALONE):
        for found in pattern.finditer(text):
            if _OPENS_LINE.search(text, max(0, found.start() - 16), found.start()):
                yield found.span("v")


def _before_addresses(text: str) -> Iterator[tuple[int, int]]:
    for address in _ADDRESS.finditer(text):
        at = address.start()
        found = _NAME_BEFORE.search(text, max(0, at - 128), at)
        if found is None:
            continue
        lead = _LEAD.match(found.group())
        low = found.start() + (lead.end() if lead else 0)
        if low < at and (text[low].isupper() or not text[low:at].isascii()):
            yield low, at


# -- home folders -----------------------------------------------------------------------------------------------------

_SEGMENT: Final = r"(?P<v>[^\W\d_][\w.-]{0,40}(?:[ ][A-Z][\w.-]{0,30})?)"
_HOME: Final = (
    re.compile(
        r"(?<![\w.])(?:[A-Za-z]:)?(?:\\{1,8}|/)(?:Users|Documents and Settings)(?:\\{1,8}|/)"
        r"(?P<v>[^\W\d_][\w.-]{0,40}(?:[ ][A-Z][\w.-]{0,30}(?=[\\/]))?)"
    ),
    re.compile(r"(?<![\w.~-])/(?:home|export/home|var/home|Volumes/Users)/(?P<v>[^\W\d_][\w.-]{0,40})"),
    re.compile(r"(?<=/)-(?:Users|home)-(?P<v>[^\W\d_][\w.]{0,40})(?=[-/])"),
    re.compile(r"(?i:file):///?(?:[A-Za-z]:/)?(?:home|Users)/(?P<v>[^\W\d_][\w.-]{0,40})"),
    re.compile(r"/mnt/[a-z]/Users/(?P<v>[^\W\d_][\w.-]{0,40})"),
)


def find_home_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the account in paths below a home folder, without the rest of the path; accounts of machines stay."""
    for pattern in _HOME:
        for found in pattern.finditer(text):
            value = found["v"].rstrip(".")
            if value.lower() not in SYSTEM_ACCOUNTS and not value.startswith("$"):
                yield found.start("v"), found.start("v") + len(value)


# -- mail -------------------------------------------------------------------------------------------------------------

_LOCAL_BACKWARDS: Final = re.compile(r"[\w.+%'-]{1,80}")
_DOMAIN: Final = re.compile(r"(?P<d>(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24})(?![^\W\d_-])(?!\.?[\w-]*\()")
_LONGEST_LOCAL: Final = 64
"""RFC 5321, 4.5.3.1.1."""
_QUOTED_EMAIL: Final = re.compile(
    r"(?<!\w)\"[\w .+-]{1,60}\"@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
    r"|(?<![\w.+%-])\w[\w.+%-]{0,63}@\[\d{1,3}(?:\.\d{1,3}){3}\]"
)
_SPELT_AT: Final = re.compile(r"[\[({] ?(?:at|@) ?[\])}]", re.IGNORECASE)
_SPELT_EMAIL: Final = re.compile(
    r"(?<![\w.+%-])\w[\w.+%-]{0,63} ?[\[({] ?(?:at|@) ?[\])}] ?"
    r"(?:[A-Za-z0-9-]{1,63}(?: ?[\[({] ?(?:dot|\.) ?[\])}] ?|\.)){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9])",
    re.IGNORECASE,
)
"""Spelt out against harvesters: `name [at] domain [dot] org`."""
_FILE_ENDINGS: Final = frozenset(
    """png jpg jpeg gif webp svg bmp ico pdf js jsx ts tsx css scss html htm json yaml yml toml xml md txt py rb go rs
    java kt c h cpp hpp sh zip tar gz tgz whl jar lock log csv mp3 mp4 wav so dll exe service socket timer mount
    target""".split()
)
_NOT_PEOPLE: Final = frozenset(
    "git hg svn noreply no-reply donotreply do-not-reply gitlab aur mailer-daemon postmaster@localhost".split()
)
_USERINFO: Final = re.compile(r"://[^\s/\"'<>]{0,200}\Z")


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield mail addresses. Remotes (`git@host:…`), `name@2x.png`, packages with versions and URL user parts are
    none."""
    # From mark to mark: a pattern that begins with a name would try every word of the text.
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        start = _local_start(text, at) if domain is not None else at
        if domain is not None and start < at and _is_address(text, start, at, domain["d"]):
            yield start, domain.end()
        at = text.find("@", at + 1)
    if _SPELT_AT.search(text) is not None:
        yield from (found.span() for found in _SPELT_EMAIL.finditer(text))
    if '"@' not in text and "@[" not in text:
        return
    for found in _QUOTED_EMAIL.finditer(text):
        yield found.span()


def _local_start(text: str, at: int) -> int:
    """Where the part of an address before its `@` begins; `at` where there is none."""
    found = _LOCAL_BACKWARDS.match(text[max(0, at - 80) : at][::-1])
    if found is None:
        return at
    run = text[at - found.end() : at].lstrip(".+%'-")
    return at - min(len(run), _LONGEST_LOCAL)


def _is_address(text: str, start: int, at: int, domain: str) -> bool:
    if text[start:at].lower() in _NOT_PEOPLE or domain.rsplit(".", 1)[1].lower() in _FILE_ENDINGS:
        return False
    return "://" not in text[max(0, start - 220) : start] or not _USERINFO.search(text, max(0, start - 220), start)


# -- telephones -------------------------------------------------------------------------------------------------------

_PHONE: Final = re.compile(
    r"(?<![\w+])(?<![A-Za-z0-9][.\-/])(?:\+|00|011[- ])?\(?\d(?:[ \t().\u00b7/-]{0,3}\d){5,16}(?:[ ]?(?:x"
    r"|ext\.?[ ]?)\d{1,6})?(?!\w)(?![./-]\d)",
    re.IGNORECASE,
)
_CONTEXT: Final = re.compile(
    r"(?<![a-z])(?:phones?|telephone|tel|mobile|cell|cellphone|fax|call|calling|dial|dialing|desk|hotline"
    r"|whatsapp|sms|text me|texted|texting|reach me|ring|contact|answering at|messages? (?:to|from|on)"
    r"|message on my registered|registered|handy|telefon\w*|telepono|móvil|teléfono|telefono|celular|téléphone|portable"
    r"|numaram|cep|gsm|msisdn|phone_?number)(?![a-z])|전화|연락처|휴대폰|핸드폰|팩스|번호로|電話|携帯|手机|电话",
    re.IGNORECASE,
)
_LABEL_AFTER: Final = re.compile(r"[ \t-]{1,3}\(?(?:office|fax|mobile|cell|home|work|phone|tel|desk)\b", re.IGNORECASE)
_AGAINST: Final = re.compile(
    r"(?:"
    + "|".join(re.escape(word) for word in NOT_A_PERSON if word != "line")
    + r"|card|iban|account|ssn|routing|zip|v|ver|date|ip|uuid|hash|sha\d*|md5|rfc|pep|cve|isbn|issn|doi|arxiv)"
    r"[\w ]{0,8}[:#= ]{0,3}\Z",
    re.IGNORECASE,
)
_DATE_LIKE: Final = re.compile(
    r"\(?(?:19|20)\d\d[-./ ]\d{1,2}[-./ ]\d{1,2}.*|\d{1,2}([-./ ])\d{1,2}\1(?:19|20)?\d\d(?:[ ]\d{1,2})?"
    r"|(?:[01]?\d?\d|2[0-5]\d)(?:\.(?:[01]?\d?\d|2[0-5]\d)){3}|(?:19|20)\d\d[- ]+(?:19|20)\d\d"
)
_EXTENSION: Final = re.compile(r"[ ]?(?:x|ext\.?[ ]?)\d{1,6}\Z", re.IGNORECASE)
REGIONS: Final = ("KR", "US", "GB", "FR", "DE", "JP", "TR", "PH", "IT", "ES", "CH", "SE", "IN", "AU", "BR", "CN")
"""Countries whose national notation is tried without a country code, Korea first."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_WINDOW: Final = 40
_LOOKUPS: Final = 300
"""Numbers of a text that are looked up in vain before it is taken for a table of something else: then only words and
country codes make telephone numbers. Each number found allows two more."""
_FOLLOWS: Final = 20
"""A number so near behind a telephone number is taken for one too."""


def find_phones(
    text: str, name: str = "", windows: Iterable[tuple[int, int]] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield telephone numbers: international ones that exist, national ones that exist and are written as such, and
    any number of a telephone's length that words call one, or that follows one. `name` is the field's name; only the
    `windows` of the text are searched.
    """
    named = _CONTEXT.search(name.replace("_", " ")) is not None
    last = -_FOLLOWS
    left = _LOOKUPS
    whole_size = len(text.strip())
    for start, end in windows if windows is not None else ((0, len(text)),):
        for found in _PHONE.finditer(text, start, end):
            low, high = found.span()
            candidate = text[low:high].rstrip(" ().-/")
            high = low + len(candidate)
            number = _EXTENSION.sub("", candidate)
            digits = digits_of(number)
            if not 7 <= len(digits) <= 15 or len(set(digits)) == 1:
                continue
            before = text[max(0, low - _WINDOW) : low].split("\n\n")[-1]
            # Tables of numbers have no words: most of what follows is only for texts that have.
            worded = _LETTER.search(before) is not None
            said = (
                named
                or low - last < _FOLLOWS
                or (worded and _CONTEXT.search(before) is not None)
                or _LABEL_AFTER.match(text, high) is not None
            )
            if worded and _AGAINST.search(before[-24:]) and not (named or _CONTEXT.search(before[-24:])):
                continue
            whole = len(candidate) == whole_size
            if not said and not whole and number.isdigit() and number[:2] != "00":
                continue
            alone = not (before[-1:] == " " and _NUMBER_BESIDE.search(before)) and not _NUMBER_AFTER.match(text, high)
            if _is_phone(number, digits, said=said, alone=alone and left > 0, whole=whole):
                last = high
                left += 2
                yield low, high
            elif alone:
                left -= 1


_NUMBER_BESIDE: Final = re.compile(r"\d\w{0,4}[ ]\Z|\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){0,6}[ ]\Z")
_NUMBER_AFTER: Final = re.compile(r"[ ]\w{0,3}\d")


def _is_phone(number: str, digits: str, *, said: bool, alone: bool, whole: bool) -> bool:
    if number.startswith(("+", "00")) and len(digits) >= 8:
        if said or ((alone or number[0] == "+") and _exists("+" + digits.lstrip("0"), None)):
            return True
        return number[0] == "+" and re.search(r"\d[-. (]\d", number) is not None and _could_exist("+" + digits)
    if _DATE_LIKE.fullmatch(number):
        return False
    separated = not number.isdigit()
    if said:
        return separated or (len(digits) >= 9 and not_epoch(digits)) or (len(digits) == 10 and digits[0] in "23456789")
    if not alone:
        return False
    if separated and number[0] in "0(" and 10 <= len(digits) <= 11 and _grouped(number):
        return any(_exists(number, region) for region in REGIONS)
    if re.fullmatch(
        r"\([2-9]\d\d\)[-. ]?\d{3}[-. ]\d{4}|[2-9]\d\d([-.])[2-9]\d\d\1\d{4}|555([-.])\d{3}\2\d{4}", number
    ):
        return True
    if re.fullmatch(r"[2-9]\d\d[-. ][2-9]\d\d[-. ]\d{4}", number):
        return _exists(number, "US")
    if re.fullmatch(r"[2-5]\d\d([-. ])\d{3}\1\d\d\1\d\d", number) or (whole and re.fullmatch(r"5[0-5]\d{8}", number)):
        return _exists(number, "TR")
    return whole and digits[0] == "0" and len(digits) == 11 and any(_exists(number, region) for region in REGIONS)


def _grouped(number: str) -> bool:
    """Groups as people write them, parted by one kind of separator beside the parentheses."""
    groups = re.findall(r"\d+", number)
    kinds = set(re.sub(r"[\d()]", "", number).replace(" ", " "))
    if ")" in number:
        kinds.discard(" ")
    return 2 <= len(groups) <= 6 and max(map(len, groups)) <= 8 and len(kinds) <= 1


def _exists(number: str, region: str | None) -> bool:
    try:
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return False
    return (
        phonenumbers.is_valid_number(parsed)
        if region is None
        else phonenumbers.is_valid_number_for_region(parsed, region)
    )


def _could_exist(number: str) -> bool:
    """Of a length that the country has; numbers kept for fiction (+1 555 …) are of that kind."""
    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(number))
    except phonenumbers.NumberParseException:
        return False


# -- bank accounts ----------------------------------------------------------------------------------------------------

_IBAN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,32}|[a-z]{2}\d{2}(?:[ -]?[a-z0-9]){11,32})"
)
_IBAN_LENGTHS: Final = dict(
    pair.split(":")
    for pair in """AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24
    DE:22 DJ:27 DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21
    HU:28 IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22
    MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24 SC:31
    SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30""".split()
)
"""Length of an IBAN by country, from the SWIFT IBAN registry (ISO 13616)."""


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield IBANs: the country's length and ISO 7064 mod 97 hold. What follows the number is not swallowed."""
    for found in _IBAN.finditer(text):
        length = int(_IBAN_LENGTHS.get(found.group()[:2].upper(), 0))
        seen = 0
        for place, char in enumerate(found.group(), 1):
            seen += char.isalnum()
            if seen == length:
                end = found.start() + place
                if not text[end : end + 1].isalnum() and _mod97(found.group()[:place]) and iban(found.group()[:place]):
                    yield found.start(), end
                break


def _mod97(text: str) -> bool:
    plain = "".join(char for char in text if char.isalnum())
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1
