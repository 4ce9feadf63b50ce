"""What a person may want to know of policies that are right in form."""

from __future__ import annotations

from trajlake.expectations.policies import PolicySet, When
from trajlake.transforms.policy.terms import terms_for


def advice(policies: PolicySet) -> list[str]:
    """One line for each thing that is allowed and easily not meant."""
    hints = [
        f"deny rule {rule.id} has no condition: it denies {', '.join(rule.purposes or ['everything'])}"
        for rule in policies.deny
        if rule.when == When()
    ]
    for policy in policies.policies:
        scope = terms_for(policies, policy.tenant or "", policy.skill)
        train = scope.purposes["train"]
        if not train.allow.value or policy.purposes.get("train") is None:
            continue
        where = f"policy {policy.id}"
        if train.consent.value == "not_needed":
            hints.append(f"{where}: training needs no consent ({train.consent.rule})")
        if train.licences.value == frozenset():
            hints.append(f"{where}: training is allowed and no licence is ({train.licences.rule}), so no run passes")
        if train.annotators.value == ():
            hints.append(f"{where}: no grader is allowed ({train.annotators.rule}), so no rewarded run passes")
    return hints
