"""Terms: the settings that hold for a tenant and skill, each with the rule that it comes from.

The most specific policy that gives a setting wins, setting by setting; `trajlake.expectations.policies` says how
specificity is counted. The defaults lie below all, so every setting has a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from trajlake.expectations.policies import (
    ANYWHERE,
    PURPOSES,
    Annotator,
    Consent,
    ConsentTime,
    Declaration,
    DeepScan,
    FieldAction,
    Isolation,
    Policy,
    PolicySet,
    Purpose,
    RefusedRewards,
    Terms,
    duration_us,
)

T = TypeVar("T")
_SETTINGS: Final = tuple(name for name in Terms.model_fields if name != "fields")


class Setting(NamedTuple, Generic[T]):
    """A setting's value and the rule that gave it: `policy id:setting`."""

    value: T
    rule: str


class PurposeTerms(NamedTuple):
    """All settings of one purpose. `fields`: content field -> action; fields that are kept are left out."""

    allow: Setting[bool]
    declared: Setting[Declaration]
    consent: Setting[Consent]
    consent_given: Setting[ConsentTime]
    licences: Setting[frozenset[str] | None]
    annotators: Setting[tuple[Annotator, ...] | None]
    refused_rewards: Setting[RefusedRewards]
    deep_scan: Setting[DeepScan]
    fields: dict[str, Setting[FieldAction]]


class ScopeTerms(NamedTuple):
    """All settings of one tenant and skill. `zone`: None for anywhere. `retention`: table -> µs, None for forever;
    tables that no policy speaks of are left out, and kept."""

    purposes: dict[Purpose, PurposeTerms]
    zone: Setting[str | None]
    isolation: Setting[Isolation]
    retention: dict[str, Setting[int | None]]
    seal_refused: Setting[bool]


@lru_cache(maxsize=4096)
def terms_for(policies: PolicySet, tenant_id: str, skill: str | None) -> ScopeTerms:
    """The terms of a tenant and skill; `skill` None where the run names none, or is not known yet."""
    layers = [*_by_specificity(policies.policies, tenant_id, skill), policies.defaults]
    zone = _first(layers, "zone")
    retention: dict[str, Setting[int | None]] = {}
    for policy in layers:
        for table, text in policy.retention.items():
            retention.setdefault(table, Setting(duration_us(text), f"{policy.id}:retention.{table}"))
    return ScopeTerms(
        {purpose: _purpose_terms(layers, purpose) for purpose in PURPOSES},
        zone if zone.value != ANYWHERE else Setting(None, zone.rule),
        _first(layers, "isolation"),
        retention,
        _first(layers, "seal_refused"),
    )


def _by_specificity(policies: Iterable[Policy], tenant_id: str, skill: str | None) -> list[Policy]:
    fitting = [
        policy
        for policy in policies
        if policy.tenant in (None, tenant_id) and (policy.skill is None or policy.skill == skill)
    ]
    return sorted(fitting, key=lambda policy: (policy.tenant is None, policy.skill is None))


def _first(layers: list[Policy], name: str) -> Setting[Any]:
    for policy in layers:
        value = getattr(policy, name)
        if value is not None:
            return Setting(value, f"{policy.id}:{name}")
    raise LookupError(f"the defaults give no {name}")


def _purpose_terms(layers: list[Policy], purpose: Purpose) -> PurposeTerms:
    found: dict[str, Setting[Any]] = {}
    fields: dict[str, Setting[FieldAction]] = {}
    for policy in layers:
        terms = policy.purposes.get(purpose)
        if terms is None:
            continue
        for name in _SETTINGS:
            value = getattr(terms, name)
            if value is not None:
                found.setdefault(name, Setting(_listed(value), f"{policy.id}:{purpose}.{name}"))
        for field, action in terms.fields.items():
            fields.setdefault(field, Setting(action, f"{policy.id}:{purpose}.fields.{field}"))
    found["licences"] = _as_set(found["licences"])
    return PurposeTerms(**found, fields={field: action for field, action in fields.items() if action.value != "keep"})


def _listed(value: Any) -> Any:
    """`any` as None, a list as a tuple."""
    if value == ANYWHERE:
        return None
    return tuple(value) if isinstance(value, list) else value


def _as_set(setting: Setting[Any]) -> Setting[Any]:
    return setting if setting.value is None else Setting(frozenset(setting.value), setting.rule)
