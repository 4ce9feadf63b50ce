"""Field-level deny list: values of named fields are removed from an event before anything is stored.

A name matches a key anywhere in the event, in any case, `-` and `_` alike (`Set-Cookie`, `set_cookie`). A name with
dots matches its last key where it stands directly under the others (`user.email`), and a key that itself is written
with dots. The value becomes `[removed:<name>]`; the key stays, so that a reader sees that something was there.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import hyperscan
import orjson

from trajlake.expectations.events import PAYLOAD_MARKER
from trajlake.transforms.records import Redaction
from trajlake.transforms.redact import deltas
from trajlake.transforms.redact.fieldnames import keys_of, normal, spellings

DEFAULT_FIELDS = (
    "authorization",
    "proxy_authorization",
    "cookie",
    "set_cookie",
    "password",
    "passwd",
    "secret",
    "client_secret",
    "api_key",
    "apikey",
    "x_api_key",
    "access_token",
    "refresh_token",
    "id_token",
    "private_key",
    "session_token",
)


_ESCAPED = re.compile(r"\\u00([2-7][0-9a-fA-F])")
_KEY_END = r"""[\\"']*\s*[:=]\s*"""
_STRING = re.compile(r"""(\\*)(["'])""")
_BARE_JSON = re.compile(r"(?:null|true|false|NaN|-?Infinity|-?[0-9][0-9.eE+-]*)(?=\s*[,}\]]|\s*\Z)")
_LINE = re.compile(r"[^\r\n]*")
_BRACKET = re.compile(r"""["\[\]{}]""")


_Trail: TypeAlias = "tuple[()] | tuple[str, _Trail]"
"""Keys that lead to a value, innermost first."""


class DenyList:
    """A compiled deny list.

    `fields`: names to deny; blank ones are passed over. `revision`: content hash of the list; it lands on every row
    that it judged. Raises ValueError for a name that makes no sense.
    """

    def __init__(self, fields: Iterable[str] = DEFAULT_FIELDS) -> None:
        self.fields = frozenset(normal(name.strip()) for name in fields if name.strip())
        self.revision = hashlib.sha256("\n".join(sorted(self.fields)).encode()).hexdigest()[:12]
        paths = sorted((keys_of(name) for name in self.fields), key=len, reverse=True)
        lasts = {keys[-1] for keys in paths}
        self._paths: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for *outer, last in paths:
            if outer:
                rule = ".".join((*outer, last))
                self._paths.setdefault(last, []).append((tuple(reversed(outer)), rule))
        self._spellings = sorted(spelling for last in lasts for spelling in spellings(last))
        self._scanner = _scanner(self._spellings, sorted(name for name in self.fields if "." in name))
        joined = "|".join(re.escape(last).replace("_", "[-_]") for last in sorted(lasts, key=len, reverse=True))
        self._in_text = re.compile(rf"(?<!\w)(?:{joined}){_KEY_END}", re.I) if joined else None

    def hits(self, texts: Sequence[bytes]) -> frozenset[int]:
        """Places of the texts that name a denied key, perhaps, that may pose as stored content, or that still stream.

        A quick look over all at once, wrong only by excess.
        Keys written with `\\u` escapes cannot be seen here, so any text with such an escape of a printable character
        counts.
        """
        if not texts:
            return frozenset()
        ends: list[int] = []
        self._scanner.scan(b"\n".join(texts), match_event_handler=lambda _id, _from, to, _flags, _: ends.append(to))
        if not ends:
            return frozenset()
        starts = [0, *accumulate(len(text) + 1 for text in texts)]
        return frozenset(bisect_left(starts, end) - 1 for end in ends)

    def apply(self, text: bytes) -> tuple[bytes, list[Redaction]]:
        """Remove denied values from one JSON text. Returns it unchanged when there are none."""
        body = orjson.loads(text)
        found: dict[tuple[str, str], int] = {}
        self._walk(body, found)
        if not found:
            return text, []
        return orjson.dumps(body), [Redaction(path, rule, count) for (path, rule), count in sorted(found.items())]

    def mask(self, text: str) -> str:
        """Remove denied values from text that is not JSON, as well as its form allows: rather too much than too little.

        Where a key stands cannot be told here: the last key of a name with dots is denied everywhere.
        A value goes to its closing quote or bracket; a bare one to the end of its line, or of the text.
        """
        if self._in_text is None:
            return text
        if "\\u00" in text:
            text = _ESCAPED.sub(lambda found: _plain(found[0], found[1]), text)
        lower = text.lower()
        if not any(spelling in lower for spelling in self._spellings):
            return text
        parts: list[str] = []
        at = 0
        while (key := self._in_text.search(text, at)) is not None:
            parts += (text[at : key.end()], "[removed]")
            at = _value_end(text, key.end())
        return "".join((*parts, text[at:]))

    def _walk(self, body: Any, found: dict[tuple[str, str], int]) -> None:
        todo: list[tuple[Any, str, _Trail]] = [(body, "", ())]
        while todo:
            node, place, trail = todo.pop()
            if isinstance(node, dict):
                for key, value in node.items():
                    name = normal(key)
                    rule = name if name in self.fields else self._rule(name, trail) if name in self._paths else None
                    if rule is not None:
                        marker = f"[removed:{rule}]"
                        if value is not None and value != marker:
                            node[key] = marker
                            where = (f"{place}.{name}" if place else name, f"deny.{rule}")
                            found[where] = found.get(where, 0) + 1
                    elif isinstance(value, (dict, list)):
                        todo.append((value, f"{place}.{key}"[:256] if place else key[:256], (name, trail)))
            elif isinstance(node, list):
                todo.extend((value, f"{place}[]", trail) for value in node if isinstance(value, (dict, list)))

    def _rule(self, name: str, trail: _Trail) -> str | None:
        """The longest name with dots that ends in this key and whose other keys lead to it."""
        for outer, rule in self._paths[name]:
            above = trail
            for key in outer:
                if not above or above[0] != key:
                    break
                above = above[1]
            else:
                return rule
        return None


def _scanner(keys: list[str], dotted: list[str]) -> hyperscan.Database:
    """One compiled pattern set: denied keys in quotes, in any case, references to content, and escapes that could
    hide them. `keys`: in every spelling; `dotted`: whole names that have dots, for keys that are written so."""
    plain = all(key.isascii() and "/" not in key for key in (*keys, *dotted))
    patterns = [re.escape(orjson.dumps(key)) for key in keys]
    patterns += [re.escape(orjson.dumps(name)).replace(b"_", b"[-_]") for name in dotted]
    patterns += [re.escape(PAYLOAD_MARKER.encode()), re.escape(b'"partial":true'), rb"\\u00[2-7]" if plain else rb"\\"]
    patterns += deltas.SIGNS
    scanner = hyperscan.Database()
    scanner.compile(
        expressions=patterns,
        ids=list(range(len(patterns))),
        elements=len(patterns),
        flags=[hyperscan.HS_FLAG_CASELESS] * len(patterns),
    )
    return scanner


def _plain(escape: str, digits: str) -> str:
    """The character of an escape, unless it would end a string or escape something itself."""
    character = chr(int(digits, 16))
    return escape if character in "\"\\'" or character == "\x7f" else character


def _value_end(text: str, at: int) -> int:
    """Where the value that begins at `at` ends, in text that may be broken anywhere."""
    quoted = _STRING.match(text, at)
    if quoted is not None:
        return _string_end(text, quoted.end(), quoted[1], quoted[2])
    if text[at : at + 1] in ("{", "["):
        return _bracket_end(text, at)
    bare = _BARE_JSON.match(text, at) or _LINE.match(text, at)
    return bare.end() if bare is not None else at


def _string_end(text: str, at: int, escapes: str, quote: str) -> int:
    """Behind the closing quote. `escapes`: backslashes before the opening one, as in JSON within a JSON string."""
    while (end := text.find(quote, at)) >= 0:
        backslashes = end - len(text[at:end].rstrip("\\")) - at
        if backslashes == len(escapes) if escapes else backslashes % 2 == 0:
            return end + 1
        at = end + 1
    return len(text)


def _bracket_end(text: str, at: int) -> int:
    depth = 0
    while (found := _BRACKET.search(text, at)) is not None:
        at = found.end()
        if found[0] == '"':
            at = _string_end(text, at, "", '"')
            continue
        depth += 1 if found[0] in "[{" else -1
        if depth == 0:
            return at
    return len(text)
