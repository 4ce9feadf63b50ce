"""Finds secrets by the name they are given: `password = "…"` in the notations of code, configuration, markup and
prose.

The text is searched for roots of telling names; around each, the whole name is read, judged by `names`, and what
follows is matched with the notations below. Quotes that are escaped in the text are dealt with one level up, by the
detector's views; here a quote is a quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import ahocorasick

from trajlake.transforms.redact.assigned_values import BARE, QUOTED, inner, judge, value_at
from trajlake.transforms.redact.names import Strength, strength_of
from trajlake.transforms.redact.randomness import is_random
from trajlake.transforms.redact.values import is_placeholder, is_secret

ROOTS: Final = tuple(
    """pass pwd pw psw kennwort secret token key credential auth bearer cookie jwt signature sig sas otp pin cvv cvc
    mnemonic phrase pat hmac code contrase clave senha motdepasse mdp heslo hasło wachtwoord lösenord parola şifre sifre
    пароль 비밀번호 비번 패스워드 암호 인증키 비밀키 시크릿 토큰 인증번호 パスワード トークン 密码 密碼 口令 令牌
    秘密鍵""".split()
)
"""Parts of names that may hold a secret, lower case. `names.strength_of` decides on the whole name."""

_SELDOM_BARE: Final = frozenset(
    "key auth sig signature sas pat code phrase cookie jwt otp pin cvv cvc hmac bearer credential".split()
)
"""Roots of names after which a bare word is no value."""
_NAME_RIGHT: Final = re.compile(r"[\w.-]{0,60}")
_SPACED: Final = re.compile(
    r"(?:api|access|secret|private|auth|client|license|recovery|seed|security|signing|encryption|account"
    r"|master|verification|mot de)[ ]\Z",
    re.IGNORECASE,
)
_PARTICLE: Final = re.compile(r"(?<=[^\x00-\x7f])(?:은|는|이|가|を|は|是|为|為)\Z")
"""Korean, Japanese and Chinese write `is` without a space behind the name."""
_CLOSE: Final = re.compile(r"[\"'`\])}]{0,3}")
_TYPE: Final = r"(?:\s*:\s*|[ \t]+)[A-Za-z_][\w.<>\[\]?*|]{0,30}?"
_OPERATOR: Final = re.compile(
    rf"{_TYPE}(?:[ \t]+:?=[ \t]*|=(?=[\"'`]))|[ \t]*(?::::?=|::=|:=|\?\?=|\|\|=|\?=|\+=|\.=|===?|!==?|=~|=>|->"
    r"|=)[ \t]*(?:\r?\n[ \t]+)?|[ \t]*[：＝][ \t]*|[ \t]*:[ \t]*(?:\r?\n[ \t]+(?=[\"']))?"
)
_IS: Final = re.compile(
    r"[ \t]{1,3}(?:is|was|are|equals|to|ist|es|est|è)[ \t]{1,3}(?:now[ \t]|set to[ \t]|:[ \t]?)?|[ \t]?(?:은|는|이"
    r"|가|を|は|是|为|為)[ \t]{0,2}(?:[:=][ \t]*)?"
)
_XML_TEXT: Final = re.compile(
    r"(?:\s[^<>]{0,200})?>\s{0,200}(?:<!\[CDATA\[)?(?P<v>[^<>\]]{1,8192})(?:\]\]>\s{0,200})?</"
)
_XML_VALUE: Final = re.compile(
    r"\s{1,20}(?:[\w:.-]{1,40}\s*=\s*[\"'][^\"'<>]{0,200}[\"']\s{1,20}){0,3}(?:value|content|val|defaultValue)"
    r"\s*=\s*(?P<q>[\"'])(?P<v>[^\"'<>]{1,8192})(?P=q)"
)
_PAIR: Final = re.compile(
    r"\s*,\s*[\"'](?:[\w ]{1,40}[\"']\s*:\s*(?:[\"'][^\"']{0,200}[\"']|[\w.]+)\s*,\s*[\"']){0,2}(?:value|val"
    r"|values|content|secret|data|text|default|defaultValue|stringValue)[\"']\s*:\s*(?P<q>[\"'])(?P<v>(?:\\."
    r"|(?!(?P=q))[^\n\\]){1,8192})(?P=q)"
)
_YAML_PAIR: Final = re.compile(
    r"[\"']?[ \t]*\r?\n[ \t]*(?:value|val|content|stringValue):[ \t]*(?P<q>[\"']?)(?P<v>[^\s\"'#][^\n\"']{0,409"
    r"5}?)(?P=q)[ \t]*(?:\r?\n|\Z)"
)
_GETENV_NAME: Final = re.compile(
    r"[\"'`]\s*(?P<o>,|\)\s*(?:or\b|\|\||\?\?|\?:))\s*[rbuf]?(?P<q>[\"'`])(?P<v>(?:\\.|(?!(?P=q))[^\n\\]){3,512})(?P=q)"
)
_CALL: Final = re.compile(
    r"\s?\(\s{0,20}(?:[rbuf@$N]?)(?P<q>[\"'`])(?P<v>(?:\\.|(?!(?P=q))[^\n\\]){3,512})(?P=q)\s{0,20}\)"
)
_IN_PARENTHESES: Final = re.compile(
    r"[ \t]?[(（][ \t]?(?:[\w ]{1,20}[:：][ \t]?)?(?P<v>[^\s\"'`()（）<>{}\[\],;]{6,128})[ \t]?[)）]"
)
_FOR_WHAT: Final = re.compile(
    r"[ \t](?:for|of|in|on)[ \t][\w@.-]{1,40}(?:[ \t][\w@.-]{1,30}){0,3}?(?:[ \t]is|[ \t]?[:=])[ \t]{1,2}"
    r"(?P<v>[^\s\"'`<>(){}\[\],;|]{6,512})"
)
_BOTH_NAMES: Final = re.compile(
    r"(?:\b(?:id|user|username|login|account|uid)|계정|아이디|사용자)[\"')]?[ \t]?[/&,|+][ \t]?[\"'(]?\Z", re.IGNORECASE
)
_BOTH_VALUES: Final = re.compile(
    r"[ \t]?[:=)-]?[ \t]{0,2}(?:[\w.-]{1,40}:)?[\w.@-]{1,64}[ \t]?[/,|][ \t]?"
    r"(?P<v>[^\s\"'`<>(){}\[\],;|/]{6,128})"
)
_FORM_PART: Final = re.compile(
    r"[\"'](?:;[^\n]{0,200})?\r?\n(?:Content-[\w-]{1,30}:[^\n]{0,200}\r?\n){0,4}\r?\n(?P<v>[^\r\n]{1,512})\r?\n--"
)
_BLOCK_DEFAULT: Final = re.compile(
    r"[\"'][ \t]{0,3}\{[^{}]{0,600}?\bdefault[ \t]{0,20}=[ \t]{0,3}(?P<q>[\"'])(?P<v>(?:\\."
    r"|(?!(?P=q))[^\n\\]){3,512})(?P=q)"
)
_NEXT_LINE: Final = re.compile(
    r"[ \t]{0,3}:?[ \t]{0,3}\r?\n[ \t]{0,8}(?P<v>[A-Za-z0-9+/_=.-]{16,512})[ \t]{0,8}(?=\r?\n|\Z)"
)
_ASKS: Final = re.compile(
    r"(?:get|read|input|prompt|ask|is|has|check|validate|verify|find|load|fetch|lookup|generate|hash|encrypt"
    r"|decrypt|parse|match|type|enter|fill)",
    re.IGNORECASE,
)
_SAID_AFTER: Final = re.compile(
    r"[\"'`]?[ \t]{1,3}(?:is|was|ist|es|est)[ \t]{1,3}(?:the|my|our|your|a|das|la|le"
    r"|el)?[ \t]?(?:[\w-]{1,20}[ \t]){0,2}(?:password|passwd|passphrase|secret|token|api[ _-]?key|passwort|pw)"
    r"\b",
    re.IGNORECASE,
)
_VALUE_BEFORE: Final = re.compile(r"[^\s\"'`<>(){}\[\],;|]{6,512}\Z")


def _automaton() -> ahocorasick.Automaton:
    automaton = ahocorasick.Automaton()
    for root in ROOTS:
        automaton.add_word(root, root)
    automaton.make_automaton()
    return automaton


_AUTOMATON: Final = _automaton()


def find_assigned(text: str) -> Iterator[tuple[int, int]]:
    """Yield the character ranges of secrets that a name in the text gives away."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # A few letters change length in lower case (İ); the ranges would be off, so they are left as they are.
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    done = 0
    seen = False
    for last, root in _AUTOMATON.iter(lowered):
        if last < done:
            continue
        seen = True
        right = _NAME_RIGHT.match(text, last + 1)
        end = right.end() if right else last + 1
        done = end
        if _goes_on_as_prose(text, end, root):
            continue
        for low, high in _after_name(text, _name_start(text, last - len(root) + 1), end):
            done = max(done, high)
            yield low, high
    if seen:
        yield from _named_afterwards(text)


def _named_afterwards(text: str) -> Iterator[tuple[int, int]]:
    """Yield values whose name follows: `hunter2 is the password`."""
    for said in _SAID_AFTER.finditer(text):
        found = _VALUE_BEFORE.search(text, max(0, said.start() - 512), said.start())
        if found is None:
            continue
        value = found.group().lstrip("/#*-")
        if is_secret(value, Strength.SECRET, quoted=False, tight=False):
            yield found.end() - len(value), found.end()


_PLAIN_WORD: Final = re.compile(r"[A-Za-z]{1,40}(?![A-Za-z0-9+/_=-])")
_VALUE_WORDS: Final = ("is", "wa", "ar", "eq", "to", "es")


def _goes_on_as_prose(text: str, end: int, root: str) -> bool:
    """A quick no: a word follows, not an operator, a quote or a verb, and the name is none that takes a bare value."""
    if text[end : end + 1] not in (" ", "\t"):
        return text[end : end + 1] == ""
    following = text[end + 1 : end + 3]
    if not (following.isalpha() and following.isascii()) or following in _VALUE_WORDS or root not in _SELDOM_BARE:
        return False
    return _PLAIN_WORD.match(text, end + 1) is not None


def _name_start(text: str, start: int) -> int:
    least = max(0, start - 60)
    while start > least and (text[start - 1].isalnum() or text[start - 1] in "_.$@-"):
        start -= 1
    return start


def _after_name(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    name = _PARTICLE.sub("", text[start:end].rstrip(".-"))
    end = start + len(name)
    spaced = _SPACED.search(text, max(0, start - 14), start)
    strength = strength_of((spaced.group() if spaced else "") + name.lstrip("-$@"))
    if strength is Strength.NONE:
        return
    if text[max(0, start - 1) : start] == "<" and (found := _XML_TEXT.match(text, end)):
        yield from judge(text, found.start("v"), found.end("v"), strength, quoted=True)
        return
    if strength >= Strength.SECRET:
        yield from _drawn_beside(text, start, end, strength)
    closed = _CLOSE.match(text, end)
    after = closed.end() if closed else end
    if after > end:
        for notation in (_FORM_PART, _BLOCK_DEFAULT):
            if strength >= Strength.SECRET and (found := notation.match(text, after - 1)):
                yield from judge(text, found.start("v"), found.end("v"), strength, quoted=True)
                return
        for notation in (_PAIR, _XML_VALUE, _YAML_PAIR):
            if found := notation.match(text, after):
                yield from judge(text, found.start("v"), found.end("v"), strength, quoted=True)
                return
        if found := _XML_TEXT.match(text, after):
            yield from judge(text, found.start("v"), found.end("v"), strength, quoted=True)
            return
        if found := _GETENV_NAME.match(text, after - 1):
            yield from judge(text, found.start("v"), found.end("v"), min(strength, Strength.SECRET), quoted=True)
            return
    elif found := _YAML_PAIR.match(text, end):
        yield from judge(text, found.start("v"), found.end("v"), strength, quoted=True)
        return
    if after == end and (found := _CALL.match(text, end)) and not _ASKS.match(name.lstrip("._$")):
        # A builder's call or an SQL function: `.password("…")`, `PASSWORD('…')`.
        if " " not in found["v"]:
            yield from judge(text, found.start("v"), found.end("v"), min(strength, Strength.SECRET), quoted=True)
        return
    yield from _operated(text, start, after, strength, closed=after > end)


def _drawn_beside(text: str, start: int, end: int, strength: Strength) -> Iterator[tuple[int, int]]:
    """Values in notations that prose and code have too, so that they must look drawn by a machine: in parentheses,
    behind `for whom:`, behind the name of an account (`id/pw: a/b`), alone on the next line."""
    notations = [(_IN_PARENTHESES, 8), (_FOR_WHAT, 8), (_NEXT_LINE, 16)]
    if _BOTH_NAMES.search(text, max(0, start - 24), start):
        notations.append((_BOTH_VALUES, 8))
    for notation, least in notations:
        if (found := notation.match(text, end)) and is_random(found["v"], least):
            yield from judge(text, found.start("v"), found.end("v"), strength, quoted=False, tight=True)


def _operated(text: str, start: int, after: int, strength: Strength, *, closed: bool) -> Iterator[tuple[int, int]]:
    """The value behind an operator, a comma, a space or a verb."""
    if operator := _OPERATOR.match(text, after):
        yield from value_at(text, start, operator.end(), strength, operator.group())
        return
    if said := _IS.match(text, after):
        yield from value_at(text, start, said.end(), min(strength, Strength.SECRET), " is ")
        return
    rest = text[after : after + 1]
    if rest == ",":
        # Lists hold words too, so the value must look drawn by a machine.
        at = after + 1
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        found = QUOTED.match(text, at) if closed else BARE.match(text, at)
        if found:
            low, high = inner(found)
            if is_random(text[low:high], 8) and high - low >= 8:
                yield from judge(text, low, high, Strength.TOKEN, quoted=True)
        return
    if rest in (" ", "\t"):
        option = text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-"
        option = option or (
            strength is Strength.PASSWORD and text[after : after + 8].lstrip()[:1] in ("'", '"') and not closed
        )
        at = after
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        found = QUOTED.match(text, at) or BARE.match(text, at)
        if found is None or at - after > 8:
            return
        low, high = inner(found)
        if (
            (option and text[low : low + 1] != "-")
            or is_random(text[low:high], 8 if strength is Strength.PASSWORD else 12)
            or (strength >= Strength.PASSWORD and "login" in text[max(0, start - 60) : start])
        ):
            yield from judge(text, low, high, strength, quoted=False, tight=True)


_BEARER: Final = re.compile(r"\b(?:Bearer|Basic)[ \t]{1,3}(?P<v>[A-Za-z0-9._~+/=-]{12,8192})", re.IGNORECASE)


def find_bearers(text: str) -> Iterator[tuple[int, int]]:
    """Yield credentials that follow `Bearer` or `Basic` without the header's name before them."""
    for found in _BEARER.finditer(text):
        value = found["v"].rstrip(".")
        if (is_random(value, 12) and not is_placeholder(value)) or (value.endswith("==") and len(value) % 4 == 0):
            yield found.start("v"), found.start("v") + len(value)
