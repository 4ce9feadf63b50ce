"""The deep scan of the runs of a batch that would be published and whose policy asks for it.

What was looked at by the same detector and did not change since is not looked at again: of a run that gets a late
reward only the reward. An operator who releases a run has seen what the scan said; a rule that releases has not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from trajlake.expectations.reasons import Cause, Exclusion
from trajlake.streams.curate.batch import Loaded
from trajlake.streams.deepscan.scanner import Scanner
from trajlake.transforms.curate.evidence import PublishedTexts, Scan
from trajlake.transforms.curate.soundness import Reason
from trajlake.transforms.curate.verdicts import Judgement

SCAN_CODES: Final = frozenset({Exclusion.DEEP_SCAN.value, Exclusion.SCAN_FAILED.value})
_NOT_LOOKED_AT: Final = -1


def deep_scan(
    scanner: Scanner | None,
    loaded: Loaded,
    judged: list[Judgement],
    prior: list[dict[str, Any] | None],
    cause: Cause,
) -> None:
    """Add what the scan says to the judgements of runs that nothing else keeps out. `prior`: where each run stood."""
    places = [place for place, one in enumerate(judged) if not one.reasons and one.deep_scan != "skip"]
    if not places:
        return
    texts = PublishedTexts(
        loaded.runs, loaded.steps, loaded.rewards, loaded.members, loaded.scores,
        [one.field_actions for one in judged],
    )  # fmt: skip
    offsets = loaded.runs.column("offset").to_numpy()
    for place in places:
        one, before = judged[place], prior[place]
        if scanner is None:
            _note(one, Scan(failure="error: no scanner"))
            continue
        one.detector_revision = scanner.revision
        if before is not None and cause is Cause.RELEASE and one.deep_scan == "hold" and scan_codes(before):
            # The rewards that came while it was held, nobody has seen.
            seen = int(before["reward_offset"])
        else:
            seen = _seen(one, before, int(offsets[place]))
        if seen == _NOT_LOOKED_AT:
            _note(one, scanner.scan(texts.of(place)))
        elif seen < int(loaded.reward_offsets[place]):
            _note(one, scanner.scan(texts.of(place, rewards_after=seen)))


def scan_codes(verdict: Mapping[str, Any] | None) -> set[str]:
    """Codes of the deep scan among the reasons of an earlier verdict."""
    reasons = () if verdict is None else verdict["reasons"] or ()
    return {reason["code"] for reason in reasons} & SCAN_CODES


def _seen(one: Judgement, before: Mapping[str, Any] | None, offset: int) -> int:
    """Offset up to which the run's rewards, and all else of it, were looked at by this detector with nothing found."""
    if before is None or before["detector_revision"] != one.detector_revision or before["offset"] != offset:
        return _NOT_LOOKED_AT
    shown = [(action["field"], action["action"]) for action in before["field_actions"] or ()]
    if scan_codes(before) or shown != [tuple(action) for action in one.field_actions]:
        return _NOT_LOOKED_AT
    return int(before["reward_offset"])


def _note(one: Judgement, scan: Scan) -> None:
    """Turn what a scan came to into reasons and evidence. Of what was found the reason tells kinds and numbers."""
    one.scan_findings = scan.findings
    if scan.findings:
        kinds: Counter[str] = Counter()
        for found in scan.findings:
            kinds[found.entity_type] += found.count
        detail = ", ".join(f"{kind} × {count}" for kind, count in sorted(kinds.items()))
        one.reasons.append(Reason(Exclusion.DEEP_SCAN.value, one.deep_scan_rule, detail))
    if scan.failure is not None:
        one.reasons.append(Reason(Exclusion.SCAN_FAILED.value, one.deep_scan_rule, scan.failure))
    one.held = bool(one.reasons) and one.deep_scan == "hold"
