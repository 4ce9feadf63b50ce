"""Every reason that governance or quality can name has its run here, and no reader of the training zone finds it.

A reason that is new and has no case makes a test fail. Policies' reasons are in `test_governance` and `test_consent`;
here are records that are refused as they land, and runs that curation leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.curate.lab import OPEN, Lab, never, policies, shipped, story, tick
from tests.curate.test_consent import CONSENT_CASES
from tests.curate.test_governance import MARK, POLICY_CASES, assert_left_out, assert_nothing_of_it, marked, unfinished
from tests.landkit.events import Sent, event
from tests.landkit.stretches import TOPIC
from trajlake.expectations.events import PAYLOAD_MARKER
from trajlake.expectations.reasons import Exclusion, PolicyReason, Reason
from trajlake.streams.curate.curator import Limits
from trajlake.streams.deepscan.presidio import Detector, Found
from trajlake.streams.deepscan.scanner import Scanner
from trajlake.transforms.gate.rowgate import RowGate, compile_gate
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.landing.suppression import Suppression
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.policy.place import WritePlace
from trajlake.transforms.redact.model import Limits as RedactionLimits
from trajlake.transforms.redact.redactor import Redactor

RUN = f"run-{MARK}"


# Records that are refused as they land


def altered(old: bytes = b"", new: bytes = b"", *, data: dict[str, Any] | None = None, **envelope: Any) -> Sent:
    """The third event of run `base`, told with the mark and something wrong in it."""
    body = {"tool_call_id": "base-0", "content": f"saw {MARK}", **(data or {})}
    sent = event("tool.returned", "base", envelope.pop("sequence", 3), body, **{"id": f"e-{MARK}", **envelope})
    value = sent.value or b""
    assert old in value
    return sent._replace(value=value.replace(old, new, 1) if old else value)


def deep(text: str) -> Any:
    """A text far inside: deeper than the redactor of these tests may look."""
    found: Any = text
    for _ in range(8):
        found = {"n": [found, "x"]}
    return found


AT_END = b'"}}'
STARTED: dict[str, Any] = {"skill": {"name": f"skill-{MARK}"}, "input": MARK}
PLACED = """
version: 1
policies:
  - {id: far, tenant: far, zone: eu}
  - {id: alone, tenant: alone, isolation: dedicated}
"""

RECORDS: dict[Reason, list[Sent]] = {
    Reason.EMPTY: [Sent(f"acme/{RUN}".encode(), b"")],
    Reason.NOT_UTF8: [altered(b"saw ", b"saw \xff")],
    Reason.MALFORMED_JSON: [altered(AT_END, b'"}')],
    Reason.TOO_DEEP: [altered(AT_END, b'","n":' + b"[" * 400 + b"]" * 400 + b"}}")],
    Reason.DUPLICATE_KEY: [altered(AT_END, b'"},"id":"other"}')],
    Reason.OVERSIZED: [altered(data={"extra": {str(n): "x" * 900 for n in range(40)}})],
    Reason.NOT_AN_EVENT: [altered(b'"specversion":"1.0"', b'"specversion":"0.3"')],
    Reason.MISSING_FIELD: [altered(id=None)],
    Reason.WRONG_TYPE: [altered(data={"latency_ms": "soon"})],
    Reason.OUT_OF_RANGE: [altered(data={"latency_ms": -1})],
    Reason.BAD_TIME: [altered(time="yesterday")],
    Reason.TENANT_MISSING: [altered(tenantid="null")],
    Reason.KEY_MISMATCH: [altered()._replace(key=b"acme/other")],
    Reason.BAD_NUMBER: [altered(AT_END, b'","n":NaN}}')],
    Reason.DUPLICATE: [altered(id="base:2:model.responded", sequence=2)],
    Reason.SEQUENCE_CONFLICT: [altered(sequence=2)],
    Reason.FORGED_TICK: [altered(type="trajlake.tick", data=dict.fromkeys(
        ("close_idle_after_us", "release_held_after_us", "forget_closed_after_us"), 0))],
    Reason.FORGED_REFERENCE: [altered(data={"extra": {"ref": f"{PAYLOAD_MARKER}{'0' * 64}:12"}})],
    Reason.REDACTION_FAILED: [altered(data={"extra": deep("ghp_" + "a1B2c3D4e5F6" * 3)})],
    Reason.ROW_RULE: [altered(data={"extra": {"said": "a forbidden word"}})],
    Reason.TENANT_MISMATCH: [altered(data={"tenant_id": "other"})],
    Reason.OTHER_ZONE: [event("run.started", RUN, 1, STARTED, tenant="far")],
    Reason.NOT_ISOLATED: [event("run.started", RUN, 1, STARTED, tenant="alone")],
    Reason.ERASED: [event("run.started", RUN, 1, STARTED), altered(b'"specversion":"1.0"', b'"specversion":"0.3"',
        runid=RUN)._replace(key=f"acme/{RUN}".encode())],
    Reason.OTHER_RULES: [altered(type="trajlake.reclassify", data={
        "classifier_revision": MARK, "first_offset": 0, "offset": 0, "revision": 0, "seen": 0})],
}  # fmt: skip
ADDED = {Reason.DUPLICATE, Reason.SEQUENCE_CONFLICT, Reason.FORGED_TICK, Reason.OTHER_ZONE, Reason.NOT_ISOLATED}
ADDED |= {Reason.ERASED, Reason.OTHER_RULES}
"""The record comes beside a run that is whole without it."""


@pytest.mark.parametrize("reason", Reason, ids=str)
def test_nothing_of_a_record_that_was_refused_is_in_the_training_zone(tmp_path: Path, reason: Reason) -> None:
    lab = Lab(tmp_path / "lake")
    rules = LandRules(
        redactor=Redactor(limits=RedactionLimits(max_depth=6)),
        row_rules=compile_gate({"events": never("forbidden", "events", "event")}),
        payload_inline_max_bytes=8_000,
        event_inline_max_bytes=16_000,
        governance=Governance(policies(PLACED), WritePlace(zone="kr")),
    )
    key = b"k" * 32
    digests = {Suppression(key=key).of_run("acme", RUN)} if reason is Reason.ERASED else set()
    lab.land_with(PartitionFold(TOPIC, 0, rules, suppression=Suppression(1, key, frozenset(digests))))
    base = story("base")
    refused = RECORDS[reason]
    assert MARK.encode() in b"".join((one.value or b"") + (one.key or b"") for one in refused)
    lab.land([*base[:3], *refused, *base[3:]] if reason in ADDED else [*base[:2], *refused, *base[3:]])
    lab.land([*story("other"), tick()])
    assert reason.value in {row["reason_code"] for row in lab.rows("quarantine")}
    lab.curate()
    assert "other" in lab.current()
    assert ("base" in lab.current()) == (reason in ADDED)
    assert_nothing_of_it(lab)


# Runs that curation leaves out


def _late_joined(_: Lab) -> list[Sent]:
    return [*marked()[1:], tick(idle_us=0)]


def _without_steps(_: Lab) -> list[Sent]:
    return [marked()[0], event("run.ended", RUN, 2, {"end_state": "failed"})]


def _with_a_hole(_: Lab) -> list[Sent]:
    sent = marked()
    return [sent[0], sent[1], *sent[3:], tick()]


def _evicted(lab: Lab) -> list[Sent]:
    lab.land_with(PartitionFold(TOPIC, 0, LandRules(state_max_bytes=16_000)))
    crowd = [one for n in range(8) for one in story(f"open-{n}", text="y" * 600)[:2]]
    return [*marked()[:3], *crowd]


def _steps_gone(lab: Lab) -> list[Sent]:
    lab.land(marked())
    lab.lake.open("steps").delete(f"run_id = '{RUN}' and step_index = 1")
    return []


def _too_large(lab: Lab) -> list[Sent]:
    lab.limits = Limits(batch_bytes=20_000, run_max_bytes=20_000)
    return story(RUN, text=MARK * 3000, steps=4)


def _row_rule(lab: Lab) -> list[Sent]:
    gate: RowGate = compile_gate({"steps": never(MARK, "steps", "message")})
    lab.land_with(PartitionFold(TOPIC, 0, LandRules(row_rules=gate)))
    return marked()


def _batch_rule(lab: Lab) -> list[Sent]:
    lab.rules = type(lab.rules)(lab.rules.policies, shipped())
    return [*unfinished(24), *[one for n in range(8) for one in story(f"good-{n}")]]


def _rejected(lab: Lab) -> list[Sent]:
    lab.land(_batch_rule(lab))
    [done] = lab.curate()
    list(lab.curator().reject(done.publication, "kim"))
    return []


def _deep_scan(lab: Lab, *, max_chars: int = 10**6) -> list[Sent]:
    def find(text: str) -> list[Found]:
        return [Found("CANARY", place.start(), place.end(), 0.9) for place in re.finditer(MARK, text)]

    asked = policies(OPEN.rstrip() + "\n        deep_scan: hold\n")
    lab.rules = type(lab.rules)(asked, lab.rules.suite, scanner=Scanner(Detector(find, "d1"), max_chars, 60))
    return marked()


def _too_long_to_scan(lab: Lab) -> list[Sent]:
    _deep_scan(lab, max_chars=5_000)
    return [*marked()[:-1], event("run.ended", RUN, len(marked()), {"end_state": "completed", "output": "y " * 5_000})]


EXCLUSIONS: dict[Exclusion, tuple[Callable[[Lab], list[Sent]], str]] = {
    Exclusion.NO_START: (_late_joined, "refused"),
    Exclusion.NO_STEPS: (_without_steps, "refused"),
    Exclusion.EVENTS_MISSING: (_with_a_hole, "refused"),
    Exclusion.EVICTED: (_evicted, "refused"),
    Exclusion.STEPS_MISSING: (_steps_gone, "refused"),
    Exclusion.TOO_LARGE: (_too_large, "refused"),
    Exclusion.ROW_RULE: (_row_rule, "held"),
    Exclusion.BATCH_RULE: (_batch_rule, "held"),
    Exclusion.REJECTED: (_rejected, "refused"),
    Exclusion.DEEP_SCAN: (_deep_scan, "held"),
    Exclusion.SCAN_FAILED: (_too_long_to_scan, "held"),
}


@pytest.mark.parametrize("reason", Exclusion, ids=str)
def test_nothing_of_a_run_that_curation_leaves_out_is_in_the_training_zone(lab: Lab, reason: Exclusion) -> None:
    make, expected = EXCLUSIONS[reason]
    lab.land(make(lab))
    lab.land(story("other"))
    lab.curate()
    for run in {row["run_id"] for row in lab.rows("curation") if MARK in row["run_id"]}:
        verdict, codes = lab.verdicts(run)[-1]
        assert (verdict, reason in codes) == (expected, True)
    if reason in (Exclusion.STEPS_MISSING, Exclusion.TOO_LARGE):
        assert lab.verdicts(RUN) == [(expected, [reason.value])]
    assert "other" in lab.current()
    assert_left_out(lab)


def test_a_run_whose_payload_names_another_tenant_is_no_run(lab: Lab) -> None:
    """`tenant_disagrees` is judged as records land: such a run never comes to be."""
    sent = [
        one._replace(value=(one.value or b"").replace(b'"data":{', b'"data":{"tenant_id":"evil",')) for one in marked()
    ]
    lab.land([*sent, *story("other"), tick()])
    lab.curate()
    codes = {given["code"] for row in lab.rows("policy_decisions") for given in row["reasons"]}
    assert PolicyReason.TENANT_DISAGREES.value in codes
    assert set(lab.current()) == {"other"}
    assert_nothing_of_it(lab)


def test_every_reason_that_governance_can_name_has_a_case() -> None:
    assert POLICY_CASES.keys() | CONSENT_CASES.keys() | {PolicyReason.TENANT_DISAGREES} == set(PolicyReason)
    assert RECORDS.keys() == set(Reason)
    assert EXCLUSIONS.keys() == set(Exclusion)


def test_the_same_run_without_a_fault_gets_in(lab: Lab) -> None:
    """Nothing but their reason keeps the runs above out."""
    lab.land(marked())
    lab.curate()
    assert set(lab.current()) == {RUN}
    assert MARK in lab.trainer_rows()
