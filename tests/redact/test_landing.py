"""Redaction on the land path: nothing that a rule knows reaches any table, payload or refusal."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tests.fold.story import Landed, Log
from tests.redact.planted import drawn, pem, pem_body, redactor, rrn, tokens
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.redact.model import Limits
from trajlake.transforms.redact.redactor import Redactor
from trajlake.transforms.redact.rules import DEFAULT_RULES

TOKEN = tokens(61)[0].text
CORE = TOKEN[8:30]
MAIL = "jane.roe@" + "example.org"


@pytest.fixture(scope="module")
def rules() -> LandRules:
    return LandRules(redactor=redactor())


def told(landed: Landed, table: str = "events") -> set[tuple[str, str, int]]:
    return {(cut["path"], cut["rule"], cut["count"]) for row in landed.rows(table) for cut in row["redactions"] or ()}


def a_run(content: Any = "seen", **data: Any) -> Log:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("looking", calls=["c1"])
    run.returns("c1", content, **data)
    run.ends()
    log.tick()
    return log


def test_the_rows_say_what_was_removed_and_where_and_never_the_value(rules: LandRules) -> None:
    landed = a_run(f"use {TOKEN} or mail {MAIL}, {MAIL}").land(rules)
    assert landed.holds(CORE) == []
    assert landed.holds(MAIL) == []
    assert told(landed) == {("data.content", "github-token", 1), ("data.content", "email", 2)}
    [step] = landed.steps()
    assert "[redacted:github-token]" in json.dumps(step["observations"])
    assert {(cut["rule"], cut["count"]) for cut in step["redactions"]} == {("github-token", 1), ("email", 2)}
    assert {(cut["rule"], cut["count"]) for cut in landed.last_run()["redactions"]} == {
        ("github-token", 1),
        ("email", 2),
    }
    assert landed.rows("quarantine") == []


@pytest.mark.parametrize(
    "content",
    [
        {"a": [{"b": f"x {TOKEN}"}]},
        {TOKEN: {"hits": 3}},
        json.dumps({"body": json.dumps({"client_secret": TOKEN})}),
        [TOKEN[:11], TOKEN[11:]],
        {"password": TOKEN},
        {"key": "DB_PASSWORD", "value": TOKEN},
        f"https://jane:{TOKEN}@example.org/",
        "\u200b".join((TOKEN[:12], TOKEN[12:])),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("pretty", [False, True])
def test_it_is_found_in_any_shape_and_any_spacing(rules: LandRules, content: Any, pretty: bool) -> None:
    landed = a_run(content, pretty=pretty).land(rules)
    assert landed.holds(CORE) == []
    assert landed.rows("quarantine") == []
    assert len(landed.rows("events")) == 5


def test_a_private_key_and_a_national_number_are_gone_from_every_table(rules: LandRules) -> None:
    number = rrn(3)
    landed = a_run({"out": pem(4), "note": f"주민번호 {number}"}).land(rules)
    assert [table for line in (*pem_body(4), number) for table in landed.holds(line)] == []


def test_batches_do_not_matter(rules: LandRules) -> None:
    log = a_run(f"use {TOKEN} or mail {MAIL}")
    assert log.land(rules).differs(log.land(rules, cuts=range(9))) is None


def test_large_content_is_redacted_before_it_is_stored_by_reference(rules: LandRules) -> None:
    landed = a_run("plain words " * 30_000 + f" {TOKEN} " + "and more " * 100).land(rules)
    assert landed.holds(CORE) == []
    [payload] = landed.payloads
    assert b"[redacted:github-token]" in payload.content
    assert payload.sha256 in json.dumps(landed.steps()[0]["observations"])
    assert ("data.content", "github-token", 1) in told(landed)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"data":{"note":"' + TOKEN.encode() + b'"',
        b'{"a":"' + TOKEN.encode() + b'","a":"' + TOKEN.encode() + b'x"}',
        b'["' + TOKEN.encode() + b'"]',
        b"\xff\xfe " + TOKEN.encode(),
        json.dumps({"specversion": "1.0", "type": TOKEN, "id": TOKEN, "tenantid": MAIL, "runid": MAIL}).encode(),
    ],
    ids=range(5),
)
def test_what_is_refused_is_redacted_too(rules: LandRules, raw: bytes) -> None:
    log = Log()
    log.append(raw, b"acme/r1")
    landed = log.land(rules)
    assert len(landed.rows("quarantine")) == 1
    assert landed.holds(CORE) == []
    assert landed.holds(MAIL) == []


def test_large_refused_content_is_redacted(rules: LandRules) -> None:
    log = Log()
    log.append(b'{"broken":"' + b"words and " * 60_000 + TOKEN.encode(), b"acme/r1")
    landed = log.land(rules)
    assert landed.holds(CORE) == []
    assert landed.one("quarantine")["payload_ref"]


def test_attributes_in_kafka_headers_are_redacted(rules: LandRules) -> None:
    log = Log()
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"), ("ce_id", b"e1"), ("ce_source", f"urn:{MAIL}".encode()),
        ("ce_type", b"agent.run.started"), ("ce_tenantid", b"acme"), ("ce_runid", b"r1"),
        ("ce_sequence", b"1"), ("ce_note", TOKEN.encode()),
    ]  # fmt: skip
    log.append(b'{"input":"do it"}', b"acme/r1", headers)
    landed = log.land(rules)
    assert landed.one("events")["run_id"] == "r1"
    assert landed.holds(CORE) == []
    assert landed.holds(MAIL) == []
    assert {path for path, _, _ in told(landed)} == {"note", "source"}


def test_ids_of_digits_are_no_numbers_of_people(rules: LandRules) -> None:
    log = Log()
    run = log.run("010-1234-5678")
    run.starts(session_id="4111111111111111", task_id="900101-1234567")
    run.responds("looking", calls=["010-9876-5432"], id="010-1234-5678")
    run.returns("010-9876-5432", "seen", id="4012888888881881")
    run.ends()
    landed = log.land(rules)
    assert len(landed.rows("events")) == 4
    assert told(landed) == set()
    assert landed.last_run("010-1234-5678")["session_id"] == "4111111111111111"


def test_a_run_that_is_named_by_a_secret_is_refused_and_not_named(rules: LandRules) -> None:
    log = Log()
    log.run(f"run-{TOKEN}").starts()
    log.run("r2", tenant=MAIL).starts()
    landed = log.land(rules)
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["key_mismatch", "key_mismatch"]
    assert landed.holds(CORE) == []
    assert landed.holds(MAIL) == []


def test_G12_what_cannot_be_proved_clean_is_refused_without_its_payload() -> None:
    few = [rule for rule in DEFAULT_RULES if rule.id == "github-token"]
    strict = LandRules(redactor=Redactor(few, limits=Limits(max_depth=6)))
    deep: Any = TOKEN
    for _ in range(8):
        deep = {"n": [deep, "x"]}
    landed = a_run(deep).land(strict)
    row = landed.one("quarantine")
    assert (row["reason_code"], row["stage"], row["payload"], row["payload_ref"]) == (
        "redaction_failed",
        "redact",
        None,
        None,
    )
    assert landed.holds(CORE) == []
    assert len(landed.rows("events")) == 4


def test_G12_a_detector_that_raises_stops_the_record_and_nothing_else(
    rules: LandRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError(TOKEN)

    assert rules.redactor is not None
    monkeypatch.setattr(rules.redactor._detector, "find", broken)
    landed = a_run(f"use {TOKEN}").land(rules)
    assert landed.one("quarantine")["reason_code"] == "redaction_failed"
    assert landed.holds(CORE) == []
    assert len(landed.rows("events")) == 4


# Streamed copies


def streamed(*texts: Any) -> Log:
    log = Log()
    run = log.run()
    run.starts()
    for number, text in enumerate(texts, start=1):
        run.responds(text, message_id="m1", step_id="s1", partial=number < len(texts))
    run.ends()
    return log


@pytest.mark.parametrize("size", [5, 9, 17])
def test_G2_no_copy_of_a_message_that_streams_holds_the_beginning_of_a_secret(rules: LandRules, size: int) -> None:
    whole = f"Here is the key: {TOKEN} done"
    landed = streamed(*(whole[:end] for end in range(20, len(whole), size)), whole).land(rules)
    assert landed.holds(TOKEN[:8]) == []
    assert landed.steps()[0]["message"] == "Here is the key: [redacted:github-token] done"
    assert ("data.message", "unfinished", 1) in told(landed)


@pytest.mark.parametrize(
    ("part", "left"),
    [
        ("I look the order up, plea", "I look the order up, plea"),
        ("mail jane.roe@exa", "mail "),
        ("the password is hunt", "the password is "),
        ("call 010-12", "call "),
        ("주민번호 900101-12", "주민번호 "),
        ('{"query":"ord', '{"query":"ord'),
        ('{"key":"' + TOKEN[:9], '{"key":"'),
        ("done. ", "done. "),
    ],
)
def test_G2_a_copy_keeps_all_but_what_may_begin_a_secret(rules: LandRules, part: str, left: str) -> None:
    landed = streamed(part, [{"type": "text", "text": part + " "}], "whole").land(rules)
    texts = [orjson.loads(row["event"])["data"].get("message") for row in landed.rows("events")]
    assert texts[1] == left


def test_a_whole_message_keeps_its_end(rules: LandRules) -> None:
    landed = streamed("built with order-17").land(rules)
    assert landed.steps()[0]["message"] == "built with order-17"


def test_the_words_of_a_model_that_are_no_secret_come_through_unchanged(rules: LandRules) -> None:
    text = "Sum of 3 orders: 1,234.50 EUR; see https://example.org/a?b=1 and " + drawn(5, 7, "0123456789abcdef")
    log = a_run(text)
    landed = log.land(rules)
    assert [row["event"].encode() for row in landed.rows("events")] == [record.value for record in log.records]
