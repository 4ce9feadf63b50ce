"""Events made by chance, with secrets anywhere: what lands of them is JSON, holds none, and is settled."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from tests.redact.planted import card, landed, pem, redactor, rrn, tokens

SECRETS = [planted.text for seed in (5, 6) for planted in tokens(seed)]
PEOPLE = ["jane.roe@example.org", "010-2345-6789", rrn(3), card(2)]
NAMES = [
    "password",
    "api_key",
    "token",
    "pin",
    "card_number",
    "주민번호",
    "ssn",
    "phone",
    "name",
    "value",
    "delta",
    "chunks",
]
TEXTS = ["hello", "한글 \\u0041 %41 &amp;", "{not json", "[1,2", "{}", "[]", '"', "\\", "x" * 40]
AROUND = ["use %s now", "%s", "a\n%s\tb", '"%s"', "it's \\ %s é 김"]


class Maker:
    """Makes a value and keeps what it planted."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.planted: list[str] = []

    def secret(self) -> str:
        self.planted.append(self.chance.choice(SECRETS))
        return self.planted[-1]

    def key(self) -> str:
        kind = self.chance.random()
        if kind < 0.1:
            return self.secret()
        return (
            self.chance.choice(NAMES) if kind < 0.3 else f"{self.chance.choice('abcdefgh')}{self.chance.randint(0, 99)}"
        )

    def value(self, depth: int) -> Any:
        chance, kind = self.chance, self.chance.random()
        if depth <= 0 or kind < 0.35:
            return self.leaf()
        if kind < 0.42:
            return self.pieces()
        if kind < 0.48:
            number = int(rrn(chance.randint(1, 9)).replace("-", ""))
            return f'{{"a":"{self.secret()}","a":1,"rrn":{number},"pin":{chance.randint(1000, 9999)}}}'
        if kind < 0.65:
            return [self.value(depth - 1) for _ in range(chance.randint(0, 4))]
        if kind < 0.85:
            return {self.key(): self.value(depth - 1) for _ in range(chance.randint(0, 4))}
        inner = self.value(depth - 1)
        return json.dumps(inner, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, None, 1]))

    def pieces(self) -> Any:
        text = self.secret()
        cut = self.chance.randint(3, len(text) - 3)
        parts = [text[:cut], text[cut:]]
        return self.chance.choice([parts, [{"delta": part} for part in parts], json.dumps(parts)])

    def leaf(self) -> Any:
        chance, kind = self.chance, self.chance.random()
        if kind < 0.3:
            return chance.choice(AROUND) % self.secret()
        if kind < 0.4:
            self.planted.append(chance.choice(PEOPLE))
            return f"연락처 {self.planted[-1]} card 카드 주민번호"
        if kind < 0.5:
            return chance.choice(
                [int(rrn(chance.randint(1, 9)).replace("-", "")), 1.5, None, True, 1e300, 2**60, 123456]
            )
        if kind < 0.6:
            return base64.b64encode(f"k {self.secret()}".encode()).decode()
        return pem(chance.randint(1, 99)) if kind < 0.65 else chance.choice(TEXTS)


def assert_json_stays_json(before: Any, after: Any) -> None:
    """Whatever was JSON in a string is JSON, or gone."""
    if isinstance(before, str) and isinstance(after, str):
        try:
            inside = json.loads(before)
        except ValueError:
            return
        if isinstance(inside, (dict, list)) and not (after.startswith("[redacted:") and after.endswith("]")):
            assert_json_stays_json(inside, json.loads(after))
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() & after.keys():
            assert_json_stays_json(before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            assert_json_stays_json(one, other)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_lands_is_json_without_what_was_planted_and_is_settled(seed: int) -> None:
    maker = Maker(seed)
    value = maker.value(5)
    out = landed(value, ascii_only=seed % 2 == 0)
    written = json.dumps(out, ensure_ascii=False)
    for planted in maker.planted:
        assert planted not in written
        assert planted not in written.replace("\\", "")
    assert_json_stays_json(value, out)
    assert landed(out) == out
    event = {"type": "agent.model.responded", "data": {"message": value}}
    assert redactor().redact(event).value["data"]["message"] == out, "the fast pass sees what the walk sees"
