"""Whether the value of a field with a telling name is a secret, or a placeholder, a reference, a piece of code."""

from __future__ import annotations

import base64
import re
from typing import Final

from trajlake.transforms.redact.names import Strength
from trajlake.transforms.redact.randomness import entropy, is_masked, is_random, is_sequence, is_wordlike, is_wordy

_TEMPLATE: Final = re.compile(
    r"\$\{[^}]*\}?|\$\(.*|\$[A-Za-z_][\w.]*\)?|\{\{.*|\{[A-Za-z_][\w.:!-]*\}|<[^<>]*>?|%[A-Za-z_]\w*%"
    r"|%\([^)]*\)[sdr]?|%[sdvr]|#\{.*|@[\w.-]+@"
    r"|\[[A-Za-z_ .-]+\]|!(?:Ref|Sub|ENV|env|vault|GetAtt)\b.*|ENC[\[(].*|(?:vault|op|ssm|secretsmanager|awssm"
    r"|keyvault|sops|ref)(?::|\+)[\w:/].*"
    r"|arn:aws:.*|projects/[\w-]+/secrets/.*|\*\w*|__\w+__|encrypted:.*|@Microsoft\.KeyVault.*|\$ANSIBLE_VAULT.*",
    re.DOTALL,
)
_EMBEDDED: Final = re.compile(
    r"\$\{\{?[^}]{0,80}\}|\{\{[^}]{0,80}\}\}|\$\([^)]{1,80}\)|<[a-zA-Z][\w .-]{1,40}>|%\([\w.]{1,40}\)s"
    r"|\{[A-Za-z_][\w.]{0,40}\}"
)
_CODE: Final = re.compile(
    r"(?:os\.|process\.|System\.|self\.|this\.|config\.|settings\.|env\.|args\.|opts?\.|options\.|request\."
    r"|req\.|params\.|ctx\.|context\."
    r"|Deno\.|import\.|secrets\.|vars\.|var\.|data\.|local\.|module\.|app\.|cfg\.|conf\.|props\.|state\."
    r"|session\.|user\.|credentials\.)\w.*"
    r"|(?:await|new|lambda|function|return|not|if|typeof|async)\b.*"
    r"|[A-Za-z_][\w.]*(?:\(|\[).*|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+(?:\(.*)?",
    re.DOTALL,
)
_WORDS: Final = frozenset(
    """your my our the a an insert enter replace change changeme changeit change_me me example examples sample dummy
    fake mock test testing tests tester placeholder redacted hidden secret secrets password passwd pwd pass passphrase
    passcode token tokens key keys api apikey access private auth todo none null nil undefined true false string str
    bytes value values val xxx foo bar baz abc default empty required optional unknown na here with this that some any
    and or to for from of in is not it username user name login credential credentials client server id admin_password
    goes set put provide use on be text varchar int integer number bool boolean object array any list dict map masked
    removed filtered unset missing yes no invalid valid expired new old basic bearer authorization real actual service
    account app application mypassword yourpassword yourtoken mytoken mysecret yoursecret secretkey""".split()
)
_SPLIT: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NUMBER: Final = re.compile(r"[-+]?[\d.,_]+(?:e[+-]?\d+)?%?|0x0*", re.IGNORECASE)
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX: Final = re.compile(r"[0-9a-f]{16,128}", re.IGNORECASE)
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S*", re.IGNORECASE)
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/[\w@.~/-]*|[A-Za-z]:\\.*|[\w-]+(?:/[\w.-]+)+/?")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_JUDGED: Final = 1024
"""Characters of a value that are judged; what is longer is judged by its beginning."""
_SYMBOLS: Final = frozenset("!@#$%^&*~+=?/\\|")


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret that is elsewhere: masks, templates, references, words that say so."""
    value = value[:_JUDGED].strip()
    if not value or is_masked(value) or _TEMPLATE.fullmatch(value):
        return True
    without = _EMBEDDED.sub("", value)
    if without != value and not is_random(without):
        return True
    if set(value) <= set("xX*#.•●_-?0"):
        return len(value) >= 3
    if (
        len(value) >= 6
        and max(map(value.count, set(value))) * 4 >= len(value) * 3
        and (len(value) >= 16 or len(set(value)) == 1)
    ):
        return True  # one character over and over
    if len(value) >= 24 and len(value) % 4 == 0 and _ENCODED.fullmatch(value) and (plain := _decoded(value)):
        return _TEMPLATE.fullmatch(plain.strip()) is not None
    parts = [part.lower() for part in _SPLIT.findall(value)]
    return bool(parts) and all(part in _WORDS for part in parts if not part.isdigit()) and _short_digits(parts)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("ascii")
    except ValueError:
        return ""


def _short_digits(parts: list[str]) -> bool:
    digits = "".join(part for part in parts if part.isdigit())
    return len(digits) <= 1 < len("".join(parts))


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression of a program: a call, an attribute, an index."""
    return _CODE.fullmatch(value) is not None and not (is_random(value.replace(".", ""), 16) and "(" not in value)


def is_secret(value: str, strength: Strength, *, quoted: bool, tight: bool = False, line: bool = False) -> bool:
    """Whether a value under a name of this strength is a secret.

    `quoted`: it stands in quotes, or is a string of a JSON value, so that it is no code. `tight`: it follows `=`
    without a space, as in environment files and queries, so that it is no prose. `line`: name and value are a whole
    line.
    """
    value = value[:_JUDGED].strip()
    if is_placeholder(value) or (value[:1] + value[-1:] in ("{}", "[]") and any(mark in value for mark in "\"':, ")):
        return False  # an object or list: its parts are judged one by one
    if strength is Strength.CODE:
        return value.isdigit() and 3 <= len(value) <= 8
    if not quoted and is_code(value):
        return False
    if _URL.fullmatch(value) or _DATED.fullmatch(value):
        return False
    if strength is Strength.PASSWORD:
        return _is_password(value, quoted, tight)
    if " " in value and not quoted:
        return False
    if strength is Strength.SECRET:
        return _is_chosen_or_drawn(value, quoted, tight) or (line and tight and len(value) >= 3 and value.isalnum())
    if _NUMBER.fullmatch(value) and len(value) < 20:
        return False
    if strength is Strength.TOKEN:
        return _is_token(value) and not (is_sequence(value) and len(value) < 32)
    return (
        len(value) >= 16
        and " " not in value
        and not _UUID.fullmatch(value)
        and not _HEX.fullmatch(value)
        and not _is_path(value)
        and is_random(value, 16)
        and entropy(value) >= 3.3
    )


def _is_password(value: str, quoted: bool, tight: bool) -> bool:
    if quoted:
        return value.count(" ") <= 6 or is_random(value.replace(" ", ""))
    if " " in value or len(value) < 4:
        return False
    if value.isalpha() and value.isascii():
        # A bare word: prose ("password: required") and code (`password=password`) look like this.
        return tight and not value.istitle() and not value.isupper()
    if _NUMBER.fullmatch(value):
        return tight or len(value) >= 6
    return not re.fullmatch(r"[A-Za-z]+(?:[_-][A-Za-z]+)+", value) or (tight and not is_wordy(value))


def _is_chosen_or_drawn(value: str, quoted: bool, tight: bool) -> bool:
    if len(value) < 4 or value.count(" ") > 3 or _is_path(value):
        return False
    if value.isalpha() and value.isascii() and (value.islower() or value.istitle() or value.isupper()):
        return len(value) >= 16 and not is_wordy(value)
    if _NUMBER.fullmatch(value):
        return len(value) >= 8 and (quoted or tight)
    if any(char in _SYMBOLS for char in value) and len(value) >= 6 and (quoted or tight):
        return True
    has_digit = any(char.isdigit() for char in value)
    if has_digit and len(value) >= 6 and not is_wordy(value):
        return True
    if has_digit and quoted and len(value) >= 12 and sum(char.isdigit() for char in value) >= 3:
        return True
    return is_random(value, 7) or (len(value) >= 24 and " " not in value and not is_wordy(value))


def _is_token(value: str) -> bool:
    if len(value) < 9 or " " in value or _is_path(value):
        return False
    if _HEX.fullmatch(value) or _UUID.fullmatch(value):
        return True
    return is_random(value) or (
        len(value) >= 16 and entropy(value) >= 3.0 and not is_wordy(value) and any(c.isdigit() for c in value)
    )


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None and all(
        is_wordy(part) or len(part) < 5 or is_wordlike(part) for part in re.split(r"[/\\]", value) if part
    )
