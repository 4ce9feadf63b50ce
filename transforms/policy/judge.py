"""The verdict on a whole run: may it serve a purpose, at a time, by these policies and consents?

    judge_run(policies, facts, rewards, consents, purpose, at_us) -> Verdict

Pure, and monotone: findings are only ever added, and one finding denies. So a deny rule more, a licence less or a
consent withdrawn never lets more through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from trajlake.expectations.policies import Annotator, DeepScan, Deny, FieldAction, PolicySet, Purpose, When
from trajlake.expectations.reasons import PolicyReason
from trajlake.transforms.policy.consents import ConsentFound, ConsentRecord, Consents
from trajlake.transforms.policy.facts import RewardFacts, RunFacts, evidence_digest
from trajlake.transforms.policy.place import NOWHERE, WritePlace, misplaced
from trajlake.transforms.policy.terms import PurposeTerms, terms_for
from trajlake.transforms.policy.verdicts import Decision, Finding

_NO_CONSENTS: Final = Consents()


class Verdict(Struct, frozen=True, kw_only=True):
    """What policy says of a run and a purpose. `at_us`: as of when, µs since the Unix epoch."""

    verdict: Literal["allow", "deny"]
    purpose: Purpose
    at_us: int
    rules: tuple[str, ...]
    """Rules that decided: those of the findings, or all that had to agree. `policy id:setting`, or a deny rule's id."""
    reasons: tuple[Finding, ...]
    """Why it was denied; empty when allowed."""
    evidence_digest: str
    """SHA-256 over facts, rewards, consents and place that were looked at."""
    policy_revision: str
    consent: ConsentRecord | None = None
    """The statement that consent rests on, or that denies it."""
    holds_until_us: int | None = None
    """An allowed run: when consent ends by what is known now. To be judged again then."""
    left_out_rewards: tuple[str, ...] = ()
    """Ids of rewards that may not be used although the run may."""
    field_actions: tuple[tuple[str, FieldAction], ...] = ()
    """Content field -> mask or drop, before the run serves the purpose."""
    deep_scan: DeepScan = "skip"
    """What becomes of an allowed run in which the deep scan before publication finds something."""
    deep_scan_rule: str = ""
    """The rule that says so."""

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"


def judge_run(
    policies: PolicySet,
    facts: RunFacts,
    rewards: Sequence[RewardFacts] = (),
    consents: Consents = _NO_CONSENTS,
    purpose: Purpose = "train",
    at_us: int = 0,
    place: WritePlace = NOWHERE,
) -> Verdict:
    """Judge a run for a purpose.

    `rewards`: those that would be used with it. `consents`: statements known at the time of judgement. `place`: where
    the run would be written, for residency and isolation; left out where nothing is written.
    """
    scope = terms_for(policies, facts.tenant_id, facts.skill_name)
    terms = scope.purposes[purpose]
    consent, at_start = _consents(terms, facts, consents, purpose, at_us)
    lapse = _lapse(terms, facts, consents, purpose)
    refused = [reward for reward in rewards if not _may_grade(terms, reward)]
    findings = (
        *_allowed(terms, facts, purpose),
        *_consented(terms, facts, consent, at_start, lapse),
        *_licensed(terms, facts),
        *_graded(terms, refused),
        *(
            Finding(code, rule, detail)
            for code, rule, detail in misplaced(scope, place, facts.tenant_id, facts.residency)
        ),
        *_denied(policies.deny, facts, rewards, purpose),
    )
    records = tuple(found.record for found in (consent, at_start, lapse) if found is not None)
    granted = consent is not None and consent.status == "granted" and facts.subject_id is not None and not findings
    return Verdict(
        verdict="deny" if findings else "allow",
        purpose=purpose,
        at_us=at_us,
        rules=tuple(dict.fromkeys(finding.rule_id for finding in findings)) or _consulted(terms),
        reasons=findings,
        evidence_digest=evidence_digest(facts, rewards, records, place),
        policy_revision=policies.revision,
        consent=consent.record if consent is not None else None,
        holds_until_us=(
            consents.holds_until(facts.tenant_id, facts.subject_id or "", purpose, at_us) if granted else None
        ),
        left_out_rewards=tuple(reward.reward_id for reward in refused),
        field_actions=tuple((field, action.value) for field, action in sorted(terms.fields.items())),
        deep_scan=terms.deep_scan.value,
        deep_scan_rule=terms.deep_scan.rule,
    )


def decision_of(
    verdict: Verdict,
    facts: RunFacts,
    *,
    stage: str,
    code_version: str,
    place: WritePlace = NOWHERE,
    detector_revision: str | None = None,
) -> Decision:
    """The row of `policy_decisions` that a verdict on a run leaves. `stage`: where it was asked for, for example
    `publish`."""
    return Decision(
        topic=facts.topic,
        partition=facts.partition,
        offset=facts.offset,
        subject_kind="run",
        tenant_id=facts.tenant_id,
        run_id=facts.run_id,
        purpose=verdict.purpose,
        stage=stage,
        zone=place.zone,
        verdict=verdict.verdict,
        rules=verdict.rules,
        reasons=verdict.reasons,
        at_us=verdict.at_us,
        holds_until_us=verdict.holds_until_us,
        input_digest=verdict.evidence_digest,
        policy_revision=verdict.policy_revision,
        detector_revision=detector_revision,
        code_version=code_version,
    )


def _consulted(terms: PurposeTerms) -> tuple[str, ...]:
    """Rules that had to agree before a run was allowed."""
    asked = [terms.allow, terms.declared, terms.consent, terms.licences, terms.annotators]
    rules = [rule for _, rule in asked]
    return (*rules, terms.deep_scan.rule) if terms.deep_scan.value != "skip" else tuple(rules)


# The checks: each yields what it finds


def _allowed(terms: PurposeTerms, facts: RunFacts, purpose: Purpose) -> Iterator[Finding]:
    if not terms.allow.value:
        yield Finding(PolicyReason.PURPOSE_NOT_ALLOWED, terms.allow.rule, f"{purpose} is not allowed")
    declared, rule = terms.declared
    if declared == "ignored" or (facts.purpose is None and declared == "respected"):
        return
    if facts.purpose is None:
        yield Finding(PolicyReason.PURPOSE_NOT_DECLARED, rule, "the run declares no purpose")
    elif purpose not in facts.purpose:
        yield Finding(PolicyReason.PURPOSE_NOT_DECLARED, rule, f"the run does not declare {purpose}")


_CONSENT_CODES: Final = {
    "absent": PolicyReason.CONSENT_ABSENT,
    "other_purpose": PolicyReason.CONSENT_OTHER_PURPOSE,
    "expired": PolicyReason.CONSENT_EXPIRED,
    "withdrawn": PolicyReason.CONSENT_WITHDRAWN,
}


def _consents(
    terms: PurposeTerms, facts: RunFacts, consents: Consents, purpose: Purpose, at_us: int
) -> tuple[ConsentFound | None, ConsentFound | None]:
    """What the subject has said: as of the judgement, and as of the run's start where that counts too."""
    if terms.consent.value == "not_needed" or facts.subject_id is None:
        return None, None
    now = consents.find(facts.tenant_id, facts.subject_id, purpose, at_us)
    if terms.consent_given.value == "any_time" or facts.started_us is None:
        return now, None
    return now, consents.find(facts.tenant_id, facts.subject_id, purpose, facts.started_us)


def _lapse(terms: PurposeTerms, facts: RunFacts, consents: Consents, purpose: Purpose) -> ConsentFound | None:
    """What ended consent while the run went on, where consent has to come before what it is for."""
    if terms.consent.value == "not_needed" or terms.consent_given.value == "any_time" or facts.subject_id is None:
        return None
    if facts.started_us is None or facts.ended_us is None:
        return None
    ended = consents.holds_until(facts.tenant_id, facts.subject_id, purpose, facts.started_us)
    if ended is None or ended >= facts.ended_us:
        return None
    return consents.find(facts.tenant_id, facts.subject_id, purpose, ended)


def _consented(
    terms: PurposeTerms,
    facts: RunFacts,
    consent: ConsentFound | None,
    at_start: ConsentFound | None,
    lapse: ConsentFound | None,
) -> Iterator[Finding]:
    if facts.subject_id is None:
        if terms.consent.value == "required":
            yield Finding(PolicyReason.SUBJECT_UNKNOWN, terms.consent.rule, "consent is required; no subject is named")
        return
    if consent is None:
        return
    if consent.status != "granted":
        yield Finding(_CONSENT_CODES[consent.status], terms.consent.rule, _said(consent))
    elif terms.consent_given.value == "before_run":
        rule = terms.consent_given.rule
        if at_start is None:
            yield Finding(PolicyReason.CONSENT_AFTER_RUN, rule, "when the run started is unknown")
        elif at_start.status != "granted":
            detail = f"at the run's start: {_said(at_start)}"
            yield Finding(PolicyReason.CONSENT_AFTER_RUN, rule, detail)
        elif lapse is not None:
            yield Finding(PolicyReason.CONSENT_LAPSED, rule, f"while the run went on: {_said(lapse)}")


def _said(found: ConsentFound) -> str:
    record = found.record
    if record is None:
        return "the subject has given none" if found.status == "absent" else "the subject spoke of other purposes only"
    return f"{found.status} by {record.topic}/{record.partition} offset {record.offset}"


def _licensed(terms: PurposeTerms, facts: RunFacts) -> Iterator[Finding]:
    licences, rule = terms.licences
    if licences is None or facts.license in licences:
        return
    if facts.license is None:
        yield Finding(PolicyReason.LICENCE_MISSING, rule, "the run states no licence")
    else:
        yield Finding(PolicyReason.LICENCE_NOT_ALLOWED, rule, "the run's licence is not among those allowed")


def _graded(terms: PurposeTerms, refused: list[RewardFacts]) -> Iterator[Finding]:
    if refused and terms.refused_rewards.value == "deny_run":
        kinds = ", ".join(sorted({reward.annotator_kind for reward in refused}))
        detail = f"{len(refused)} rewards of graders that may not be used ({kinds})"
        yield Finding(PolicyReason.ANNOTATOR_NOT_ALLOWED, terms.annotators.rule, detail)


def _may_grade(terms: PurposeTerms, reward: RewardFacts) -> bool:
    allowed = terms.annotators.value
    return allowed is None or any(_fits(annotator, reward) for annotator in allowed)


def _fits(annotator: Annotator, reward: RewardFacts) -> bool:
    return (
        annotator.kind in (None, reward.annotator_kind)
        and annotator.id in (None, reward.annotator_id)
        and annotator.version in (None, reward.annotator_version)
    )


# Deny rules

_STATED: Final = {
    "skill": "skill_name",
    "model": "model_name",
    "classification": "classification",
    "licence": "license",
    "residency": "residency",
    "subject": "subject_id",
    "purpose": "purpose",
}
_COMPARED: Final = {
    "tenants": "tenant_id",
    "skills": "skill_name",
    "skill_versions": "skill_version",
    "agents": "agent_name",
    "models": "model_name",
    "providers": "model_provider",
    "classifications": "classification",
    "licences": "license",
    "residencies": "residency",
    "subjects": "subject_id",
    "outcome_classes": "outcome_class",
}
"""Key of `When` -> fact that it is compared with."""


def _denied(
    rules: Sequence[Deny], facts: RunFacts, rewards: Sequence[RewardFacts], purpose: Purpose
) -> Iterator[Finding]:
    for rule in rules:
        if (rule.purposes is None or purpose in rule.purposes) and _meets(rule.when, facts, rewards):
            yield Finding(PolicyReason.DENY_RULE, rule.id, rule.reason)


def _meets(when: When, facts: RunFacts, rewards: Sequence[RewardFacts]) -> bool:
    for key, fact in _COMPARED.items():
        wanted = getattr(when, key)
        if wanted is not None and getattr(facts, fact) not in wanted:
            return False
    if when.missing is not None and any(getattr(facts, _STATED[name]) is not None for name in when.missing):
        return False
    return when.annotators is None or any(_fits(grader, reward) for grader in when.annotators for reward in rewards)
