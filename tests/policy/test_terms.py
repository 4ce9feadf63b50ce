"""Which policy counts: the most specific one that gives a setting, setting by setting."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.policies import PolicySet, default_policies, policy_set, read_policies
from trajlake.transforms.policy.terms import Setting, terms_for

LAYERS = """\
version: 1
policies:
  - {id: all, purposes: {train: {allow: true, consent: not_needed}}, zone: us, retention: {events: 1y, steps: 1y}}
  - {id: skill, skill: refund, purposes: {train: {consent: if_subject}}, zone: kr, seal_refused: true}
  - {id: tenant, tenant: acme, purposes: {train: {allow: false}}, zone: eu, retention: {steps: 30d}}
  - {id: both, tenant: acme, skill: refund, purposes: {train: {allow: true, fields: {runs.input: drop}}}}
  - {id: other, tenant: globex, zone: any, isolation: dedicated}
"""


def layers(text: str = LAYERS) -> PolicySet:
    return policy_set([read_policies("p.yaml", text)])


def test_each_setting_comes_from_the_most_specific_policy_that_gives_it() -> None:
    both = terms_for(layers(), "acme", "refund")
    train = both.purposes["train"]
    assert train.allow == Setting(True, "both:train.allow")
    assert train.consent == Setting("if_subject", "skill:train.consent")
    assert train.declared == Setting("required", "default:train.declared")
    assert both.zone == Setting("eu", "tenant:zone")
    assert both.seal_refused == Setting(True, "skill:seal_refused")
    assert both.retention["steps"] == Setting(30 * 86_400_000_000, "tenant:retention.steps")
    assert both.retention["events"].rule == "all:retention.events"
    assert train.fields == {"runs.input": Setting("drop", "both:train.fields.runs.input")}


def test_a_tenant_comes_before_a_skill() -> None:
    assert terms_for(layers(), "acme", "other").purposes["train"].allow.value is False
    assert terms_for(layers(), "x", "refund").zone.value == "kr"
    assert terms_for(layers(), "x", None).zone.value == "us"


def test_any_zone_of_a_specific_policy_lifts_the_zone_of_a_general_one() -> None:
    assert terms_for(layers(), "globex", None).zone == Setting(None, "other:zone")


def test_without_policies_the_defaults_hold() -> None:
    scope = terms_for(default_policies(), "acme", "refund")
    assert scope.purposes["train"].allow == Setting(False, "default:train.allow")
    assert scope.zone.value is None
    assert scope.retention == {}
    assert scope.isolation.value == "shared"


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(5)))
def test_the_order_of_policies_means_nothing(order: list[int]) -> None:
    head, lines = LAYERS.splitlines()[:2], LAYERS.splitlines()[2:]
    shuffled = layers("\n".join([*head, *(lines[place] for place in order)]))
    for tenant, skill in (("acme", "refund"), ("acme", None), ("x", "refund"), ("globex", "refund")):
        assert terms_for(shuffled, tenant, skill) == terms_for(layers(), tenant, skill)
