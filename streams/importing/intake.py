"""Files of finished runs in, events out: finds the files, tells their formats, reads them, and publishes what is new.

    files = find_files(paths)
    report = import_files(paths, publish=delivery.publish, known=published.known, tenant="acme")

Memory holds one value of a file, a window of events, and what tells one event id from another; never a whole file,
except where a format is one JSON document.

`publish(key, value)` takes one event: its Kafka key and its bytes. `known(run_ids)` says what has been published
before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trajlake.expectations.events import kafka_key
from trajlake.expectations.progress import SILENT, Progress
from trajlake.streams.importing.sourcefiles import (
    UNREADABLE,
    IntakeError,
    SourceFile,
    find_files,
    read_chunks,
    tolerant,
    why,
)
from trajlake.transforms.importers.detect import UnknownFormat, by_name, detect
from trajlake.transforms.importers.format import Format
from trajlake.transforms.importers.framing import Shape, read_values
from trajlake.transforms.importers.origin import ImportedEvent, ImportProblem, Origin, encode_event
from trajlake.transforms.importers.plan import Known, Planner
from trajlake.transforms.importers.sample import take_sample

WINDOW_EVENTS: Final = 2_000
"""Events of runs not met before that wait until it is known what of them has been published."""

WINDOW_BYTES: Final = 16 * 2**20
EVENT_MAX_BYTES: Final = 60 * 2**20
"""A larger event is reported, not published: no broker of ours takes it, however well it compresses."""

PROBLEMS_KEPT: Final = 1_000
"""Problems of one file that are listed; all are counted."""


@dataclass
class FileReport:
    """What became of one file.

    `failed` problems lost a record, `kept` ones did not; `skipped` says why nothing was read.
    """

    file: str
    format: str | None = None
    runs: int = 0
    events: int = 0
    new: int = 0
    known: int = 0
    failed: int = 0
    kept: int = 0
    skipped: str | None = None
    problems: list[ImportProblem] = field(default_factory=list)

    def add(self, problem: ImportProblem) -> None:
        """Count a problem, and list it while there is room."""
        if problem.kept:
            self.kept += 1
        else:
            self.failed += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)


@dataclass
class ImportReport:
    """What became of all files of an import."""

    files: list[FileReport] = field(default_factory=list)

    def total(self, column: str) -> int:
        """Sum of a number over all files."""
        return sum(getattr(report, column) for report in self.files)

    @property
    def ok(self) -> bool:
        """Whether no record failed, and something could be imported."""
        return self.total("failed") == 0 and any(report.format is not None for report in self.files)


@dataclass
class _Job:
    source: SourceFile
    report: FileReport
    format: Format
    shape: Shape
    origin: Origin
    survey: Any = None
    run_ids: set[str] = field(default_factory=set)


def nothing_known(run_ids: Collection[str]) -> Known:
    """A `known` for where nothing has been published yet."""
    return {}


def import_files(
    paths: Sequence[str | Path],
    *,
    publish: Callable[[bytes, bytes], None],
    known: Callable[[Collection[str]], Known] = nothing_known,
    tenant: str = "default",
    skill: str | None = None,
    format: str = "auto",
    progress: Progress = SILENT,
) -> ImportReport:
    """Import files: publish the events that are new, in the order of each run.

    paths: files and folders. publish: called once per new event with Kafka key and value. known: told run ids, says
    what of them has been published. skill: name for all runs instead of the format's own. format: `auto` or a
    format's name. Raises IntakeError, and whatever `publish` and `known` raise; all else is in the report.
    """
    sources = find_files(paths)
    if not sources:
        raise IntakeError(f"no files in {', '.join(str(path) for path in paths)}")
    try:
        forced = None if format == "auto" else by_name(format)
    except UnknownFormat as error:
        raise IntakeError(str(error)) from None
    report = ImportReport()
    jobs = []
    for source in sources:
        found = FileReport(source.name)
        report.files.append(found)
        job = _open_job(source, found, forced, tenant, skill)
        if job is not None:
            jobs.append(job)
    total_bytes = sum(job.source.size for job in jobs)
    progress.stage("looking through the files", total_bytes, "bytes")
    relations = _relate(jobs, progress)
    intake = _Intake(publish, known)
    progress.stage("importing", total_bytes, "bytes")
    for job in jobs:
        progress.name(f"importing {job.source.name}")
        intake.read(job, relations[job.format.name], progress)
    intake.flush()
    return report


class _Intake:
    """The second reading: events through a window to the publisher."""

    def __init__(self, publish: Callable[[bytes, bytes], None], known: Callable[[Collection[str]], Known]) -> None:
        self._publish = publish
        self._known = known
        self._planner = Planner()
        self._window: list[tuple[_Job, ImportedEvent]] = []
        self._window_bytes = 0

    def read(self, job: _Job, relations: Any, progress: Progress) -> None:
        """Read one file to its end, or to where it cannot be read on."""
        chunks = read_chunks(job.source, progress)
        values = read_values(chunks, job.shape, job.source.name)
        events = job.format.read(values, job.origin, job.survey, relations)
        while True:
            # Only reading the file is guarded: what `publish` raises is the caller's.
            try:
                imported = next(events, None)
            except UNREADABLE as error:
                job.report.add(ImportProblem(job.source.name, "file", f"cannot be read on: {why(error)}"))
                return
            if imported is None:
                return
            if isinstance(imported, ImportProblem):
                job.report.add(imported)
            else:
                self._take(job, imported)

    def _take(self, job: _Job, imported: ImportedEvent) -> None:
        if imported.size > EVENT_MAX_BYTES:
            reason = f"event of {imported.size} bytes; at most {EVENT_MAX_BYTES} can be published"
            job.report.add(ImportProblem(job.source.name, imported.place, reason))
            return
        job.report.events += 1
        job.run_ids.add(imported.event.runid)
        job.report.runs = len(job.run_ids)
        self._window.append((job, imported))
        self._window_bytes += imported.size
        if len(self._window) >= WINDOW_EVENTS or self._window_bytes >= WINDOW_BYTES:
            self.flush()

    def flush(self) -> None:
        """Ask what of the window's runs is known, and publish the rest."""
        window, self._window, self._window_bytes = self._window, [], 0
        unseen = self._planner.unseen(imported.event.runid for _, imported in window)
        if unseen:
            self._planner.learn(unseen, self._known(unseen))
        for job, imported in window:
            placed = self._planner.place(imported)
            if placed is None:
                job.report.known += 1
                continue
            event = placed.event
            self._publish(kafka_key(event.tenantid, event.runid), encode_event(placed))
            job.report.new += 1


def _open_job(
    source: SourceFile, report: FileReport, forced: Format | None, tenant: str, skill: str | None
) -> _Job | None:
    """Tell a file's format. None when it is not to be read; the report then says why."""
    damage: list[BaseException] = []
    chunks = tolerant(read_chunks(source), damage)
    try:
        if forced is None:
            known, sample = detect(chunks)
        else:
            known, sample = forced, take_sample(chunks)
            if not known.fits(sample):
                raise UnknownFormat(f"does not look like {known.title} but like {sample.described()}")
    except UnknownFormat as error:
        report.skipped = f"cannot be read: {why(damage[0])}" if damage else str(error)
        if source.was_named or damage:
            report.add(ImportProblem(source.name, "file", report.skipped))
        return None
    report.format = known.name
    shape = sample.shape
    assert shape in ("lines", "array", "document")
    return _Job(source, report, known, shape, Origin(known.name, source.name, tenant, skill))


def _relate(jobs: Sequence[_Job], progress: Progress) -> dict[str, Any]:
    """The first reading: survey each file, then relate the files of each format to each other."""
    by_format: dict[str, list[_Job]] = {}
    for job in jobs:
        by_format.setdefault(job.format.name, []).append(job)
        # Damage is the second reading's to report; it meets the same end.
        values = read_values(tolerant(read_chunks(job.source, progress), []), job.shape, job.source.name)
        job.survey = job.format.survey(values, job.origin)
    return {name: members[0].format.relate([job.survey for job in members]) for name, members in by_format.items()}
