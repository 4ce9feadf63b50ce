"""What the rule "promote after two bad runs in a row" would do, so that a team can compare before it trusts.

The rule looks at exit codes alone: a spent quota, a broken tool and a wrong answer are all bad runs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from trajlake.expectations.taxonomy import OutcomeClass

BAD_IN_A_ROW: Final = 2
_SKIPPED: Final = frozenset({OutcomeClass.CANCELLED})


class OldRule(Struct, frozen=True):
    """`would`: promote or keep. `reason`: one sentence."""

    would: str
    reason: str


def bad_in_a_row(recent: Sequence[str]) -> list[str]:
    """Classes of the newest runs back to the last success, newest last; cancelled runs are passed over."""
    row: list[str] = []
    for name in reversed(recent):
        if name == OutcomeClass.SUCCESS:
            break
        if name not in _SKIPPED:
            row.append(name)
    return row[::-1]


def old_rule(recent: Sequence[str], *, tier_above: bool, pinned: bool, known_failures: int | None = None) -> OldRule:
    """What the rule would do now.

    recent: outcome classes in order of end time. known_failures: the team's own count, for a skill without recent runs.
    """
    row = bad_in_a_row(recent)
    count = len(row) if recent else known_failures or 0
    kinds = ", ".join(f"{row.count(name)} {name.replace('_', ' ')}" for name in dict.fromkeys(row))
    told = f"{count} bad run{'' if count == 1 else 's'} in a row{f' ({kinds})' if kinds else ''}"
    if count < BAD_IN_A_ROW:
        return OldRule("keep", told)
    if pinned:
        return OldRule("keep", f"{told}, but the skill is pinned")
    if not tier_above:
        return OldRule("keep", f"{told}, but there is no tier above")
    return OldRule("promote", told)
