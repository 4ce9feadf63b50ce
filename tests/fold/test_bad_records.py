"""L10, L12: what is no event, in the middle of a batch; and that any bytes at all are either landed or quarantined."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fold.story import INLINE_MAX, TOPIC, Landed, Log, Run, fold_in_batches, restarted
from trajlake.expectations.events import EVENT_TYPES, kafka_key
from trajlake.transforms.decode.decoder import decode, decode_fast, decode_value, redecode
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Decoded, Record, Rejected

WHOLE = (
    b'{"specversion":"1.0","id":"x","source":"s","type":"agent.model.responded","tenantid":"acme","runid":"r1",'
    b'"sequence":3,"data":{"message":"hi","n":%b}}'
)


def event(**fields: Any) -> bytes:
    body = Log().run().event("model.responded", {"message": "hi"}, sequence=3)
    body.update(fields)
    return orjson.dumps({name: value for name, value in body.items() if value is not None})


def data(**fields: Any) -> bytes:
    return event(data={"message": "hi", **fields})


# name -> (record, reason, field path)
MALFORMED: dict[str, tuple[bytes | None, str, str | None]] = {
    "nothing": (None, "empty", None),
    "0 bytes": (b"", "empty", None),
    "cut": (event()[:-7], "malformed_json", None),
    "two values": (event() * 2, "malformed_json", None),
    "no JSON": (b"hello", "malformed_json", None),
    "compressed": (gzip.compress(event(), mtime=0), "not_utf8", None),
    "byte order mark": (b"\xef\xbb\xbf" + event(), "malformed_json", None),
    "UTF-16": (event().decode().encode("utf-16"), "not_utf8", None),
    "wrong UTF-8": (event().replace(b"hi", b"h\xff"), "not_utf8", None),
    "surrogates in UTF-8": (event().replace(b"hi", b"\xed\xa0\x80"), "not_utf8", None),
    "lone surrogate": (event().replace(b"hi", b"\\ud800"), "malformed_json", None),
    "half a pair": (event().replace(b"hi", b"\\ud83dx"), "malformed_json", None),
    "raw control character": (event().replace(b"hi", b"h\ni"), "malformed_json", None),
    "NaN": (WHOLE % b"NaN", "bad_number", None),
    "minus Infinity": (WHOLE % b"[1,-Infinity]", "bad_number", None),
    "1e400": (WHOLE % b"1e400", "bad_number", None),
    "5,000 digits": (WHOLE % (b"9" * 5000), "bad_number", None),
    "10,000 deep lists": (WHOLE % (b"[" * 10_000 + b"]" * 10_000), "too_deep", None),
    "10,000 deep objects": (WHOLE % (b'{"a":' * 10_000 + b"1" + b"}" * 10_000), "too_deep", None),
    "1,000 deep": (WHOLE % (b"[" * 1000 + b"]" * 1000), "too_deep", None),
    "255 deep": (WHOLE % (b"[" * 253 + b"]" * 253), "too_deep", None),
    "255 deep, spread out": (WHOLE % (b"[ " * 253 + b"]" * 253), "too_deep", None),
    "unclosed": (b"[" * 10_000, "too_deep", None),
    "duplicate key": (event()[:-1] + b',"id":"other"}', "duplicate_key", "id"),
    "duplicate key far inside": (WHOLE % b'[{"a":{"b":[{"c":1,"c":2}]}}]', "duplicate_key", None),
    "duplicate key by escape": (WHOLE % b'{"c":1,"\\u0063":2}', "duplicate_key", None),
    "list": (b"[%b]" % event(), "not_an_event", None),
    "string": (b'"agent"', "not_an_event", None),
    "null": (b"null", "not_an_event", None),
    "number": (b"12", "not_an_event", None),
    "no specversion": (event(specversion=None), "not_an_event", "specversion"),
    "other specversion": (event(specversion="0.3"), "not_an_event", "specversion"),
    "no type": (event(type=None), "not_an_event", "type"),
    "type is no text": (event(type=5), "not_an_event", "type"),
    "no id": (event(id=None), "missing_field", "id"),
    "empty id": (event(id=""), "out_of_range", "id"),
    "long id": (event(id="x" * 513), "out_of_range", "id"),
    "no source": (event(source=None), "missing_field", "source"),
    "no run": (event(runid=None), "missing_field", "runid"),
    "no tenant": (event(tenantid=None), "tenant_missing", "tenantid"),
    "empty tenant": (event(tenantid=" "), "tenant_missing", "tenantid"),
    "tenant 0": (event(tenantid=0), "tenant_missing", "tenantid"),
    "tenant null": (event(tenantid="null"), "tenant_missing", "tenantid"),
    "tenant with slash": (event(tenantid="a/b"), "out_of_range", "tenantid"),
    "no sequence": (event(sequence=None), "missing_field", "sequence"),
    "sequence 0": (event(sequence=0), "out_of_range", "sequence"),
    "sequence -1": (event(sequence=-1), "out_of_range", "sequence"),
    "sequence 2**53": (event(sequence=2**53), "out_of_range", "sequence"),
    "sequence 2**62": (event(sequence=2**62), "out_of_range", "sequence"),
    "sequence 2**64": (event().replace(b'"sequence":3', b'"sequence":18446744073709551616'), "wrong_type", "sequence"),
    "sequence 1.5": (event(sequence=1.5), "wrong_type", "sequence"),
    "sequence in words": (event(sequence="three"), "wrong_type", "sequence"),
    "sequence true": (event(sequence=True), "wrong_type", "sequence"),
    "no data": (event(data=None), "missing_field", "data"),
    "data is a list": (event(data=[]), "wrong_type", "data"),
    "data is text": (event(data="hi"), "wrong_type", "data"),
    "latency in words": (data(latency_ms="soon"), "wrong_type", "data.latency_ms"),
    "negative latency": (data(latency_ms=-1), "out_of_range", "data.latency_ms"),
    "status 99": (data(http_status=99), "out_of_range", "data.http_status"),
    "tokens beyond 64 bits": (data(usage={"input_tokens": 2**63}), "out_of_range", "data.usage.input_tokens"),
    "retries beyond 32 bits": (data(retry_count=2**31), "out_of_range", "data.retry_count"),
    "token id beyond 64 bits": (data(completion_token_ids=[1, 2**63]), "out_of_range", "data.completion_token_ids[1]"),
    "mask beyond 32 bits": (data(loss_mask=[2**31]), "out_of_range", "data.loss_mask[0]"),
    "call without id": (data(tool_calls=[{"function_name": "f"}]), "missing_field", "data.tool_calls[0].tool_call_id"),
    "unknown code": (event(type="agent.run.ended", data={"end_state": "perfect"}), "out_of_range", "data.end_state"),
    "exit code": (
        event(type="agent.run.ended", data={"end_state": "failed", "exit_code": 2**32}), "out_of_range",
        "data.exit_code",
    ),
    "forged tick": (event(type="trajlake.tick", data=dict.fromkeys(
        ("close_idle_after_us", "release_held_after_us", "forget_closed_after_us"), 0)), "forged_tick", "source"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_L10_a_bad_record_in_the_middle_of_a_batch_is_quarantined_and_all_others_land(name: str) -> None:
    value, reason, path = MALFORMED[name]
    log = Log()
    run = log.run("r1")
    run.starts()
    run.responds("before")
    bad = log.append(value, b"acme/r1")
    run.ends(sequence=4)
    other = log.run("r2")
    other.starts()
    other.ends()
    log.waits(100)
    log.tick(held_s=50)
    landed = log.land()
    row = landed.one("quarantine")
    assert (row["topic"], row["partition"], row["offset"], row["reason_code"]) == (TOPIC, 0, bad, reason)
    assert row["field_path"] == path
    assert row["detail"]
    assert row["payload_sha256"] == hashlib.sha256(value or b"").hexdigest()
    assert row["payload_bytes"] == len(value or b"")
    assert {row["offset"] for row in landed.rows("events")} == set(range(log.next_offset)) - {bad}
    assert {row["run_id"] for row in landed.rows("runs")} == {"r1", "r2"}
    assert "missing_sequence" in landed.gaps("r1")


def test_L10_twenty_megabytes_that_no_reference_shortens_are_quarantined_whole_beside_the_table() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(["word"] * 3_000_000)
    run.ends()
    landed = log.land()
    row = landed.one("quarantine")
    assert (row["reason_code"], row["stage"], row["run_id"], row["sequence"]) == ("oversized", "gate", "r1", 2)
    (payload,) = landed.payloads
    assert payload.quarantined
    assert payload.content == log.records[1].value
    assert row["payload_ref"] == f"payload:sha256:{payload.sha256}:{len(payload.content)}"
    assert len(row["payload"]) <= LandRules().payload_inline_max_bytes
    assert landed.one("runs")["gaps"] == [{"code": "missing_sequence", "detail": "2: quarantined, oversized"}]


def test_L10_twenty_megabytes_of_noise_are_quarantined() -> None:
    log = Log()
    log.append(b'{"password": "' + b"x" * 20_000_000)
    landed = log.land()
    assert landed.one("quarantine")["reason_code"] == "malformed_json"
    assert landed.payloads == []
    assert landed.one("quarantine")["payload"] == '{"password": [removed]'


def test_L12_a_partition_of_nothing_but_poison_goes_on_through_restarts_with_each_row_once() -> None:
    log = Log()
    for value, _, _ in MALFORMED.values():
        log.append(value, b"acme/r1")
    fold = PartitionFold(TOPIC, 0, LandRules())
    landings = []
    for start in range(0, len(log.records), 7):
        fold = restarted(fold)
        landings.append(fold.fold(log.records[max(0, start - 3) : start + 7]))
    assert fold.next_offset == len(log.records)
    assert [row["offset"] for row in Landed.of(landings).rows("quarantine")] == list(range(len(log.records)))


# What is merely written unusually


def test_L10_compact_and_spread_out_JSON_give_the_same_rows() -> None:
    def tell(*, pretty: bool) -> Landed:
        log = Log()
        run = log.run()
        run.starts(pretty=pretty, input={"q": [1, 2.5, None, "é\n"]})
        run.responds([{"type": "text", "text": "😀"}], calls=["a"], pretty=pretty, usage={"input_tokens": 3})
        run.returns("a", {"b": [True]}, pretty=pretty)
        run.rewarded(0.5, pretty=pretty)
        run.ends(pretty=pretty)
        return log.land()

    compact, pretty = tell(pretty=False), tell(pretty=True)
    for name in ("runs", "steps", "rewards"):
        assert pretty.tables[name].equals(compact.tables[name]), name
    apart = [name for name in compact.tables["events"].column_names if name != "event"]
    assert pretty.tables["events"].select(apart).equals(compact.tables["events"].select(apart))


@pytest.mark.parametrize("between", [b"", b" "])
def test_L10_what_is_just_not_too_deep_lands_compact_or_not(between: bytes) -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds()
    log.append(WHOLE % (b"[" + between + b"[" * 251 + b"]" * 252), b"acme/r1")
    assert len(log.land().rows("events")) == 3


def test_L10_a_sequence_in_a_string_is_read() -> None:
    log = Log()
    log.append_event({**log.run().event("run.started"), "sequence": "1"})
    assert log.land().one("events")["sequence"] == 1


def test_L10_a_windows_exit_code_lands_in_32_bits() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("a", exit_code=0xC0000005)
    run.ends("failed", exit_code=0xC0000005)
    landed = log.land()
    assert landed.steps()[0]["observations"][0]["exit_code"] == landed.one("runs")["exit_code"] == -1073741819


def test_L10_sums_beyond_a_column_stand_at_its_limit() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for n in range(1100):
        run.responds(
            "x",
            retry_count=2**31 - 1,
            usage={"input_tokens": 2**53 - 1},
            cost_usd=1.7e308,
            time=None,
            message_id=f"m{n}",
        )
    run.ends()
    row = log.land().one("runs")
    assert row["retry_count"] == 2**31 - 1
    assert row["input_tokens"] == min(2**63 - 1, 1100 * (2**53 - 1))
    assert row["cost_usd"] == 1.7976931348623157e308


# A key that does not belong


@pytest.mark.parametrize("key", [None, b"", b"acme", b"acme/r2", b"other/r1", b"acme/r1/", b"\xff"])
def test_L10_an_event_under_another_key_is_quarantined_and_takes_no_number_of_its_run(key: bytes | None) -> None:
    log = Log()
    run = log.run()
    run.starts()
    log.append(orjson.dumps(run.event("model.responded", {}, sequence=2)), key)
    run.responds("mine", sequence=2, id="mine")
    run.ends(sequence=3)
    landed = log.land()
    row = landed.one("quarantine")
    assert (row["reason_code"], row["field_path"], row["sequence"]) == ("key_mismatch", "key", None)
    assert [step["message"] for step in landed.steps()] == ["mine"]
    assert landed.gaps() == []


def test_L10_a_tick_in_the_clothes_of_a_run_is_forged_whether_or_not_the_run_is_open() -> None:
    limits = dict.fromkeys(("close_idle_after_us", "release_held_after_us", "forget_closed_after_us"), 0)
    log = Log()
    run = log.run()
    for _ in range(2):
        log.append_event(
            {
                "specversion": "1.0", "id": "t", "source": "trajlake/land", "type": "trajlake.tick", "tenantid": "acme",
                "runid": "r1", "data": limits,
            }
        )  # fmt: skip
        run.starts(sequence=1)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["forged_tick", "forged_tick", "duplicate"]
    assert landed.rows("runs") == []


# Fuzz

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["1.0", "acme", "r1", "agent.run.ended", "2026-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "run.started": {
        "agent": {"name": "a"}, "tools": [{"name": "t", "version": "1"}], "purpose": ["x"], "input": {},
    },
    "model.responded": {
        "message": "hi", "tool_calls": [{"tool_call_id": "a", "arguments": {}}], "usage": {"input_tokens": 1},
        "input_messages": [{"role": "user", "content": "q"}], "logprobs": [0.5], "completion_token_ids": [1],
        "cost_usd": 1.0, "loss_mask": [1], "model": {"name": "m"}, "partial": False, "http_status": 500,
    },
    "tool.called": {"tool_call_id": "a", "function_name": "f", "arguments": "{}"},
    "tool.returned": {"tool_call_id": "a", "content": [1], "is_error": True, "exit_code": 1, "latency_ms": 2.0},
    "policy.decided": {"policy_id": "p", "verdict": "allow"},
    "context.compacted": {"summary": "s", "tokens_before": 1},
    "feedback.given": {"score": 1.0},
    "reward.assigned": {"score": 1.0, "annotator_kind": "code"},
    "run.ended": {"end_state": "completed", "output": "x", "exit_code": 0, "input_messages": []},
    "consent.changed": {
        "subject_id": "s", "purpose": "p", "state": "granted", "expires_at": "2026-01-01T00:00:00Z",
    },
    "lever.applied": {"lever": "prompt", "skill": {"name": "s"}},
    "trajlake.tick": dict.fromkeys(
        ("close_idle_after_us", "release_held_after_us", "forget_closed_after_us"), 1),
    "trajlake.reclassify": {
        "classifier_revision": "0", "first_offset": 0, "offset": 1, "revision": 0, "seen": 1,
        "steps": [{"step_index": 1, "revision": 0}],
    },
}  # fmt: skip
templates = st.sampled_from([Log().run().event(kind, body, sequence=3) for kind, body in BODIES.items()])


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A good event with up to three values, anywhere in it, replaced or removed."""
    body: dict[str, Any] = json.loads(json.dumps(draw(templates)))
    for _ in range(draw(st.integers(0, 3))):
        node: Any = body
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not places:
                break
            place = draw(st.sampled_from(places))
            if isinstance(node[place], dict | list) and draw(st.booleans()):
                node = node[place]
                continue
            if isinstance(node, dict) and draw(st.booleans()) and draw(st.booleans()):
                del node[place]
            else:
                node[place] = draw(json_values)
            break
    return body


def _land_one(value: bytes, key: bytes | None) -> Landed:
    """Land a run whose third record is this one, and close it."""
    log = Log()
    run: Run = log.run()
    run.starts()
    run.responds(calls=["a"])
    log.append(value, key)
    run.ends(sequence=4)
    log.waits(100)
    log.tick(idle_s=50, held_s=50)
    landed = log.land()
    places = [row["offset"] for name in ("events", "quarantine") for row in landed.rows(name)]
    assert sorted(places) == [0, 1, 2, 3, 4], "every record is in exactly one of ledger and quarantine"
    return landed


@settings(max_examples=150, deadline=None)
@given(mutated(), st.booleans())
def test_L10_any_mutation_of_an_event_is_landed_or_quarantined(body: dict[str, Any], pretty: bool) -> None:
    key = kafka_key(str(body.get("tenantid")), str(body.get("runid")))
    value = json.dumps(body, ensure_ascii=False, separators=None if pretty else (",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    landed = _land_one(value, key)
    for row in landed.rows("quarantine"):
        if row["offset"] == 2:
            assert row["stage"] in ("decode", "gate", "assemble")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"\x00")
@example(b'{"a":' + b"1" * 4400 + b"}")
def test_L10_any_bytes_are_quarantined(value: bytes) -> None:
    assert [row["offset"] for row in _land_one(value, b"acme/r1").rows("quarantine")] == [2]


@settings(max_examples=100, deadline=None)
@given(templates, st.binary(min_size=1, max_size=4), st.integers(0, 400))
def test_L10_an_event_with_flipped_bytes_is_landed_or_quarantined(body: dict[str, Any], noise: bytes, at: int) -> None:
    value = orjson.dumps(body)
    _land_one(value[:at] + noise + value[at + len(noise) :], b"acme/r1")


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_the_fast_and_the_careful_path_agree(body: dict[str, Any]) -> None:
    try:
        value = orjson.dumps(body)
    except TypeError:
        return
    fast = decode_fast(value)
    spread = decode_value(
        orjson.dumps(body, option=orjson.OPT_INDENT_2),
        inline_max_bytes=10**6,
        event_inline_max_bytes=10**6,
        from_ledger=True,
    )
    if fast is not None:
        assert isinstance(spread, Decoded)
        assert spread.event == fast
        assert redecode(value) == fast
    elif isinstance(spread, Decoded):
        assert redecode(spread.text) == spread.event


SECRET = "Zq7-never-shown-Zq7"


@settings(max_examples=150, deadline=None)
@given(templates, st.data())
def test_L10_no_value_of_a_record_stands_in_what_is_said_about_it(body: dict[str, Any], draw: st.DataObject) -> None:
    """A value that cannot be right is put anywhere; the rejection names its place without it."""
    body = json.loads(json.dumps(body))
    choices: list[tuple[Any, Any]] = [(body, name) for name in body if name != "data"]
    todo: list[Any] = [body["data"]]
    while todo:
        node = todo.pop()
        for place in node if isinstance(node, dict) else range(len(node)):
            choices.append((node, place))
            if isinstance(node[place], dict | list):
                todo.append(node[place])
    node, place = draw.draw(st.sampled_from(choices))
    node[place] = draw.draw(st.sampled_from([SECRET, [SECRET], {SECRET: SECRET}]))
    record = Record(0, 0, b"acme/r1", orjson.dumps(body))
    judged = decode(record, inline_max_bytes=10**6, event_inline_max_bytes=10**6)
    if isinstance(judged, Rejected):
        assert SECRET not in judged.detail
        assert SECRET not in (judged.field_path or "")


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_event_type_has_a_template_for_the_fuzz(kind: str) -> None:
    assert kind in BODIES or kind.removeprefix("agent.") in BODIES


def test_a_batch_with_bad_bytes_folds_as_its_good_records_alone_do() -> None:
    """One record of wrong UTF-8 must not change how the others of its batch are read."""
    log = Log()
    run = log.run()
    run.starts(password="hunter2")
    run.responds(r"\u0061", password="hunter2")
    log.append(b"\xff\xfe")
    run.ends()
    whole = log.land()
    parts = Landed.of(fold_in_batches(PartitionFold(TOPIC, 0, LandRules()), log.records, range(10)))
    assert parts.differs(whole) is None
    assert whole.holds("hunter2") == []


def test_L10_large_content_of_a_refused_record_is_kept_in_quarantine() -> None:
    log = Log()
    large = "L" * (INLINE_MAX + 1)
    body = {"specversion": "1.0", "id": "e", "source": "s", "type": "agent.run.started", "tenantid": "acme",
            "runid": "r", "sequence": 1, "data": {"input": large}}  # fmt: skip
    log.append_event(body, b"other/key")
    landed = log.land()
    row = landed.one("quarantine")
    (kept,) = landed.payloads
    assert row["reason_code"] == "key_mismatch"
    assert kept.quarantined
    assert (kept.content.decode(), kept.sha256 in row["payload"]) == (large, True)
