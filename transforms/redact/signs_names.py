"""Signs of assignments: a name that tells of a secret, with a value behind it."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from trajlake.transforms.redact.signs import Sign, Where, escaped

_KEY_WORDS: Final = (
    "api access private auth account shared signing encryption encrypt master service client license app host "
    "storage session "
    "wallet secret server admin ssh aes hmac deploy root developer webhook integration subscription"
).split()
_LONG_NAMES: Final = (
    *"password passwd passphrase passwort kennwort passcode pwd secret secrets credential credentials token "
    "authorization".split(),
    "mot de passe",
    *"bearer jwt signature cookie csrf xsrf mnemonic senha clave heslo wachtwoord parola sifre motdepasse cvv "
    "cvv2 cvc cvc2".split(),
    *(f"{word}{gap}key" for word in ("api", "access", "private", "auth") for gap in ("", " ", "_", ".", "-")),
    *(f"{word}{gap}key" for word in _KEY_WORDS[4:] for gap in ("", " ", "_", ".", "-")),
    *(f"{first}{gap}phrase" for first in ("seed", "recovery") for gap in (" ", "_", "-")),
    *(f"key{gap}material" for gap in ("", "_", "-")),
    *(f"{word}{gap}code" for word in ("otp", "pin", "mfa", "security", "verification") for gap in ("", "_", "-", " ")),
    r"contrase\S{1,3}a",
)
_SHORT_NAMES: Final = "_auth auth sig sas pw psw pat mdp pin otp totp".split()
_NAMES_ELSEWHERE: Final = (
    "비밀번호|비번|패스워드|암호|인증키|비밀키|시크릿|토큰|인증번호|パスワード|トークン|密码|密碼|口令|令牌|秘密鍵"
    "|пароль|hasło|lösenord|şifre"
)

_REST: Final = (
    r"(?:[_.-][\w.-]{0,24}|\d{1,3}(?![\w.])|(?:[A-Z][a-z]{2,16}){1,2}|(?:value|string|hash|text|data|plain"
    r"|confirm\w{0,8}))?"
)
_QUOTES: Final = r"[\\\"'`\])}\s]{0,300}"
"""Quotes, as many backslashes before them as eight levels of JSON in strings need, and brackets."""
_OPENS: Final = (
    r"(?:(?:\\*[\"'`]){1,3}\s{0,3}[^\s\"'\\]|[^\s\d\"'\[\]{}\\(),;:<]|\d+(?:[A-Za-z_!@#$%^&*~\x80-\xff-]|\\+u)"
    r"|[|>]-?(?:\\+r)?(?:\\+n|\n)|<[^/]|\\+n)"
)
_DRAWN: Final = r"[A-Za-z_.-]{0,60}[\d+/!@#$%^&*=]|[A-Za-z]{0,60}(?:[a-z][A-Z]|[A-Z]{5}|[b-df-hj-np-tv-xz]{5})"
"""The start of a word that may be drawn by a machine."""
_ASSIGNS: Final = (
    rf"{_QUOTES}(?:"
    rf"(?:=>|[:?+.|=!]{{0,3}}=[=~>]?|->)\s{{0,3}}(?!(?:None|null|nil|true|false|True|False|undefined)(?![\w/+.=-]))"
    rf"(?:{_OPENS}|\d{{4}})"
    rf"|:\s{{0,3}}(?:{_OPENS}|\d{{3,8}}\\*[\"']|[\[{{](?:\s|\\+n){{0,20}}\\*[\"'\[{{]|\d{{3,8}}[,}}\]])"
    r"|,\s{0,3}\\*[\"'`]?[A-Za-z0-9+/_.:~-]{8}"
    r"|\s{0,3}(?:or|\|\||\?\?|\?:)\s{0,3}\\*[\"'`]"
    r"|(?:\s[^<>]{0,100})?>\s{0,60}(?:\\+[nrt]\s{0,40})*[^\s<>\\]"
    r"|\s{0,3}(?:%22|%27|&quot;|&#3[49];)?\s{0,3}(?:%3[aAdD]|\\+u003[ad]|&#58;)"
    r")"
    r"|\s{1,3}(?:is|was|are|ist|es|est|equals|to|\xc3\xa8|\\+u00e8)\s{1,3}\S{4}"
    r"|[\\\"'`)]{0,3}(?:\s{0,3}:\s{0,3}|\s{1,3})[A-Za-z][\w.<>\[\]?]{0,30}\s{0,3}:?="
    rf"|\s{{1,4}}\\*[\"']?(?={_DRAWN})[A-Za-z0-9+/_!@#$%^&*=.-]{{7}}"
    r"|\s{1,4}\\+[\"'][^\s\"'\\]|\s{1,4}'[^\s\"'\\]"
    r"|\s?\(\s{0,8}\\*[\"'`]"
    r"|\\*[\"']?\s{0,3}(?:\\+[rn]|\n|\r){1,2}\s{0,40}(?:value|val|content|stringValue):"
    r"|\\*[\"'](?:\\+r|\r)?(?:\\+n|\n)(?:Content-[^\n\\]{0,200}(?:\\+r|\r)?(?:\\+n|\n)){0,4}(?:\\+r|\r)?(?:\\+n|\n)[^\s\\]"
    r"|\\*[\"']\s{0,3}\{(?:\s|\\+n)"
    rf"|[ \t]?(?:[(]|\xef\xbc\x88|\\+uff08)\s?(?:[\w ]{{1,20}}:\s?)?(?={_DRAWN})[^\s\"'\\()]{{6}}"
    rf"|\s(?:for|of|in|on)\s[\w@. -]{{1,130}}?(?:\sis|\s?[:=])\s{{1,2}}(?={_DRAWN})\S{{6}}"
    rf"|[)\"']{{0,2}}\s?[:=)-]?\s{{0,2}}(?:[\w.-]{{1,40}}:)?[\w.@-]{{1,64}}\s?[/,|]\s?(?={_DRAWN})[^\s\"'\\]{{6}}"
    rf"|\s{{0,3}}:?\s{{0,3}}(?:\\+r|\r)?(?:\\+n|\n)\s{{0,8}}(?={_DRAWN})[A-Za-z0-9+/_=.-]{{16}}"
    r"|\\*[\"']\s{1,8}(?:[\w:.-]{1,40}=\\*[\"'][^\"'<>]{0,60}\\*[\"']\s{1,8})?(?:value|content|val|defaultValue)\s?="
)
_ASSIGNED: Final = re.compile(rf"{_REST}(?:{_ASSIGNS})".encode()).match
_ASSIGNED_SHORT: Final = re.compile(rf"(?![A-Za-z])(?:[_-]?(?:code|key|token|value))?(?:{_ASSIGNS})".encode()).match
_OPTION: Final = re.compile(rb"(?:\A|[\s\"'\\nrt(`=])-{1,2}[A-Za-z][\w.-]{0,60}\Z").search
_OPTION_VALUE: Final = re.compile(rb"[ =]\\*[\"']?[^\s-]").match
_SAID_BEFORE: Final = re.compile(
    rb"\S{4}[\"'`]?\s(?i:is|was|ist|es)\s(?i:the|my|our|your|a|das)?\s?(?:\w{1,20}\s){0,2}[\w -]{4,16}\Z"
).search
_NAME_ENDS: Final = re.compile(rb"[\w .-]{0,24}\\*[\"']").match
_NAME_FIELD: Final = re.compile(
    rb"(?:name|key|id|field|header|property|label|variable|var|param|parameter|env|setting)"
    rb"\\*[\"']?\s{0,3}[=:]\s{0,3}\\*[\"'][^\"']{0,60}\Z"
).search
_ELSEWHERE: Final = re.compile(
    rf"(?:[\x80-\xff]{{0,6}}|(?:\\+u[0-9a-fA-F]{{4}}){{0,2}}){_QUOTES}[:=,(]?{_QUOTES}[!-~]{{4}}".encode()
).match
_COUNTED: Final = re.compile(rb"_(?:count|usage|details|limit)\\*[\"']").match
_KEY_VALUE: Final = re.compile(rb"\\*[\"']?\s{0,3}(?:[:=,>]|:=|=>)\s{0,3}\\*[\"']?[A-Za-z0-9+/_=.-]{16}").match


def _assigned(raw: bytes, end: int) -> bool:
    """A value follows the name, or the name is itself the value of a field called `name` or the like."""
    end -= 1  # the sign holds the character behind the name
    if _COUNTED(raw, end) is not None and raw[end - 5 : end].lower() == b"token":
        return False
    if _ASSIGNED(raw, end) is not None:
        return True
    if raw.find(b" is ", max(0, end - 60), end) >= 0 and _SAID_BEFORE(raw, max(0, end - 80), end) is not None:
        return True
    if _OPTION_VALUE(raw, end) is not None and _OPTION(raw, max(0, end - 80), end) is not None:
        return True
    return _NAME_ENDS(raw, end) is not None and _NAME_FIELD(raw, max(0, end - 90), end) is not None


def _assigned_short(raw: bytes, end: int) -> bool:
    end -= 1
    if _ASSIGNED_SHORT(raw, end) is not None:
        return True
    return _OPTION_VALUE(raw, end) is not None and _OPTION(raw, max(0, end - 80), end) is not None


def _key_value(raw: bytes, end: int) -> bool:
    return _KEY_VALUE(raw, end - 1) is not None


def _elsewhere(raw: bytes, end: int) -> bool:
    return _ELSEWHERE(raw, end) is not None


NAME_SIGNS: Final[tuple[Sign, ...]] = (
    *(Sign(rf"(?i:{name})[^a-z]", _assigned) for name in dict.fromkeys(_LONG_NAMES)),
    *(Sign(rf"(?i:[^a-z]{name})[^a-z]", _assigned_short) for name in _SHORT_NAMES),
    *(Sign(rf"(?i:\\{letter}{name})[^a-z]", _assigned_short) for letter, name in product("nrt", _SHORT_NAMES)),
    Sign("(?i:pass)[^a-z]", _assigned_short),
    Sign("(?i:key)[^a-z]", _key_value),
    *(Sign(name, _elsewhere, Where.ODD) for name in dict.fromkeys(escaped(_NAMES_ELSEWHERE).split("|"))),
)
