"""What is no secret stays, and redacting twice changes nothing."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.redact.planted import clean, drawn, redactor, tokens

UUID = str(uuid.UUID(int=0x550E8400E29B41D4A716446655440000))
TOKEN = tokens(31)[0].text

PLAIN: list[Any] = [
    f"trace_id={UUID} user {UUID.upper()}",
    {"runid": UUID, "id": UUID.replace("-", ""), "token_id": UUID},
    '"integrity": "sha512-' + drawn(2, 86) + '=="',
    "integrity sha256-" + drawn(3, 43) + "=",
    "max_tokens=4096 max_new_tokens: 512, top_k=40",
    {"max_tokens": 4096, "usage": {"input_tokens": 123, "output_tokens": 55, "total_tokens": 178}},
    "Authorization: Bearer ${MCP_KEY}",
    "${{ secrets.DEPLOY_TOKEN }}",
    "MY_API_KEY=os.getenv('OPENAI_API_KEY')",
    'password = os.environ["DB_PASSWORD"]',
    "const token = process.env.GITHUB_TOKEN;",
    "password: ${DB_PASSWORD}",
    "api_key = config.get('api_key')",
    "if token is None: raise ValueError('no token')",
    "def authenticate(user, password):\n    return check(password)",
    "The token limit was reached; the key insight is that passwords expire.",
    "sha256:" + drawn(4, 64, "0123456789abcdef"),
    "commit " + drawn(5, 40, "0123456789abcdef"),
    "call_" + drawn(6, 24),
    "toolu_01" + drawn(7, 22),
    "arn:aws:iam::123456789012:role/Admin",
    "https://example.com/a/b?page=2&sort=asc#top",
    "http://127.0.0.1:8080/health and 0.0.0.0:9092",
    "2024-01-15 10:11:12,123 INFO [main] started in 1234567 ns",
    "version 1.2.3-rc.4+build.20240115",
    "| 12 | 345 | 6789 |\n|---|---|---|",
    "a" * 2000,
    "0123456789" * 50,
    {"a": [], "b": {}, "c": "", "d": None, "e": -0.0, "f": 1e300, "g": 2**60},
    [],
    "",
    0,
    True,
    None,
]


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_G9_ids_hashes_counts_and_references_are_left_alone(value: Any) -> None:
    assert clean(value) == value
    assert redactor().redact(value).redactions == []


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_G9_an_event_with_nothing_in_it_comes_back_as_the_same_bytes(value: Any) -> None:
    raw = json.dumps({"data": {"content": value}}, indent=1).encode()
    out, found = redactor().redact_json(raw)
    assert out is raw
    assert found == []


MARKED = [
    "key=[REDACTED] pass=***REDACTED:db***",
    "token: <redacted>, password: [MASKED], secret: ********",
    "[redacted:github-token] and [redacted:email]",
    {"password": "[redacted:assigned-secret]", "note": "[email:abcdefghijklmnop]"},
]


@pytest.mark.parametrize("value", MARKED, ids=range(len(MARKED)))
def test_G10_markers_are_left_as_they_are(value: Any) -> None:
    assert clean(value) == value


@pytest.mark.parametrize("value", PLAIN + MARKED, ids=range(len(PLAIN + MARKED)))
def test_G10_redacting_twice_is_redacting_once(value: Any) -> None:
    mixed = {"a": value, "b": f"{TOKEN} {value}", "c": [f"mail jane@example.org {value}"]}
    once = clean(mixed)
    assert clean(once) == once
    raw = json.dumps(mixed).encode()
    event = redactor().redact_json(raw)[0]
    assert redactor().redact_json(event) == (event, [])


@pytest.mark.parametrize(
    "forged",
    [
        "***REDACTED:x {} y***",
        "[redacted:{}]",
        "[redacted:github-token {}]",
        "<redacted>{}</redacted>",
        "[redacted:github-token]{}",
        "{}[redacted:github-token]",
        "[email:{}]",
        "password=[redacted:{}]",
    ],
)
@pytest.mark.parametrize("planted", tokens(33), ids=lambda planted: planted.text[:4])
def test_G10_a_forged_marker_shields_nothing(forged: str, planted: Any) -> None:
    assert planted.text not in clean(forged.format(planted.text))


def test_a_marker_does_not_make_what_stands_beside_it_look_like_a_secret() -> None:
    text = "[redacted:github-token] = production, [redacted:kr-phone] 12345678"
    assert clean(text) == text


def test_the_argument_is_not_changed() -> None:
    value = {"a": [TOKEN, {"b": TOKEN}]}
    before = json.dumps(value)
    clean(value)
    assert json.dumps(value) == before


def test_what_was_done_is_told_by_path_rule_and_count_and_never_by_value() -> None:
    value = {"a/b": [f"{TOKEN} {TOKEN}", json.dumps({"c": TOKEN})], "d": {TOKEN: "jane@example.org"}}
    result = redactor().redact(value)
    told = {(entry.path, entry.rule, entry.count) for entry in result.redactions}
    assert told == {
        ("a/b[]", "github-token", 2),
        ("a/b[]#c", "github-token", 1),
        ("d", "github-token", 1),
        ("d.[redacted:github-token]", "email", 1),
    }
    assert result.revision == redactor().revision
    assert TOKEN not in repr(result)


@pytest.mark.parametrize(
    "text",
    [
        "allow from 203.0.113.0/24 and 10.0.0.0/8",
        "git clone https://user:pass@example.com/repo.git",
        "order 917-123-4567",
        "bedrock-api-key-" + "YmVkcm9jay5hbWF6b25hd3MuY29x",
        '<input type="hidden" name="authenticity_token" value="' + drawn(3, 60) + '">',
        "we met [at] the office [dot] that was it",
    ],
)
def test_networks_examples_and_tokens_of_forms_stay(text: str) -> None:
    assert clean(text) == text
