"""Reads the value behind a telling name: quoted, bare, in a block, behind a scheme, as an expression's fallback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajlake.transforms.redact.names import Strength
from trajlake.transforms.redact.randomness import is_random
from trajlake.transforms.redact.values import is_code, is_placeholder, is_secret

_SCHEME: Final = re.compile(
    r"(?:Basic|Bearer|Token|Digest|ApiKey|Api-Token|Api-Key|Negotiate|NTLM|OAuth|Splunk|GenieKey|SSWS|JWT|Key"
    r"|Apikey|AWS4-HMAC-SHA256|SharedKey|PVEAPIToken|Hawk)[ \t]+(?:token=|username=)?[\"']?(?=\S)",
    re.IGNORECASE,
)
_BLOCK: Final = re.compile(
    r"[ \t]*[|>][+-]?\d?[ \t]*(?:#[^\n]*)?\r?\n(?P<v>(?P<i>[ \t]+)\S[^\n]*(?:\r?\n(?P=i)[^\n]*){0,200})"
)
QUOTED: Final = re.compile(
    r"""(?:[rbuf]{1,2}|@|\$|[NE](?='))?(?:(?:(?P<t>\"\"\"|''')\s*(?P<u>(?:\\.|(?!(?P=t))[^\\]){0,8192}?)\s*(?P=t)|(?P<q>["'`])(?P<v>(?:\\.|(?!(?P=q))[^\n\\]){0,8192}?)(?P=q))|[“‘](?P<w>[^”’\n]{1,512})[”’])"""
)
_UNFINISHED: Final = re.compile(r"(?:[rbuf]|@|\$)?[\"'`](?P<v>[^\"'`\s\\]{8,8192})\Z")
_GETTER: Final = re.compile(
    r"[^\n\"'`]{0,60}(?:getenv|environ(?:\.get)?|getProperty|get_env|env|GetEnvironmentVariable|lookup|fetch"
    r"|dig|process\.env|findProperty|property)\b",
    re.IGNORECASE,
)
_FALLBACK: Final = re.compile(
    r"(?:,|\bor\b|\|\||\?\?|\?:|:|\?)\s*(?:[rbuf]|@)?(?P<q>[\"'`])(?P<v>(?:\\.|(?!(?P=q))[^\n\\]){3,512})(?P=q)"
)
_OTHERWISE: Final = re.compile(
    r"(?:\bor\b|\|\||\?\?|\?:)\s{0,8}(?:[rbuf]|@)?(?P<q>[\"'`])(?P<v>(?:\\.|(?!(?P=q))[^\n\\]){3,512})(?P=q)"
)
_LINE: Final = re.compile(r"[^\s\"'`]{1,8192}")
BARE: Final = re.compile(r"[^\s\"'`<>(){}\[\],;|]{1,8192}")
_TRAILING: Final = ".,:;!?…。、"


def value_at(text: str, start: int, at: int, strength: Strength, operator: str) -> Iterator[tuple[int, int]]:
    if scheme := _SCHEME.match(text, at + (text[at : at + 1] in ('"', "'", "`"))):
        found = BARE.match(text, scheme.end())
        if found and not is_placeholder(found.group()):
            yield from judge_credentials(text, found.start(), found.end())
        return
    if block := _BLOCK.match(text, at):
        low, high = block.start("v") + len(block["i"]), block.end("v")
        yield from judge(text, low, low + len(text[low:high].rstrip()), strength, quoted=True)
        return
    if quoted := QUOTED.match(text, at):
        low, high = inner(quoted)
        yield from judge(text, low, high, strength, quoted=True)
        return
    if unfinished := _UNFINISHED.match(text, at):
        yield from judge(text, unfinished.start("v"), unfinished.end("v"), strength, quoted=True)
        return
    if _GETTER.match(text, at):
        end = text.find("\n", at)
        line_end = min(at + 300, end if end >= 0 else len(text))
        for found in _FALLBACK.finditer(text, at, line_end):
            yield from judge(text, found.start("v"), found.end("v"), min(strength, Strength.SECRET), quoted=True)
        return
    tight = "=" in operator and " " not in operator and "\t" not in operator
    found = _LINE.match(text, at) if tight and _begins_line(text, start) else BARE.match(text, at)
    if found is None:
        return
    low, high = found.start(), found.end()
    if text[max(0, start - 1) : start] in ("?", "&", ";") or _in_query(text, start):
        cut = re.search(r"[&#]", text[low:high])
        high = low + cut.start() if cut else high
        tight = True
    if is_code(text[low:high]) or text[high : high + 1] in ("(", "["):
        # An expression; what it falls back to may be written out: `password = fromEnv ?: "…"`.
        line_end = text.find("\n", high)
        for found in _OTHERWISE.finditer(text, high, min(high + 200, line_end if line_end >= 0 else len(text))):
            yield from judge(text, found.start("v"), found.end("v"), min(strength, Strength.SECRET), quoted=True)
        return
    if strength <= Strength.TOKEN and text[low:high].endswith(("...", "…")):
        return  # cut short by whoever wrote it
    value = text[low:high].rstrip(_TRAILING)
    high = low + len(value)
    if operator.strip() in (":", "->", "=>") and _ends_line(text, high) and _begins_line(text, start):
        tight = True if strength >= Strength.SECRET and not value.isalpha() else tight
    if (
        strength is Strength.PASSWORD
        and operator.strip() == ":"
        and text[high : high + 1] == " "
        and not _begins_line(text, start)
    ):
        strength = Strength.SECRET
    line = tight and _begins_line(text, start) and _ends_line(text, high)
    yield from judge(text, low, high, strength, quoted=False, tight=tight, line=line)


def inner(found: re.Match[str]) -> tuple[int, int]:
    for group in ("v", "u", "w"):
        if group in found.re.groupindex and found[group] is not None:
            return found.span(group)
    return found.span()


def _begins_line(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 40), start)
    before = text[(line + 1 if line >= 0 else max(0, start - 40)) : start]
    return (line >= 0 or start <= 40) and re.fullmatch(
        r"\s*(?:(?:export|set|setx|env|ENV|ARG|-e|\+|-|>|#)\s*){0,2}[\"'$]?", before
    ) is not None


def _ends_line(text: str, end: int) -> bool:
    return re.match(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)", text[end : end + 80]) is not None


def _in_query(text: str, start: int) -> bool:
    before = text[max(0, start - 300) : start]
    return re.search(r"[?&][\w.%\[\]-]{0,60}\Z", before) is not None


def judge(
    text: str, low: int, high: int, strength: Strength, *, quoted: bool, tight: bool = False, line: bool = False
) -> Iterator[tuple[int, int]]:
    value = text[low:high]
    if scheme := _SCHEME.match(value):
        if not is_placeholder(value[scheme.end() :]):
            yield from judge_credentials(text, low + scheme.end(), high)
        return
    if is_secret(value, strength, quoted=quoted, tight=tight, line=line):
        stripped = value.strip()
        low += value.index(stripped) if stripped else 0
        yield low, low + len(stripped)


def judge_credentials(text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """What follows `Bearer` or `Basic`: short words there are prose (`Bearer tokens are …`)."""
    value = text[low:high].rstrip("\"'`,;")
    if len(value) >= 8 and (
        is_random(value, 8) or any(char.isdigit() for char in value) or value.endswith("=") or len(value) >= 20
    ):
        yield low, low + len(value)


def credentials_in(value: str) -> tuple[int, int] | None:
    """The range of the credentials in the value of an authorization header, without the name of the scheme."""
    scheme = _SCHEME.match(value)
    return (scheme.end(), len(value)) if scheme and scheme.end() < len(value) else None
