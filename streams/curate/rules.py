"""What curation judges by: the policies, the publication suite, and what earlier publications looked like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import polars as pl

from trajlake.expectations.policies import PolicySet
from trajlake.expectations.reasons import Exclusion
from trajlake.expectations.suites.suite import PUBLICATION, Suite, load_suites
from trajlake.sinks.lake import Lake
from trajlake.sinks.reports import read_restricted, write_restricted
from trajlake.streams.checkpoints.checkpoint import run_checkpoint
from trajlake.streams.checkpoints.results import CheckpointReport
from trajlake.streams.deepscan.scanner import Scanner, scanner_for
from trajlake.streams.policies import load_policies, training_place
from trajlake.streams.settings import Settings
from trajlake.transforms.curate.soundness import Reason
from trajlake.transforms.gate.batchframe import Baseline, baseline_of, batch_frame
from trajlake.transforms.policy.place import NOWHERE, WritePlace

_BASELINE: Final = "baseline.json"
_REVISIONS: Final = "revisions.json"
_GROUP: Final = ["tenant_id", "skill_name"]


@dataclass(frozen=True)
class Rules:
    """Policies and suite of one pass, read when it begins. `place`: where the training zone lies, for residency.
    `scanner`: of the deep scan, where a policy asks for one."""

    policies: PolicySet
    suite: Suite
    place: WritePlace = NOWHERE
    scanner: Scanner | None = None

    @property
    def revisions(self) -> list[str]:
        scanned = [] if self.scanner is None else [self.scanner.revision]
        return [self.policies.revision, self.suite.revision, *scanned]

    @classmethod
    def load(cls, settings: Settings) -> Rules:
        """Raises `PolicyError` or `SuiteError`, which say what is wrong and where; `SettingError` where policies ask
        for a deep scan that cannot be done here."""
        folder = Path(settings.suites) if settings.suites else None
        policies = load_policies(settings.policies)
        suite = load_suites(folder)[PUBLICATION]
        return cls(policies, suite, training_place(settings), scanner_for(settings, policies))


@dataclass(frozen=True)
class BatchVerdict:
    """What the checkpoint said. `held`: for each row of the frame, the rules that hold it back."""

    held: list[list[Reason]]
    reports: list[CheckpointReport]

    def as_json(self) -> bytes:
        """For the report beside the publication; holds no value of a row."""
        return orjson.dumps([report.to_dict() for report in self.reports], option=orjson.OPT_INDENT_2)


def check_batch(
    runs: pl.DataFrame, rewards: pl.DataFrame, suite: Suite, baseline: Baseline, excluded: Mapping[str, int], name: str
) -> tuple[BatchVerdict, pl.DataFrame]:
    """Judge the runs that would be published together; a rule that is not met holds them.

    Where the batch as a whole does not pass, each tenant's skills are judged by themselves, so that one that went wrong
    does not hold back the others; where all of them pass alone, or the others together still do not pass, all wait.
    Returns the frame that was judged, too.
    """
    frame = batch_frame(runs, rewards)
    report = run_checkpoint(frame, suite, batch=name, baseline=baseline, excluded=excluded)
    reports = [report]
    held: list[list[Reason]] = [[] for _ in range(frame.height)]
    if not report.blocking:
        return BatchVerdict(held, reports), frame
    blocked = False
    groups = frame.with_row_index("place").partition_by(_GROUP, maintain_order=True)
    for group in groups if len(groups) > 1 else ():
        alone = run_checkpoint(group.drop("place"), suite, batch=f"{name}/{group['place'][0]}", baseline=baseline)
        reports.append(alone)
        for place in group["place"] if alone.blocking else ():
            held[place] = _reasons(alone)
            blocked = True
    if not blocked:
        held = [_reasons(report) for _ in held]
    elif others := [place for place, reasons in enumerate(held) if not reasons]:
        rest = run_checkpoint(frame[others], suite, batch=f"{name}/rest", baseline=baseline, excluded=excluded)
        reports.append(rest)
        for place in others if rest.blocking else ():
            held[place] = _reasons(rest)
    return BatchVerdict(held, reports), frame


def _reasons(report: CheckpointReport) -> list[Reason]:
    return [
        Reason(Exclusion.BATCH_RULE.value, result.rule_id, f"in batch {report.batch}") for result in report.blocking
    ]


class Memory:
    """What curation remembers beside the tables: the baseline after each publication, and the rules by which all runs
    were last judged. Lost, it costs a pass over all verdicts and a baseline that begins anew; nothing else."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._known: tuple[int, Baseline] | None = None

    def before(self, number: int) -> Baseline:
        """The baseline that held when a publication was decided: that of the newest one before it that has one."""
        if self._known is not None and self._known[0] == number - 1:
            return self._known[1]
        for earlier in range(number - 1, max(0, number - 1000), -1):
            if (content := read_restricted(self._lake, earlier, _BASELINE)) is not None:
                return Baseline.from_dict(orjson.loads(content))
        return Baseline()

    def note(self, number: int, published: pl.DataFrame) -> None:
        """Add what a publication let in. The same call again changes nothing."""
        baseline = self.before(number) + baseline_of(published) if published.height else self.before(number)
        write_restricted(self._lake, number, _BASELINE, orjson.dumps(baseline.to_dict()))
        self._known = (number, baseline)

    def revisions(self) -> list[str] | None:
        """Revisions of the policies and of the suite by which all runs were judged; None where none are known."""
        content = read_restricted(self._lake, 0, _REVISIONS)
        return None if content is None else [str(revision) for revision in orjson.loads(content)]

    def note_revisions(self, revisions: list[str]) -> None:
        """Every run has been judged by these."""
        write_restricted(self._lake, 0, _REVISIONS, orjson.dumps(revisions))


def write_checkpoint(lake: Lake, number: int, decided_us: int, verdict: BatchVerdict) -> None:
    """Keep what the checkpoint said of a publication that is about to be decided. The time of the decision is part of
    the name: a publication that was not decided after all leaves nothing under the name of the one that was."""
    write_restricted(lake, number, checkpoint_name(decided_us), verdict.as_json())


def read_checkpoint(lake: Lake, number: int, decided_us: int) -> list[CheckpointReport]:
    """What the checkpoint said of a publication; empty where none was run."""
    stored = orjson.loads(read_restricted(lake, number, checkpoint_name(decided_us)) or b"[]")
    return [CheckpointReport.from_dict(report) for report in stored]


def checkpoint_name(decided_us: int) -> str:
    """Name of the file beside a publication, by when it was decided."""
    return f"checkpoint-{decided_us}.json"
