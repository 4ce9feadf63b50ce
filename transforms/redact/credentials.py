"""Finds credentials by the notation they stand in: URLs, command lines, cookies, Kubernetes secrets, echoed errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajlake.transforms.redact.names import Strength
from trajlake.transforms.redact.randomness import is_masked, is_random
from trajlake.transforms.redact.values import is_placeholder, is_secret

# -- URLs and command lines -------------------------------------------------------------------------------------------

_USERINFO: Final = re.compile(
    r"(?:(?<![A-Za-z0-9+.])[A-Za-z][A-Za-z0-9+.-]{1,30}:"
    r"|(?<![\w:/]))(?:\\?/){2}(?P<u>[^\s:/?#\"'<>@\\(){}\[\]|,;^*]{0,128}(?:@[\w.-]{1,80})?)"
    r":(?P<v>[^\s\"'<>/\\]{1,512})@(?=[\w\[$%{])"
)
_BARE_USER: Final = re.compile(
    r"(?<![A-Za-z0-9+.])[A-Za-z][A-Za-z0-9+.-]{1,30}:(?:\\?/){2}(?P<v>[A-Za-z0-9_~+=-]{12,256})@(?=[\w\[])"
)
_ORACLE: Final = re.compile(r"(?:thin|oci):(?P<u>\w{1,64})/(?P<v>[^\s\"'<>/@]{1,128})@")
_BASIC: Final = re.compile(
    r"(?:^|[\s\"'])(?:-u|--user|--proxy-user|--http-user|-U)(?:[ \t]{1,4}"
    r"|=)?(?P<q>[\"']?)(?P<u>[^\s:\"'$]{1,128}):(?P<v>[^\s\"']{1,256})(?P=q)"
)
_LOGIN: Final = re.compile(
    r"(?:sshpass[ \t]+-p[ \t]*|mysql[^\n|;&]{0,80}?[ \t]-p|\blogin\b[^\n|;&]{0,80}?[ \t]-p[ \t=]{1,3})"
    r"(?P<q>[\"']?)(?P<v>[^\s\"'-][^\s\"']{2,128})(?P=q)"
)
_IDENTIFIED: Final = re.compile(
    r"\bIDENTIFIED[ \t]+(?:WITH[ \t]+\w{1,40}[ \t]+)?(?:BY|AS)[ \t]+(?:PASSWORD[ \t]+)?(?:(?P<q>['\"])"
    r"(?P<v>[^'\"\n]{1,256})(?P=q)|(?P<w>[^\s'\";()]{4,256}))",
    re.IGNORECASE,
)
_SECURE_STRING: Final = re.compile(
    r"ConvertTo-SecureString[ \t]+(?:-\w{1,20}[ \t]+){0,3}(?P<q>[\"'])(?P<v>[^\"'\n]{3,256})(?P=q)", re.IGNORECASE
)
_PASS_FILE: Final = re.compile(
    r"^[\w.*-]{1,253}:(?:5432|5433|6432):[\w*-]{1,63}:[\w.@*-]{1,63}:(?P<v>[^\s:\"'\\]{4,256})[ \t]*$", re.MULTILINE
)
"""A line of PostgreSQL's password file."""
_PLAIN_PASSWORDS: Final = frozenset("password mypassword yourpassword changeme".split())
_SHORT_PASSWORDS: Final = frozenset("pass passwd pwd secret admin root test guest default".split())
"""Words that stand for a password elsewhere, and that people do use in URLs."""
_EXAMPLE_PAIRS: Final = frozenset({("user", "pass"), ("username", "pass"), ("user", "passwd"), ("user", "pwd")})
"""User and password of examples in documentation."""


def find_url_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield the password of `scheme://user:password@host` (RFC 3986, 3.2.1), `@` in the password included."""
    for pattern in (_USERINFO, _ORACLE):
        for found in pattern.finditer(text):
            value, user = found["v"], found["u"]
            if (
                user.lower() == "mailto"
                or (is_placeholder(value) and value not in _SHORT_PASSWORDS)
                or value.lower() in _PLAIN_PASSWORDS
                or value == user
                or (user.lower(), value.lower()) in _EXAMPLE_PAIRS
                or len(value) < 4
                or len(set(value)) == 1
                or re.fullmatch(r"\d{1,5}/.*", value)
            ):
                continue
            if re.search(r"[\^$*?](?:\)|\\|$)|\(\?|\.\*|\]\+|\\[wds]", value):
                continue  # a regular expression for URLs
            yield found.span("v")
    for found in _BARE_USER.finditer(text):
        value = found["v"]
        if is_random(value, 12) or (len(value) >= 20 and not re.search(r"[_-]", value)):
            yield found.span("v")


def find_command_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield passwords among the arguments of curl, wget, sshpass, mysql and PowerShell, in SQL's IDENTIFIED BY and in
    PostgreSQL's password file."""
    for pattern in (_BASIC, _LOGIN, _IDENTIFIED, _SECURE_STRING, _PASS_FILE):
        for found in pattern.finditer(text):
            group = "w" if pattern is _IDENTIFIED and found["v"] is None else "v"
            value = found[group].rstrip("\\")
            if group == "w" and not is_random(value, 6) and not any(char.isdigit() for char in value):
                continue
            if is_placeholder(value) or (
                pattern is _BASIC and (value.startswith(("/", "$")) or (value.isdigit() and len(value) < 6))
            ):
                continue
            yield found.start(group), found.start(group) + len(value)


# -- cookies ----------------------------------------------------------------------------------------------------------

_COOKIE_HEADER: Final = re.compile(
    r"\b(?:set-)?cookie[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?P<v>[^\n\"']{3,8192})", re.IGNORECASE
)
_COOKIE_PAIR: Final = re.compile(r"(?:^|[;,\s])(?P<n>[\w.%-]{1,80})=(?P<v>[^;,\s\"']{8,4096})")
_SESSION_PAIR: Final = re.compile(
    r"\b(?:PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|sessionid|laravel_session|_session_id"
    r"|AWSALB(?:CORS)?|li_at|sid)=(?P<v>[A-Za-z0-9%+/=._~:-]{12,1024})"
)
_COOKIE_ATTRIBUTES: Final = frozenset("path domain expires max-age samesite version".split())


def find_cookies(text: str) -> Iterator[tuple[int, int]]:
    """Yield values of cookies that look drawn by a machine (RFC 6265): sessions, not choices of theme or language."""
    for header in _COOKIE_HEADER.finditer(text):
        for pair in _COOKIE_PAIR.finditer(text, header.start("v"), header.end("v")):
            if (
                pair["n"].lower() not in _COOKIE_ATTRIBUTES
                and is_random(pair["v"], 12)
                and not is_placeholder(pair["v"])
            ):
                yield pair.span("v")
    for pair in _SESSION_PAIR.finditer(text):
        if is_random(pair["v"], 12):
            yield pair.span("v")


# -- Kubernetes -------------------------------------------------------------------------------------------------------

_KIND: Final = re.compile(r"^(?P<i>[ ]*(?:- )?)kind:[ ]*[\"']?[Ss]ecret[\"']?[ ]*(?:#[^\n]*)?$", re.MULTILINE)
_DOCUMENT: Final = re.compile(r"^---", re.MULTILINE)
_ENTRY: Final = re.compile(
    r"^(?P<i>[ ]*)(?P<k>[\"']?[\w.-]+[\"']?):[ ]*(?P<q>[\"']?)(?P<v>[^\n]*?)(?P=q)[ ]*(?:[ ]#[^\n]*)?$", re.MULTILINE
)


def find_kubernetes_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the values below `data` and `stringData` of manifests of kind Secret, base64 or plain."""
    for kind in _KIND.finditer(text):
        indent = len(kind["i"])
        start, end = _item_around(text, kind.start(), indent)
        for block in re.finditer(
            rf"^{'[ -]' * indent}(?P<n>data|stringData):[ ]*(?:#[^\n]*)?$", text[start:end], re.MULTILINE
        ):
            yield from _entries(text, start + block.end(), end, indent, plain=block["n"] == "stringData")


def _item_around(text: str, at: int, indent: int) -> tuple[int, int]:
    """The manifest around a position: between document marks, and for items of a List between their dashes."""
    start, end = 0, len(text)
    for mark in _DOCUMENT.finditer(text):
        if mark.start() <= at:
            start = mark.end()
        else:
            end = min(end, mark.start())
            break
    if indent >= 2:
        dash = " " * (indent - 2) + "- "
        item = text.rfind("\n" + dash, start, at + indent)
        start = item + 1 if item >= 0 else start
        following = text.find("\n" + dash, at + indent)
        end = following if 0 <= following < end else end
    return start, end


def _entries(text: str, at: int, end: int, indent: int, *, plain: bool) -> Iterator[tuple[int, int]]:
    skip_to = at
    for entry in _ENTRY.finditer(text, at, end):
        if entry.start() < skip_to:
            continue
        if len(entry["i"]) <= indent:
            break
        value, low = entry["v"], entry.start("v")
        if re.fullmatch(r"[|>][+-]?\d?", value):
            block = re.compile(rf"(?:\n(?:[ ]{{{len(entry['i']) + 1},}}[^\n]*|[ ]*(?=\n)))+").match(text, entry.end())
            if block:
                skip_to = block.end()
                stripped = block.group().lstrip()
                low = block.end() - len(stripped)
                if stripped.strip():
                    yield low, low + len(stripped.rstrip())
            continue
        least = 4 if plain else 9
        if len(value) >= least and not is_placeholder(value):
            yield low, low + len(value)


# -- errors -----------------------------------------------------------------------------------------------------------

_ECHO: Final = re.compile(
    r"\b\w{0,40}(?:Error|Exception|Failure|Panic|panic)\b[^\n'\"`]{0,120}(?P<q>['\"`])(?P<v>[^\s'\"`]{10,256})(?P=q)"
)
_NAMED: Final = re.compile(
    r"(?:^|[^a-z])(?:secret|passw(?:or)?d|passphrase|token|api[_-]?key|credential)", re.IGNORECASE
)


def find_echoed(text: str) -> Iterator[tuple[int, int]]:
    """Yield quoted words in error messages that call themselves a secret and hold digits: lookups echo what they
    missed."""
    for found in _ECHO.finditer(text):
        value = found["v"]
        if (
            sum(char.isdigit() for char in value) >= 3
            and _NAMED.search(value)
            and not is_placeholder(value)
            and not is_masked(value)
        ) or (
            is_random(value, 20)
            and is_secret(value, Strength.WEAK, quoted=True)
            and "/" not in value
            and _NAMED.search(text, max(0, found.start() - 40), found.start("v"))
        ):
            yield found.span("v")
