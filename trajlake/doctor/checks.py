"""All checks, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trajlake.doctor import kafka, program, rules, store, workers
from trajlake.doctor.finding import Finding, Patient, failed

CHECKS: Final[Mapping[str, Callable[[Patient], Finding]]] = {
    "python": program.python,
    "packages": program.packages,
    "java": program.java,
    "variables": program.variables,
    "policies": rules.policies,
    "suites": rules.suites,
    "levers": rules.levers,
    "redaction": rules.redaction,
    "sealing": rules.sealing,
    "dashboard": rules.dashboard,
    "root": store.root,
    "commits": store.commits,
    "disk": store.disk,
    "tables": store.tables,
    "snapshots": store.snapshots,
    "broker": kafka.broker,
    "topics": kafka.topics,
    "changelogs": kafka.changelogs,
    "lag": kafka.lag,
    "outcomes": kafka.outcomes_lag,
    "clock": kafka.clock,
    "land": workers.land,
    "roll": workers.roll,
    "curate": workers.curate,
    "maintain": workers.maintain,
}


def examine(patient: Patient, names: list[str] | None = None) -> Iterator[tuple[str, Finding]]:
    """Make the checks, all or the named ones; one that breaks off is a finding of its own, and the others go on."""
    for name, check in CHECKS.items():
        if names and name not in names:
            continue
        try:
            yield name, check(patient)
        except Exception as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            yield (
                name,
                failed(f"the check broke off: {said}", "look at what it names; `trajlake --debug doctor` shows where"),
            )
