"""`trajlake import`: publish the events of runs that are already in files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, one_line, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.expectations.progress import Progress
    from trajlake.streams.importing.delivery import Delivery
    from trajlake.streams.importing.intake import ImportReport
    from trajlake.streams.settings import Settings


SHOWN_LINES = 20
"""Problems that a person is shown; --json has them all."""

SHOWN_SKIPPED = 5

SHOWN_FILES = 40
WAIT_TIMEOUT_S = 60.0
BROKER_TIMEOUT_S = 8.0


def register(app: typer.Typer) -> None:
    """Add `import`."""
    app.command("import")(import_runs)


def import_runs(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files, and folders to look through.")],
    format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="auto, tau-bench, atif or claude-code.")
    ] = "auto",
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant that owns the runs.")] = "default",
    skill: Annotated[
        str | None, typer.Option("--skill", help="Skill that ran; without it the format's own name for it.")
    ] = None,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Publish nothing; say what would be.")] = False,
    to_jsonl: Annotated[
        str | None,
        typer.Option("--to-jsonl", metavar="FILE", help="Write the events here instead of to Kafka; - is stdout."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the events have landed in the tables.")] = False,
    wait_timeout_s: Annotated[float, typer.Option("--wait-timeout-s", help="Longest wait.", min=0.0)] = WAIT_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Publish the events of runs that are already in files: tau-bench results, ATIF, Claude Code sessions.

    The format is told by content. What was imported before is not published twice; of a file that grew only the rest
    is. Exits 0 when all records were imported, 1 when some failed, 2 when a path or format does not exist.

    Example: trajlake import runs/ --root ./lake
    """
    from trajlake.expectations.names import unseen_in
    from trajlake.streams.importing.sourcefiles import IntakeError
    from trajlake.streams.settings import load_settings
    from trajlake.transforms.landing.judge import REFUSED_TENANTS

    if not 0 < len(tenant) <= 128 or "/" in tenant or tenant.strip().lower() in REFUSED_TENANTS | {""}:
        fail("--tenant must be 1 to 128 characters without '/', and no placeholder such as 0 or null", USAGE)
    if (problem := unseen_in(tenant)) is not None:
        fail(f"--tenant {problem}", USAGE)
    if skill is not None and not 0 < len(skill) <= 1024:
        fail("--skill must be 1 to 1024 characters", USAGE)
    if wait and (dry_run or to_jsonl):
        fail("--wait waits for published events; --dry-run and --to-jsonl publish none", USAGE)
    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    given: dict[str, Any] = {"tenant": tenant, "skill": skill, "format": format}
    landed = None
    try:
        # In a terminal the events themselves are what is to be seen.
        with progress(quiet=to_jsonl == "-" and sys.stdout.isatty()) as shown:
            if to_jsonl is not None:
                report = _write_lines(paths, to_jsonl, {**given, "progress": shown})
            elif dry_run:
                report = _rehearse(paths, settings, {**given, "progress": shown})
            else:
                report, delivery = _publish(paths, settings, given, shown)
                if wait:
                    landed = _wait(settings, delivery, wait_timeout_s, shown)
    except IntakeError as error:
        fail(str(error), USAGE)
    if landed is False:
        note(f"not landed within {wait_timeout_s:g} s; is `trajlake land` running for {settings.root}?")
    show = None if to_jsonl == "-" else _what(to_jsonl, dry_run)
    _print(report, as_json=as_json and to_jsonl != "-", what=show, landed=landed)
    raise typer.Exit(0 if report.ok and landed is not False else 1)


def _what(to_jsonl: str | None, dry_run: bool) -> str:
    if to_jsonl is not None:
        return f"events written to {to_jsonl}"
    return "events would be published" if dry_run else "events published"


def _publish(
    paths: list[str], settings: Settings, given: dict[str, Any], shown: Progress
) -> tuple[ImportReport, Delivery]:
    from trajlake.sinks.lake import Lake
    from trajlake.streams.importing.delivery import Delivery
    from trajlake.streams.importing.intake import import_files
    from trajlake.streams.importing.published import Published
    from trajlake.streams.importing.sourcefiles import find_files
    from trajlake.streams.topics import ensure_topics

    find_files(paths)
    shown.stage(f"asking Kafka at {settings.bootstrap_servers}")
    ensure_topics(
        settings.bootstrap_servers,
        {settings.events_topic: settings.events_partitions},
        # One line of ours says that no broker answers; the client would say it every second.
        options={**settings.kafka_options, "log_level": 0},
        max_message_bytes=settings.event_max_bytes,
        timeout_s=BROKER_TIMEOUT_S,
    )
    published = Published(Lake(settings.root, settings.storage_options), given["tenant"])
    published.read_tail(settings.kafka(), settings.events_topic, settings.app_id, shown)
    with Delivery(settings.kafka(), settings.events_topic) as delivery:
        report = import_files(paths, publish=delivery.publish, known=published.known, progress=shown, **given)
        shown.stage("waiting until Kafka has them all")
    return report, delivery


def _rehearse(paths: list[str], settings: Settings, given: dict[str, Any]) -> ImportReport:
    """All but publishing. Kafka is not asked, so events that wait there to land count as new."""
    from trajlake.sinks.lake import Lake
    from trajlake.streams.importing.intake import import_files
    from trajlake.streams.importing.published import Published

    published = Published(Lake(settings.root, settings.storage_options), given["tenant"])
    return import_files(paths, publish=_drop, known=published.known, **given)


def _write_lines(paths: list[str], target: str, given: dict[str, Any]) -> ImportReport:
    """All events of the files, one a line, whatever was published before."""
    from trajlake.streams.importing.intake import import_files
    from trajlake.streams.importing.sourcefiles import find_files

    find_files(paths)
    with _target(target) as out:

        def write(key: bytes, value: bytes) -> None:
            out.write(value + b"\n")

        return import_files(paths, publish=write, **given)


@contextmanager
def _target(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with Path(name).open("wb") as out:
        yield out


def _drop(key: bytes, value: bytes) -> None:
    return None


def _wait(settings: Settings, delivery: Delivery, timeout_s: float, shown: Progress) -> bool:
    from trajlake.sinks.lake import Lake
    from trajlake.streams.importing.delivery import wait_until_landed

    lake = Lake(settings.root, settings.storage_options)
    return wait_until_landed(lake, settings.app_id, settings.events_topic, delivery.positions, timeout_s, shown)


def _print(report: ImportReport, *, as_json: bool, what: str | None, landed: bool | None) -> None:
    totals = {name: report.total(name) for name in ("runs", "events", "new", "known", "failed", "kept")}
    if as_json:
        files = [
            {
                "file": found.file,
                "format": found.format,
                **{name: getattr(found, name) for name in totals},
                "skipped": found.skipped,
                "problems": [problem._asdict() for problem in found.problems],
            }
            for found in report.files
        ]
        print_json({"ok": report.ok, "landed": landed, "totals": totals, "files": files})
        return
    read = [found for found in report.files if found.format is not None]
    if what is not None and read:
        _print_files(report)
    for line in (*_capped(_problem_lines(report), SHOWN_LINES), *_capped(_skipped_lines(report), SHOWN_SKIPPED)):
        note(line)
    if what is not None:
        print(f"{totals['new']:,} {what}, {totals['known']:,} known before")
        print(f"runs: {totals['runs']:,}; files: {len(read):,}; records that failed: {totals['failed']:,}")


def _print_files(report: ImportReport) -> None:
    columns = ("file", "format", "runs", "events", "new", "known", "problems")
    rows = [
        (found.file, found.format, found.runs, found.events, found.new, found.known, found.failed + found.kept)
        for found in report.files
        if found.format is not None
    ]
    hidden = 0
    if sys.stdout.isatty() and len(rows) > SHOWN_FILES:
        hidden = len(rows) - SHOWN_FILES
        rows = sorted(rows, key=lambda row: (-row[6], -row[4]))[:SHOWN_FILES]
    print_table(rows, columns)
    if hidden:
        note(f"{hidden:,} more files; --json lists them all")


def _problem_lines(report: ImportReport) -> list[str]:
    """Lost records first, then those that were kept with something left out."""
    problems = [problem for found in report.files for problem in found.problems]
    return [
        one_line(f"{problem.file}: {problem.place}: {problem.reason} [{'kept' if problem.kept else 'left out'}]")
        for problem in sorted(problems, key=lambda problem: problem.kept)
    ]


def _skipped_lines(report: ImportReport) -> list[str]:
    return [
        one_line(f"{found.file}: skipped, {found.skipped}")
        for found in report.files
        if found.skipped is not None and not found.problems
    ]


def _capped(lines: list[str], limit: int) -> list[str]:
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], f"and {len(lines) - limit:,} more such; --json lists them all"]
