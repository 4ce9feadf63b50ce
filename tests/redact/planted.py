"""Secrets and people for tests: made when a test runs, so that no file of the project holds anything like them."""

from __future__ import annotations

import json
import random
import string
from functools import lru_cache
from typing import Any, NamedTuple

from trajlake.transforms.redact.redactor import Redactor

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


class Planted(NamedTuple):
    """Something that must not survive, and the core of it that no output may hold."""

    kind: str
    text: str


def drawn(seed: int, size: int, alphabet: str = ALNUM) -> str:
    """Characters as an issuer draws them, with a digit and both cases early on where the alphabet has them."""
    chance = random.Random(seed)
    while True:
        text = "".join(chance.choices(alphabet, k=size))
        head = text[:12]
        if any(char.isdigit() for char in head) and (
            alphabet != ALNUM or (head.lower() != head and head.upper() != head)
        ):
            return text


def tokens(seed: int) -> list[Planted]:
    """One token a kind of issuer: code hosting, cloud, chat, payment, model providers."""
    return [
        Planted("code host", "gh" + "p_" + drawn(seed, 36)),
        Planted("code host", "glp" + "at-" + drawn(seed + 1, 20)),
        Planted("cloud", "AK" + "IA" + drawn(seed + 2, 16, string.ascii_uppercase + "234567")),
        Planted("cloud", "AI" + "za" + drawn(seed + 3, 35)),
        Planted("chat", "xo" + "xb-" + drawn(seed + 4, 12, string.digits) + "-" + drawn(seed + 5, 24)),
        Planted("payment", "sk_" + "live_" + drawn(seed + 6, 24)),
        Planted("model", "sk-" + "ant-api03-" + drawn(seed + 7, 93) + "AA"),
        Planted("model", "sk-" + "proj-" + drawn(seed + 8, 48)),
    ]


def rrn(seed: int, first: str = "1") -> str:
    """A Korean resident registration number of a day that was; `first` is the digit for sex and century."""
    chance = random.Random(seed)
    date = f"{chance.randint(50, 99)}{chance.randint(1, 12):02d}{chance.randint(1, 28):02d}"
    return f"{date}-{first}{chance.randint(100000, 999999)}"


def card(seed: int) -> str:
    """A card number of a known network that passes Luhn."""
    chance = random.Random(seed)
    digits = "4" + "".join(chance.choices(string.digits, k=14))
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 - place % 2)
        total += value - 9 if value > 9 else value
    return digits + str(-total % 10)


def pem_body(seed: int, lines: int = 4) -> list[str]:
    """Lines of key material."""
    return ["MII" + drawn(seed, 61), *(drawn(seed + line, 64) for line in range(1, lines))]


def pem(seed: int, newline: str = "\n", kind: str = "RSA ") -> str:
    """A private key that opens nothing."""
    dashes = "-" * 5
    lines = [f"{dashes}BEGIN {kind}PRIVATE KEY{dashes}", *pem_body(seed), f"{dashes}END {kind}PRIVATE KEY{dashes}"]
    return newline.join(lines)


@lru_cache(maxsize=1)
def redactor() -> Redactor:
    """The built-in rules with markers: compiled once for all tests."""
    return Redactor()


def clean(value: Any) -> Any:
    """A value redacted with the built-in rules and markers."""
    return redactor().redact(value).value


def landed(value: Any, *, ascii_only: bool = False) -> Any:
    """A value redacted as the message of an event that lands: in its raw JSON, after the fast pass called."""
    event = {"type": "agent.model.responded", "data": {"message": value}}
    raw = json.dumps(event, ensure_ascii=ascii_only, separators=(",", ":")).encode()
    if not redactor().scan([raw]):
        return value
    return json.loads(redactor().redact_json(raw, "acme")[0])["data"]["message"]


def written(value: Any) -> str:
    """A value as JSON text, everything as itself."""
    return json.dumps(value, ensure_ascii=False)


def rules_of(value: Any) -> set[str]:
    """The rules that find something in a value."""
    return {entry.rule for entry in redactor().redact(value).redactions}
