"""Denied fields: their values appear in no row of any table, wherever and however the key is written."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fold.story import Log
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.redact.denylist import DEFAULT_FIELDS, DenyList

SECRET = "-".join(("correct", "horse", "battery"))
"""Not a secret; stands for one."""

SPELLINGS = [
    "password",
    "PassWord",
    "API_KEY",
    "api-key",
    "X-Api_Key",
    "x_api-key",
    "Set-Cookie",
    "set_cookie",
    "client-secret",
]


@pytest.mark.parametrize("key", SPELLINGS)
@pytest.mark.parametrize(
    "shape",
    [
        lambda key: {key: SECRET},
        lambda key: {"a": {"b": [{key: SECRET}]}},
        lambda key: [[{key: [SECRET]}]],
        lambda key: {key: {"user": "me", "value": SECRET}},
    ],
)
def test_denied_values_are_removed_at_any_depth_in_any_spelling(key: str, shape: Any) -> None:
    log = Log()
    run = log.run()
    run.starts(input=shape(key))
    run.responds(shape(key), tool_calls=[{"tool_call_id": "a", "function_name": "f", "arguments": shape(key)}])
    run.returns("a", shape(key))
    run.ends(output=shape(key))
    landed = log.land()
    assert landed.holds(SECRET) == []
    assert len(landed.rows("events")) == 4
    name = key.lower().replace("-", "_")
    assert f"[removed:{name}]" in landed.steps()[0]["observations"][0]["content"]


def test_what_was_removed_stands_on_event_step_and_run_by_rule_and_never_by_value() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds({"password": SECRET}, calls=["a"])
    run.returns("a", [{"password": SECRET, "cookie": SECRET}, {"password": SECRET}])
    run.responds("clean")
    run.ends()
    landed = log.land()
    _, response, result, _, _ = landed.rows("events")
    assert response["redactions"] == [{"path": "data.message.password", "rule": "deny.password", "count": 1}]
    assert result["redactions"] == [
        {"path": "data.content[].cookie", "rule": "deny.cookie", "count": 1},
        {"path": "data.content[].password", "rule": "deny.password", "count": 2},
    ]
    both = [{"path": "", "rule": "deny.cookie", "count": 1}, {"path": "", "rule": "deny.password", "count": 3}]
    assert [step["redactions"] for step in landed.steps()] == [both, None]
    assert landed.one("runs")["redactions"] == both


def test_what_was_removed_from_the_closing_event_stands_on_the_run_that_it_closes() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.ends(output={"password": SECRET}, time="2026-01-01T00:00:00")
    landed = log.land()
    assert landed.one("runs")["redactions"] == [{"path": "", "rule": "deny.password", "count": 1}]
    assert landed.gaps() == ["time_assumed_utc"]


def test_what_was_removed_from_an_orphan_goes_with_it_to_the_step_that_claims_it() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.returns("a", {"password": SECRET})
    run.returns("never", {"cookie": SECRET})
    run.responds(calls=["a"])
    run.ends()
    claimed, orphan = log.land().steps()
    assert [cut["rule"] for cut in claimed["redactions"]] == ["deny.password"]
    assert [cut["rule"] for cut in orphan["redactions"]] == ["deny.cookie"]


def test_what_was_removed_from_an_event_that_waited_is_not_forgotten() -> None:
    log = Log()
    run = log.run()
    run.responds({"password": SECRET}, sequence=2)
    run.starts(sequence=1)
    run.ends(sequence=3)
    landed = log.land()
    assert landed.holds(SECRET) == []
    assert landed.steps()[0]["redactions"] == landed.one("runs")["redactions"]
    assert landed.one("runs")["redactions"] == [{"path": "", "rule": "deny.password", "count": 1}]


@pytest.mark.parametrize(
    "escaped", [r"p\u0061ssword", r"\u0070\u0061ssword", r"api\u005fkey", r"api\u002dkey", r"API\u005FKEY"]
)
def test_a_key_written_with_escapes_is_found(escaped: str) -> None:
    log = Log()
    run = log.run()
    run.starts()
    event = orjson.dumps(run.event("model.responded", {"message": {"KEY": SECRET}}))
    log.append(event.replace(b"KEY", escaped.encode()), b"acme/r1")
    landed = log.land()
    assert landed.holds(SECRET) == []
    assert len(landed.rows("events")) == 2


@pytest.mark.parametrize(
    "record",
    [
        '{"password": "%s", "x":',
        '{"password": "%s',
        '{"a": {"password": {"deep": ["}", "%s"]}, "b": ',
        '{"password" : [1, "%s"',
        "{'password': '%s', ",
        '{"p\\u0061ssword":"%s",,}',
        '{"x": "{\\"password\\": \\"%s\\"}" ',
        "Authorization: Bearer %s\r\nHost: h",
        "Set-Cookie: a=1; b=%s; c=2",
        "password=%s",
        'PASSWORD : "a\\" %s',
        '{"password": "a\\\n%s", ,',
        '{"a": NaN, "password": "%s"}',
        '{"password": 1%s}',
        '{"a": 1, "a": {"password": "%s"}, "a": 2}',
        '{"password": "%s", "password": 1}',
        '[{"password": "%s"}]',
    ],
)
def test_denied_values_of_records_that_are_no_events_are_masked(record: str) -> None:
    log = Log()
    log.append((record % SECRET).encode(), b"acme/r1")
    landed = log.land()
    payload = landed.one("quarantine")["payload"]
    assert SECRET not in payload, payload
    assert landed.holds(SECRET) == []


def test_denied_values_in_wrong_utf8_are_masked() -> None:
    log = Log()
    log.append(b'{"note":"\xff\xfe","password":"' + SECRET.encode() + b'"}')
    row = log.land().one("quarantine")
    assert row["payload_encoding"] == "base64"
    assert log.land().holds(SECRET) == []
    assert base64.b64decode(row["payload"]) == b'{"note":"\xff\xfe","password":[removed]}'


@pytest.mark.parametrize("key", [b"acme/r1", b"other/key"])
@pytest.mark.parametrize(
    "fields",
    [
        {"specversion": "0.3"},
        {"time": "soon"},
        {"sequence": 0},
        {"runid": ""},
        {"type": "agent.run.ended"},
        {"tenantid": "null"},
        {},
    ],
)
def test_denied_values_of_refused_events_are_removed(fields: dict[str, Any], key: bytes) -> None:
    log = Log()
    run = log.run()
    run.starts()
    body = {**run.event("model.responded", {"message": {"password": SECRET}, "tool_calls": []}), **fields}
    log.append_event(body, key)
    log.append_event(body, key)
    assert log.land().holds(SECRET) == []


def test_denied_values_of_duplicates_and_conflicts_are_removed() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for name in ("a", "a", "b"):
        run.responds({"password": SECRET}, sequence=2, id=name)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["duplicate", "sequence_conflict"]
    assert landed.holds(SECRET) == []


def test_denied_values_in_binary_mode_are_removed_from_headers_and_data() -> None:
    log = Log()
    headers: list[tuple[str, bytes | None]] = [
        ("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"s"), ("ce_type", b"agent.run.started"),
        ("ce_tenantid", b"acme"), ("ce_runid", b"r1"), ("ce_sequence", b"1"), ("ce_password", SECRET.encode()),
        ("content-type", b"application/json"), ("authorization", SECRET.encode()),
    ]  # fmt: skip
    log.append(orjson.dumps({"input": {"api-key": SECRET}}), b"acme/r1", headers)
    landed = log.land()
    row = landed.one("events")
    assert json.loads(row["event"])["password"] == "[removed:password]"
    assert json.loads(row["event"])["data"]["input"] == {"api-key": "[removed:api_key]"}
    assert landed.holds(SECRET) == []


def test_a_denied_value_that_was_stored_by_reference_is_not_stored_at_all() -> None:
    secret = SECRET * 20_000
    log = Log()
    run = log.run()
    run.starts()
    run.responds({"password": secret, "image": "A" * 400_000})
    landed = log.land()
    assert [payload.content[:3] for payload in landed.payloads] == [b"AAA"]
    assert landed.holds(SECRET) == []


def test_a_contract_field_that_may_not_be_text_makes_the_event_refused_without_its_value() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("hi", usage={"input_tokens": 123454321})
    landed = log.land(LandRules(deny=DenyList(["usage"])))
    row = landed.one("quarantine")
    assert (row["reason_code"], row["stage"]) == ("redaction_failed", "redact")
    assert landed.holds("123454321") == []


def test_a_forged_marker_is_left_and_redacting_twice_changes_nothing() -> None:
    deny = DenyList()
    once, cuts = deny.apply(orjson.dumps({"password": SECRET, "cookie": "[removed:cookie]", "secret": None}))
    assert [cut.path for cut in cuts] == ["password"]
    assert deny.apply(once) == (once, [])


def test_names_of_denied_fields_are_cut_from_no_other_text() -> None:
    body = orjson.dumps(
        {"message": "the password is in the api_key", "passwords": 1, "my_password": 2, "max_tokens": 5}
    )
    assert DenyList().apply(body) == (body, [])


@pytest.mark.parametrize(
    ("name", "body", "path"),
    [
        ("user.email", {"data": {"user": {"email": 1}}}, "data.user.email"),
        ("data.user.email", {"data": {"user": {"email": {"at": 1}}}}, "data.user.email"),
        ("Data.USER.E-Mail", {"data": {"user": {"e_mail": 1}}}, "data.user.e_mail"),
        ("home-address.zip_code", {"Home_Address": {"ZIP-Code": 1}}, "Home_Address.zip_code"),
        ("tool_calls.arguments", {"tool_calls": [{"arguments": 1}, {"arguments": 2}]}, "tool_calls[].arguments"),
        ("rows.cell", {"rows": [[{"cell": 1}], [[{"cell": 2}]]]}, None),
        ("a.a.b", {"a": {"a": {"a": {"b": 1}}}}, "a.a.a.b"),
        ("user.email", {"user.email": 1}, "user.email"),
        ("größe.straße", {"größe": {"straße": 1}}, "größe.straße"),
        ("user.$ref", {"user": {"$ref": 1}}, "user.$ref"),
    ],
)
def test_a_name_with_dots_removes_the_value_at_the_end_of_that_path(name: str, body: Any, path: str | None) -> None:
    deny = DenyList([name])
    text = orjson.dumps(body)
    assert deny.hits([b"{}", text]) == {1}
    removed, cuts = deny.apply(text)
    rule = name.lower().replace("-", "_")
    assert {cut.rule for cut in cuts} == {f"deny.{rule}"}
    assert path is None or {cut.path for cut in cuts} == {path}
    assert removed.decode().count(f"[removed:{rule}]") == sum(cut.count for cut in cuts)
    assert not any(digit in removed for digit in b"12")
    assert deny.apply(removed) == (removed, [])


@pytest.mark.parametrize(
    "body",
    [
        {"email": 1},
        {"user": {"contact": {"email": 1}}},
        {"other": [{"email": 1}], "user": 2},
        {"user": {"emails": 1}},
        {"superuser": {"email": 1}},
        {"user": "email"},
    ],
)
def test_a_name_with_dots_leaves_its_last_key_elsewhere(body: Any) -> None:
    text = orjson.dumps(body)
    assert DenyList(["user.email"]).apply(text) == (text, [])


def test_the_shortest_and_then_the_longest_name_says_under_which_rule_a_value_went() -> None:
    body = orjson.dumps({"a": {"b": {"c": 1}, "c": 2}, "b": {"c": 3, "d": 4}})
    _, cuts = DenyList(["b.c", "a.b.c", "d", "b.d"]).apply(body)
    assert [(cut.path, cut.rule) for cut in cuts] == [
        ("a.b.c", "deny.a.b.c"),
        ("b.c", "deny.b.c"),
        ("b.d", "deny.d"),
    ]


def test_a_denied_path_is_in_no_row_of_any_table_and_its_last_key_elsewhere_is() -> None:
    log = Log()
    run = log.run()
    run.starts(input={"user": {"email": SECRET}, "email": "kept-1"})
    run.responds(calls=["a"])
    run.returns("a", [{"user": [{"Email": SECRET}]}, {"author": {"email": "kept-2"}}])
    run.ends()
    log.append(b'{"user": {"email": "%b"}, ' % SECRET.encode(), b"acme/r1")
    landed = log.land(LandRules(deny=DenyList([*DEFAULT_FIELDS, "user.email"])))
    assert landed.holds(SECRET) == []
    assert landed.holds("kept-1")
    assert landed.holds("kept-2")
    result = landed.rows("events")[2]
    assert result["redactions"] == [{"path": "data.content[].user[].email", "rule": "deny.user.email", "count": 1}]


@pytest.mark.parametrize("text", ['{"user": {"e-mail": "%s"', "user.e_mail=%s", '{"E_Mail": "%s",,'])
def test_text_that_is_no_json_is_masked_after_the_last_key_of_a_name_with_dots(text: str) -> None:
    assert SECRET not in DenyList(["user.e-mail"]).mask(text % SECRET)


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "$.a", "a[].b", "a.*", "a. b", '"a"', "a_b_c_d_e_f_g_h_i.b"])
def test_a_name_that_could_never_match_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="denied field"):
        DenyList([name])


@given(st.data())
def test_the_quick_look_misses_no_path_that_the_careful_walk_finds(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.text("ab_-.é", min_size=1, max_size=7), min_size=1, max_size=3))
    assume(all(all(name.split(".")) for name in names))
    key = st.text("aAbB_-.éÉ", max_size=5)
    body = data.draw(
        st.recursive(st.just(1), lambda inner: st.lists(inner) | st.dictionaries(key, inner), max_leaves=20)
    )
    text = json.dumps(body, ensure_ascii=data.draw(st.booleans())).encode()
    deny = DenyList(names)
    removed, cuts = deny.apply(text)
    if cuts:
        assert deny.hits([text]) == {0}
    assert deny.apply(removed) == (removed, [])


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(DEFAULT_FIELDS))
def test_the_quick_look_misses_no_key_that_the_careful_walk_finds(data: st.DataObject, name: str) -> None:
    letters = [data.draw(st.sampled_from("-_") if c == "_" else st.sampled_from((c, c.upper()))) for c in name]
    key = "".join(f"\\u{ord(c):04x}" if data.draw(st.integers(0, 9)) == 0 else c for c in letters)
    text = b'{"x":[{"%b":1}]}' % key.encode()
    around = data.draw(st.lists(st.binary(max_size=5), max_size=3))
    deny = DenyList()
    assert deny.apply(text)[1]
    assert len(around) in deny.hits([*around, text, b"", b"{}"])


@given(st.lists(st.text("ab\"\\{}[]:=,' \npasword", max_size=40)))
def test_masking_is_total_and_leaves_what_it_does_not_deny(parts: list[str]) -> None:
    text = "".join(parts)
    masked = DenyList(["password"]).mask(text)
    if "password" not in text:
        assert masked == text


@pytest.mark.parametrize("part", ["password ", 'secret="', '{"password":{', "{"])
def test_masking_a_large_record_of_nothing_but_keys_and_brackets_is_linear(part: str) -> None:
    text = part * (1_000_000 // len(part)) + " cookie"
    started = time.process_time()
    DenyList().mask(text)
    assert time.process_time() - started < 10
