"""What the land path is configured with: all that a row is a function of, besides the log."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from functools import cached_property

from trajlake.transforms.gate.rowgate import RowGate
from trajlake.transforms.policy.gate import Governance
from trajlake.transforms.redact.denylist import DenyList
from trajlake.transforms.redact.redactor import Redactor


@dataclass(frozen=True)
class LandRules:
    """What the land path is configured with; part of what a row is a function of.

    `redactor` is for one thread; None switches the rule table off, and only denied fields are removed. Sizes in bytes.
    `closed_runs_kept` in runs per partition.
    """

    deny: DenyList = field(default_factory=DenyList)
    redactor: Redactor | None = None
    row_rules: RowGate = field(default_factory=RowGate)
    payload_inline_max_bytes: int = 256 << 10
    event_inline_max_bytes: int = 1 << 20
    closed_runs_kept: int = 20_000
    state_max_bytes: int = 512 << 20
    governance: Governance = field(default_factory=Governance)

    @cached_property
    def revision(self) -> str:
        """Content hash of all rules, then the limits of the fold's memory: `hash/closed_runs_kept/state_max_bytes`.

        It lands with every record that the rules judged. The limits are in the clear, because the ledger's rows are
        folded again under those that held when they landed.
        """
        rules = ((rule.name, getattr(self, rule.name)) for rule in fields(self))
        text = "\n".join(f"{name}={getattr(rule, 'revision', None) or repr(rule)}" for name, rule in rules)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{digest}/{self.closed_runs_kept}/{self.state_max_bytes}"


def memory_limits(revision: str) -> tuple[int, int] | None:
    """`closed_runs_kept` and `state_max_bytes` of the rules of a revision; None where it does not tell them."""
    parts = revision.split("/")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return int(parts[1]), int(parts[2])
