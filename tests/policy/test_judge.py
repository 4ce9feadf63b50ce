"""The verdict on a run: which rule decides, on what, and that adding a deny rule never lets more through."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.policies import (
    PURPOSES,
    Annotator,
    Deny,
    Policy,
    PolicySet,
    Purpose,
    Terms,
    When,
    default_policies,
    policy_set,
    read_policies,
)
from trajlake.transforms.policy.consents import ConsentRecord, Consents
from trajlake.transforms.policy.facts import RewardFacts, RunFacts
from trajlake.transforms.policy.judge import Verdict, judge_run
from trajlake.transforms.policy.place import WritePlace

OPEN = """\
version: 1
policies:
  - id: acme
    tenant: acme
    zone: eu
    purposes:
      train:
        allow: true
        declared: respected
        licences: [Apache-2.0]
        annotators: [{kind: code}, {kind: model, id: judge, version: "2"}]
deny:
  - id: no-secret
    reason: Secret runs are never trained on.
    purposes: [train]
    when: {classifications: [secret]}
"""
RUN = RunFacts(
    tenant_id="acme", run_id="r1", skill_name="refund", subject_id="s1", license="Apache-2.0", purpose=("train",),
    residency="eu", started_us=100,
)  # fmt: skip
CODE = RewardFacts(reward_id="w1", annotator_kind="code", annotator_id="tests")
SELF = RewardFacts(reward_id="w2", annotator_kind="self")


def grant(state: Any = "granted", made_us: int = 50, purpose: str = "train", **more: Any) -> ConsentRecord:
    given = {"effective_us": made_us, "topic": "t", **more}
    return ConsentRecord(tenant_id="acme", subject_id="s1", purpose=purpose, state=state, made_us=made_us, **given)


def policies(text: str = OPEN) -> PolicySet:
    return policy_set([read_policies("p.yaml", text)])


def judge(text: str = OPEN, *records: ConsentRecord, run: RunFacts = RUN, at_us: int = 1000, **more: Any) -> Verdict:
    more = {"rewards": (CODE,), **more}
    return judge_run(policies(text), run, consents=Consents(records), purpose="train", at_us=at_us, **more)


def codes(verdict: Verdict) -> list[str]:
    assert verdict.allowed is not bool(verdict.reasons)
    return [finding.code.value for finding in verdict.reasons]


def test_a_run_that_meets_all_terms_is_allowed_and_names_the_rules_that_agreed() -> None:
    verdict = judge(OPEN, grant())
    assert verdict.allowed
    assert "acme:train.allow" in verdict.rules
    assert "default:train.consent" in verdict.rules
    assert verdict.consent == grant()
    assert verdict.policy_revision == policies().revision


def test_the_defaults_deny_training_and_nothing_else() -> None:
    run = msgspec.structs.replace(RUN, purpose=None)
    for purpose in PURPOSES:
        verdict = judge_run(default_policies(), run, (), Consents([grant(purpose="evaluate")]), purpose, 1000)
        assert verdict.allowed is (purpose != "train"), purpose


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ((), "consent_absent"),
        ((grant(expires_us=900),), "consent_expired"),
        ((grant(purpose="evaluate"),), "consent_other_purpose"),
        ((grant(), grant("withdrawn", 500, offset=1)), "consent_withdrawn"),
        ((grant(made_us=200),), "consent_after_run"),
    ],
)
def test_g14_without_consent_for_the_purpose_at_the_time_a_run_is_denied(
    records: tuple[ConsentRecord, ...], code: str
) -> None:
    verdict = judge(OPEN, *records)
    assert codes(verdict) == [code]
    assert verdict.rules == (f"default:train.consent{'_given' if code == 'consent_after_run' else ''}",)


@pytest.mark.parametrize(
    "again",
    [
        (grant(expires_us=150), grant(made_us=400, offset=2)),
        (grant(), grant("withdrawn", 150, offset=1), grant(made_us=400, offset=2)),
        (grant(expires_us=150), grant(made_us=160, offset=2)),
    ],
    ids=["expired", "withdrawn", "renewed within the run"],
)
def test_g14_consent_that_ended_while_the_run_went_on_is_not_mended_by_a_later_one(
    again: tuple[ConsentRecord, ...],
) -> None:
    run = msgspec.structs.replace(RUN, ended_us=200)
    verdict = judge(OPEN, *again, run=run)
    assert (codes(verdict), verdict.rules) == (["consent_lapsed"], ("default:train.consent_given",))
    assert verdict.reasons[0].detail.startswith("while the run went on: ")
    text = OPEN.replace("declared: respected", "declared: respected\n        consent_given: any_time")
    assert judge(text, *again, run=run).allowed
    assert judge(OPEN, *again, run=msgspec.structs.replace(RUN, ended_us=150)).allowed
    assert codes(judge(OPEN, *again[:-1], run=run))[0] in ("consent_expired", "consent_withdrawn")


def test_g14_consent_given_after_the_run_counts_where_the_policy_says_so() -> None:
    text = OPEN.replace("declared: respected", "declared: respected\n        consent_given: any_time")
    assert judge(text, grant(made_us=200)).allowed


def test_g14_a_run_without_a_subject_is_denied_where_consent_is_required() -> None:
    run = msgspec.structs.replace(RUN, subject_id=None)
    assert codes(judge(OPEN, grant(), run=run)) == ["subject_unknown"]
    text = OPEN.replace("declared: respected", "consent: if_subject")
    assert judge(text, run=run).allowed
    assert codes(judge(text)) == ["consent_absent"]


def test_g14_how_long_a_verdict_holds_is_told() -> None:
    assert judge(OPEN, grant(expires_us=5000)).holds_until_us == 5000
    assert judge(OPEN, grant(), grant("withdrawn", 60, offset=1, effective_us=3000)).holds_until_us == 3000
    assert judge(OPEN, grant()).holds_until_us is None


@pytest.mark.parametrize(
    ("change", "code", "rule"),
    [
        ({"license": None}, "licence_missing", "acme:train.licences"),
        ({"license": "CC-BY-NC-4.0"}, "licence_not_allowed", "acme:train.licences"),
        ({"purpose": ("audit",)}, "purpose_not_declared", "acme:train.declared"),
        ({"classification": "secret"}, "deny_rule", "no-secret"),
    ],
)
def test_each_term_can_deny_and_is_named(change: dict[str, Any], code: str, rule: str) -> None:
    verdict = judge(OPEN, grant(), run=msgspec.structs.replace(RUN, **change))
    assert codes(verdict) == [code]
    assert verdict.rules == (rule,)


def test_rewards_of_other_graders_deny_the_run_or_are_left_out() -> None:
    judges = [RewardFacts(reward_id=v, annotator_kind="model", annotator_id="judge", annotator_version=v) for v in "12"]
    denied = judge(OPEN, grant(), rewards=(CODE, SELF, *judges))
    assert codes(denied) == ["annotator_not_allowed"]
    text = OPEN.replace("declared: respected", "declared: respected\n        refused_rewards: leave_out")
    allowed = judge(text, grant(), rewards=(CODE, SELF, *judges))
    assert allowed.allowed
    assert allowed.left_out_rewards == ("w2", "1")


def test_g15_a_run_may_only_be_published_in_its_zone() -> None:
    assert judge(OPEN, grant(), place=WritePlace(zone="eu")).allowed
    assert codes(judge(OPEN, grant(), place=WritePlace(zone="kr"))) == ["other_zone", "other_zone"]
    assert codes(judge(OPEN, grant(), place=WritePlace())) == ["other_zone"]


def test_a_dedicated_tenant_may_only_be_published_in_a_root_of_its_own() -> None:
    text = OPEN.replace("zone: eu", "isolation: dedicated")
    assert codes(judge(text, grant(), place=WritePlace())) == ["not_isolated"]
    assert codes(judge(text, grant(), place=WritePlace(tenant_id="globex"))) == ["not_isolated"]
    assert judge(text, grant(), place=WritePlace(tenant_id="acme")).allowed


def test_deny_rules_match_by_what_is_missing_and_by_graders() -> None:
    text = OPEN + "  - {id: unclassified, reason: x, when: {missing: [classification], tenants: [acme]}}\n"
    assert judge(text, grant()).rules == ("unclassified",)
    text = OPEN + "  - {id: no-self, reason: x, when: {annotators: [{kind: code, id: tests}]}}\n"
    assert judge(text, grant()).rules == ("no-self",)
    assert judge(text, grant(), rewards=()).allowed


def test_the_digest_is_of_the_evidence_alone() -> None:
    digest = judge(OPEN, grant()).evidence_digest
    assert judge(OPEN, grant(), at_us=2000).evidence_digest == digest
    assert judge(OPEN.replace("Apache-2.0", "MIT"), grant()).evidence_digest == digest
    assert judge(OPEN, grant(), rewards=(SELF,)).evidence_digest != digest
    assert judge(OPEN).evidence_digest != digest
    both = judge(OPEN, grant(), rewards=(CODE, SELF)).evidence_digest
    assert judge(OPEN, grant(), rewards=(SELF, CODE)).evidence_digest == both


def test_details_hold_nothing_of_the_run() -> None:
    run = msgspec.structs.replace(RUN, license="hunter2", residency="hunter2", purpose=("hunter2",))
    verdict = judge(OPEN, run=run, place=WritePlace(zone="kr"))
    assert len(verdict.reasons) > 3
    assert "hunter2" not in str(verdict.reasons)


# Monotony

some = st.sampled_from
texts = st.none() | some(["a", "b", "secret"])
listed = st.none() | st.lists(some(["a", "b", "secret"]), min_size=1, max_size=2)
graders = st.builds(Annotator, kind=some(["code", "model", "human", "self"]))
whens = st.builds(
    When, tenants=listed, skills=listed, classifications=listed, licences=listed, residencies=listed, subjects=listed,
    annotators=st.none() | st.lists(graders, min_size=1, max_size=2),
    missing=st.none() | st.lists(some(["skill", "licence", "subject"]), min_size=1, max_size=2),
)  # fmt: skip
denials = st.builds(
    Deny, id=st.uuids().map(str), reason=st.just("because"), when=whens,
    purposes=st.none() | st.lists(some(PURPOSES), min_size=1, max_size=3),
)  # fmt: skip
terms = st.builds(
    Terms, allow=some([None, True, False]), declared=some([None, "required", "respected", "ignored"]),
    consent=some([None, "required", "if_subject", "not_needed"]), consent_given=some([None, "before_run", "any_time"]),
    licences=st.none() | st.just("any") | st.lists(some(["a", "b"])), annotators=st.just("any") | st.lists(graders),
    refused_rewards=some([None, "deny_run", "leave_out"]),
)  # fmt: skip
policy_entries = st.builds(
    Policy, id=st.uuids().map(str), tenant=texts, skill=texts, purposes=st.dictionaries(some(PURPOSES), terms),
    zone=some([None, "any", "eu"]), isolation=some([None, "shared", "dedicated"]),
)  # fmt: skip
entries = st.lists(policy_entries, max_size=4, unique_by=lambda policy: (policy.tenant, policy.skill))
runs = st.builds(
    RunFacts, tenant_id=some(["a", "b"]), run_id=st.just("r"), skill_name=texts, license=texts, classification=texts,
    residency=some([None, "eu", "kr"]), subject_id=texts, started_us=st.none() | st.integers(0, 20),
    ended_us=st.none() | st.integers(0, 20),
    purpose=st.none() | st.lists(some(PURPOSES)).map(tuple),
)  # fmt: skip
grades = st.lists(
    st.builds(RewardFacts, reward_id=st.uuids().map(str), annotator_kind=some(["code", "model", "human", "self"])),
    max_size=3,
)
statements = st.lists(
    st.builds(
        ConsentRecord, tenant_id=some(["a", "b"]), subject_id=some(["a", "b"]), purpose=some(PURPOSES),
        state=some(["granted", "granted", "withdrawn"]), made_us=st.integers(0, 20), effective_us=st.integers(0, 20),
        offset=st.integers(0, 99),
    ),
    max_size=6,
)  # fmt: skip
places = st.builds(WritePlace, zone=some([None, "eu", "kr"]), tenant_id=some([None, "a"]), checked=st.booleans())


@settings(max_examples=100, deadline=None)
@given(entries, st.lists(denials, max_size=3), denials, runs, grades, statements, some(PURPOSES), places)
def test_adding_a_deny_rule_never_lets_more_through(
    entries: list[Policy],
    rules: list[Deny],
    one_more: Deny,
    run: RunFacts,
    rewards: list[RewardFacts],
    records: list[ConsentRecord],
    purpose: Purpose,
    place: WritePlace,
) -> None:
    consents = Consents(records)
    fewer, more = (
        judge_run(
            PolicySet(tuple(entries), tuple(deny), default_policies().defaults),
            run, rewards, consents, purpose, 10, place,
        )
        for deny in (rules, [*rules, one_more])
    )  # fmt: skip
    assert fewer.allowed or not more.allowed
    assert set(fewer.reasons) <= set(more.reasons)
    assert set(fewer.left_out_rewards) <= set(more.left_out_rewards)
    assert fewer.field_actions == more.field_actions
    assert fewer.evidence_digest == more.evidence_digest


@settings(max_examples=60, deadline=None)
@given(entries, runs, grades, statements, some(PURPOSES), places, some(["a", "b"]))
def test_a_withdrawal_made_last_never_lets_more_through(
    entries: list[Policy],
    run: RunFacts,
    rewards: list[RewardFacts],
    records: list[ConsentRecord],
    purpose: Purpose,
    place: WritePlace,
    subject: str,
) -> None:
    policies = PolicySet(tuple(entries), (), default_policies().defaults)
    withdrawn = ConsentRecord(
        tenant_id=run.tenant_id, subject_id=subject, purpose=purpose, state="withdrawn", made_us=21, effective_us=0,
        offset=100,
    )  # fmt: skip
    before = judge_run(policies, run, rewards, Consents(records), purpose, 10, place)
    after = judge_run(policies, run, rewards, Consents([*records, withdrawn]), purpose, 10, place)
    assert before.allowed or not after.allowed
