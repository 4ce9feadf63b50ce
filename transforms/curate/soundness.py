"""Whether a run is whole: what the tables themselves say against publishing it, whatever the policies allow.

An end that was inferred, a tool that never answered, a result that nobody asked for: those are what happened, they stay
on the row, and dropping them would teach that agents never hang. What keeps a run out is that something that did happen
is not in it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trajlake.expectations.reasons import Exclusion, Gap

_OF_GAP: Final = {
    Gap.MISSING_SEQUENCE.value: Exclusion.EVENTS_MISSING,
    Gap.MISSING_MODEL_RESPONSE.value: Exclusion.EVENTS_MISSING,
    Gap.EVICTED.value: Exclusion.EVICTED,
}


class Reason(NamedTuple):
    """Why a run is not published: a code, the rule that says so, and where. No content of the run."""

    code: str
    rule: str | None = None
    detail: str | None = None


def unsound(runs: pa.Table, found_steps: np.ndarray) -> list[list[Reason]]:
    """Reasons by run; empty where it is whole. `found_steps`: rows of `steps` that each run was joined with."""
    reasons: list[list[Reason]] = [[] for _ in range(runs.num_rows)]
    counted = runs.column("step_count").to_numpy()
    for place in np.flatnonzero(counted != found_steps).tolist():
        detail = f"{found_steps[place]} of {counted[place]}"
        reasons[place].append(Reason(Exclusion.STEPS_MISSING.value, "sound.steps_missing", detail))
    for place in np.flatnonzero(counted == 0).tolist():
        reasons[place].append(Reason(Exclusion.NO_STEPS.value, "sound.no_steps"))
    started = runs.column("has_start").to_numpy(zero_copy_only=False).astype(bool)
    for place in np.flatnonzero(~started).tolist():
        reasons[place].append(Reason(Exclusion.NO_START.value, "sound.no_start"))
    gaps = runs.column("gaps").combine_chunks()
    if gaps.null_count < len(gaps):
        for place, notes in enumerate(gaps.to_pylist()):
            for note in notes or ():
                code = _OF_GAP.get(note["code"])
                if code is not None and all(known.code != code.value for known in reasons[place]):
                    reasons[place].append(Reason(code.value, f"sound.gap.{note['code']}", note["detail"]))
    return reasons
