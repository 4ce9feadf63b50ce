"""Streams whose pieces are events of their own: no piece of a secret lands, wherever it was cut."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.fold.story import Log
from tests.redact.planted import Planted, card, pem, pem_body, redactor, rrn, tokens
from trajlake.transforms.landing.redaction import RecordRedaction
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.redact.denylist import DenyList
from trajlake.transforms.redact.rules import DEFAULT_RULES
from trajlake.transforms.redact.unfinished import start_of

SECRETS = [
    *tokens(71),
    Planted("card", " ".join(card(3)[at : at + 4] for at in range(0, 16, 4))),
    Planted("national", rrn(5)),
    Planted("mail", "jane.roe" + "@" + "example.org"),
    Planted("private key", pem(9)),
]


@pytest.fixture(scope="module")
def landing() -> RecordRedaction:
    return RecordRedaction(DenyList(()), redactor())


def event(kind: str, data: Any, sequence: int = 1) -> bytes:
    body = {"specversion": "1.0", "type": kind, "id": "e", "source": "s", "tenantid": "acme", "runid": "r"}
    return orjson.dumps({**body, "sequence": sequence, "data": data})


KINDS = [
    ("agent.model.delta", lambda piece: {"message_id": "m-1", "index": 3, "text": piece}),
    ("response.output_text.delta", lambda piece: {"item_id": "i-1", "delta": piece}),
    ("contentBlockDelta", lambda piece: {"delta": {"type": "text_delta", "text": piece}}),
    ("acme.stream", lambda piece: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}),
    ("acme.raw", lambda piece: {"event": {"type": "input_json_delta", "partial_json": piece}}),
    ("acme.completion", lambda piece: {"object": "chat.completion.chunk", "body": [piece]}),
    ("on_llm_new_token", lambda piece: {"token": piece}),
    ("agent.model.chunk", lambda piece: piece),
    ("agent.model.responded", lambda piece: {"message_id": "m-1", "partial": True, "delta": piece}),
    ("agent.tool.returned", lambda piece: {"tool_call_id": "c-1", "delta": {"stdout": piece}}),
]


@pytest.mark.parametrize(("kind", "data"), KINDS, ids=[kind for kind, _ in KINDS])
def test_G2_no_part_of_a_secret_is_in_any_delta_wherever_it_was_cut(
    landing: RecordRedaction, kind: str, data: Any
) -> None:
    for secret in SECRETS:
        text = f"here it is: {secret.text} and so on"
        # Of a key it is enough to cut at each fifth place: it is long, and one line of it is like the next.
        for cut in range(12, 12 + len(secret.text) + 1, 1 if len(secret.text) < 100 else 5):
            for piece in (text[:cut], text[cut:]):
                out, cuts = landing.apply(event(kind, data(piece)), "acme")
                assert "redacted:delta" in out.decode(), (kind, cut)
                assert {redaction.rule for redaction in cuts} == {"delta"} or len(cuts) > 1
                assert "here it is" not in out.decode()
                assert "and so on" not in out.decode()


def test_G2_every_rule_has_an_example_that_no_delta_shows(landing: RecordRedaction) -> None:
    for rule in DEFAULT_RULES:
        example = rule.examples[0]
        for cut in {1, len(example) // 2, len(example) - 1}:
            for piece in (example[:cut], example[cut:]):
                out, _ = landing.apply(event("agent.model.delta", {"message_id": "m", "text": piece}), "acme")
                assert orjson.loads(out)["data"] == {"message_id": "m", "text": "[redacted:delta]"}, rule.id


def test_G2_what_lands_of_a_stream_is_its_last_event(landing: RecordRedaction) -> None:
    secret = tokens(75)[2].text
    whole = f"Here is the key: {secret} done"
    log = Log()
    run = log.run()
    run.starts()
    for start in range(0, len(whole), 5):
        run.act("agent.model.delta", {"message_id": "m1", "text": whole[start : start + 5]})
    run.responds(whole, message_id="m1", step_id="s1")
    run.ends()
    landed = log.land(LandRules(redactor=redactor()))
    assert [landed.holds(secret[at : at + 5]) for at in range(len(secret) - 5)] == [[]] * (len(secret) - 5)
    (step,) = landed.steps()
    assert step["message"].startswith("Here is the key: [redacted:")
    assert step["message"].endswith("] done")
    rows = [row for row in landed.rows("events") if row["type"] == "agent.model.delta"]
    assert len(rows) == len(range(0, len(whole), 5))
    assert all(cut["rule"] == "delta" for row in rows for cut in row["redactions"])
    assert landed.rows("quarantine") == []


@pytest.mark.parametrize("secret", SECRETS[:-1], ids=lambda secret: secret.kind)
def test_G2_partial_events_that_hold_pieces_instead_of_copies_show_neither_half(
    landing: RecordRedaction, secret: Planted
) -> None:
    text = f"{secret.text} and so on"
    for cut in range(4, len(secret.text) - 3):
        out, _ = landing.apply(event("agent.model.responded", {"partial": True, "message": text[cut:]}), "acme")
        left = orjson.loads(out)["data"]["message"]
        assert "so on" in left
        # What is left may be a few letters that make a word.
        assert not any(text[at : at + 8] in left for at in range(cut, len(secret.text) - 7)), (cut, left)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("agent.tool.returned", {"tool_call_id": "c", "content": {"delta": {"from": "red", "to": "blue"}}}),
        ("agent.tool.called", {"function_name": "set", "arguments": '{"delta": "0.5"}'}),
        ("acme.orders.changed", {"order": "o-1", "change": "two more chunks of bread"}),
        ("acme.auth.token.renewed", {"client": "web", "note": "all went well"}),
        ("agent.model.delta", {"message_id": "m", "index": 4, "text": ""}),
    ],
)
def test_what_is_no_piece_of_a_stream_stays(landing: RecordRedaction, kind: str, data: Any) -> None:
    raw = event(kind, data)
    out, cuts = landing.apply(raw, "acme")
    assert (out, cuts) == (raw, [])


@pytest.mark.parametrize(
    ("text", "start"), [("I look it up", 0), ("done.", 0), ("", 0), ('{"a":1}', 0), ("4f9aQ2 then", 6)]
)
def test_a_copy_keeps_its_first_word_where_that_is_one(text: str, start: int) -> None:
    assert start_of(text) == start


def test_key_material_needs_no_head_to_be_withheld(landing: RecordRedaction) -> None:
    out, _ = landing.apply(event("agent.model.delta", {"text": "\n".join(pem_body(3)[1:])}), "acme")
    assert pem_body(3)[2][:20] not in out.decode()
