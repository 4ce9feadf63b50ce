"""The rules that the settings ask for: all of the settings that rows are a function of."""

from __future__ import annotations

from pathlib import Path

from trajlake.expectations.suites.suite import load_suites
from trajlake.streams.policies import governance
from trajlake.streams.redaction import check_redaction, redactor_for
from trajlake.streams.settings import Settings
from trajlake.transforms.gate.rowgate import RowGate, compile_gate
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.redact.denylist import DEFAULT_FIELDS, DenyList


def land_rules(settings: Settings) -> LandRules:
    """The rules of one worker. Raises as `check_rules` does."""
    return LandRules(
        governance=governance(settings),
        deny=DenyList([*DEFAULT_FIELDS, *settings.deny_fields]),
        redactor=redactor_for(settings),
        row_rules=row_gate(settings),
        payload_inline_max_bytes=settings.payload_inline_max_bytes,
        event_inline_max_bytes=settings.event_inline_max_bytes,
        closed_runs_kept=settings.closed_runs_kept,
        state_max_bytes=settings.state_max_bytes,
    )


def check_rules(settings: Settings) -> None:
    """Find what is wrong with the rules before anything is made. The redactor's table, which takes a second to compile,
    is left to the workers.

    Raises `SettingError` where the policies or the actions of redaction cannot be used, `SuiteError` for a quality rule
    that cannot judge rows.
    """
    governance(settings)
    check_redaction(settings)
    row_gate(settings)


def row_gate(settings: Settings) -> RowGate:
    """The quality rules of rows. Raises `SuiteError`."""
    return compile_gate(load_suites(Path(settings.suites) if settings.suites else None))
