"""What becomes of judged runs: what the cause says of them, the checkpoint on their batch, which verdicts are news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import polars as pl
import pyarrow as pa

from trajlake.expectations.reasons import Cause, Exclusion, Publication
from trajlake.expectations.suites.suite import Suite
from trajlake.streams.curate.batch import Loaded
from trajlake.streams.curate.rules import BatchVerdict, Memory, check_batch
from trajlake.streams.curate.scanning import SCAN_CODES
from trajlake.transforms.curate.soundness import Reason
from trajlake.transforms.curate.standing import prior_of, says_the_same, stay_rejected
from trajlake.transforms.curate.verdicts import Judgement

PROGRAM: Final = "curate"
"""Who decided, where nobody else did."""
Before: TypeAlias = list[dict[str, Any] | None]
"""Where each run of a batch stands so far, in the order of its runs."""


@dataclass(frozen=True)
class Task:
    """Runs to be judged for one cause. `prior`: where they stand so far, by run; None where that need not be known."""

    keys: pl.DataFrame
    cause: Cause
    decided_by: str = PROGRAM
    prior: pl.DataFrame | None = None

    def before(self, loaded: Loaded) -> Before:
        """Where each loaded run stands so far; None where it was not judged, or that need not be known."""
        return [None] * loaded.runs.num_rows if self.prior is None else prior_of(self.prior, loaded.runs)


def heed_cause(task: Task, loaded: Loaded, judged: list[Judgement], before: Before) -> None:
    """Add to the judgements what the cause and the size of the batch say of them, and take out what they answer."""
    if loaded.bare:
        own = [r for r in judged[0].reasons if r.code != Exclusion.STEPS_MISSING.value]
        judged[0].reasons = [Reason(Exclusion.TOO_LARGE.value, "curate_run_max_bytes"), *own]
    if task.cause is Cause.RELEASE:
        for one in judged:
            # The operator has looked at what row rules said.
            one.reasons = [reason for reason in one.reasons if reason.code != Exclusion.ROW_RULE.value]
    if task.cause is Cause.REJECT:
        for one in judged:
            one.reasons.append(Reason(Exclusion.REJECTED.value, f"operator:{task.decided_by}"))
            one.held = False
    else:
        stay_rejected(judged, before)


def check(
    task: Task, loaded: Loaded, judged: list[Judgement], before: Before, suite: Suite, memory: Memory, number: int
) -> BatchVerdict | None:
    """The checkpoint on what would be published; those that it holds back get its reasons. None where nothing is."""
    passing = [place for place, one in enumerate(judged) if not one.reasons]
    if task.cause in (Cause.RELEASE, Cause.REJECT):
        return None
    if task.cause is not Cause.NEW:
        # What is published already was let in as part of its own batch.
        live = [stood is not None and bool(stood["live"]) for stood in before]
        passing = [place for place in passing if not live[place]]
    if not passing:
        return None
    excluded: dict[str, int] = {}
    outcomes = loaded.runs.column("outcome_class").to_pylist()
    for place, one in enumerate(judged):
        if one.reasons:
            excluded[outcomes[place]] = excluded.get(outcomes[place], 0) + 1
    runs = pl.DataFrame(pl.from_arrow(loaded.runs.take(pa.array(passing))))
    rewards = pl.DataFrame(pl.from_arrow(loaded.rewards))
    found, _ = check_batch(runs, rewards, suite, memory.before(number), excluded, str(number))
    for place, reasons in zip(passing, found.held, strict=True):
        if reasons:
            judged[place].reasons, judged[place].held = reasons, True
    return found


def news(task: Task, loaded: Loaded, judged: list[Judgement], before: Before) -> tuple[list[int], list[Publication]]:
    """Places of the runs whose verdict is news, and the verdicts: a run that is published and may be so no longer is
    withdrawn."""
    started = loaded.runs.column("has_start").to_pylist()
    kept, verdicts = [], []
    for place, (one, stood) in enumerate(zip(judged, before, strict=True)):
        verdict = _verdict(task.cause, one, stood, started=started[place])
        if stood is None or _is_news(task.cause, one, stood, verdict):
            kept.append(place)
            verdicts.append(verdict)
    return kept, verdicts


def _verdict(cause: Cause, one: Judgement, before: dict[str, Any] | None, *, started: bool) -> Publication:
    if before is None or not before["live"]:
        return one.verdict
    codes = {reason.code for reason in one.reasons}
    # A fragment says nothing of the whole run that was published, and an operator rejects only what waits, and what
    # comes of it.
    rejected = cause is Cause.REJECT or codes == {Exclusion.REJECTED.value}
    if one.verdict is Publication.REFUSED and started and not rejected:
        return Publication.WITHDRAWN
    if cause in (Cause.POLICY, Cause.CONSENT) and SCAN_CODES & codes:
        # It holds what is in the training zone already, which may not wait there.
        return Publication.WITHDRAWN
    return one.verdict


def _is_news(cause: Cause, one: Judgement, before: dict[str, Any], verdict: Publication) -> bool:
    if cause in (Cause.POLICY, Cause.CONSENT):
        waits = before["verdict"] == Publication.HELD.value and verdict is not Publication.REFUSED
        return not ((waits and verdict is not Publication.WITHDRAWN) or says_the_same(before, one, verdict))
    if cause is Cause.REWARD and verdict is not Publication.PUBLISHED:
        return not says_the_same(before, one, verdict)
    return True
