"""`trajlake demo`: the whole flow on this machine, from agents at work to the proof over the tables."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import progress
from trajlake.expectations.progress import SILENT

if TYPE_CHECKING:
    from trajlake.demo.flow import Result
    from trajlake.expectations.progress import Progress
    from trajlake.streams.importing.intake import ImportReport

SHOWN_PROBLEMS = 5
SHOWN_REASONS = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PLAIN_EVERY_S = 2.0
"""How often progress is written where there is no terminal."""


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command("demo")(demo)


def demo(
    runs: Annotated[int, typer.Option("--runs", min=1, max=100_000, help="Runs of scripted agents.")] = 300,
    root: RootOption = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="PATH", help="Import this file or folder of runs too; may be repeated."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Kafka and all workers running.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Land workers.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same tasks and same mistakes.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run the whole flow here: Kafka, agents, tables, statistics, curation, proof. What it starts it stops at the end.

    Scripted agents do real work with real tools (files, SQLite, processes), and fail in real ways; only the model is
    simulated. Kafka is one of its own, beside the lake; no other is touched. On the same --root again it adds runs.

    Exits 0 when everything has landed and is counted, and `verify` finds nothing wrong.

    Example: trajlake demo --runs 100 --root ./lake
    """
    from trajlake.demo.errors import DemoError, Interrupted
    from trajlake.demo.flow import Choices, run_demo
    from trajlake.streams.importing.sourcefiles import IntakeError, find_files
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    paths = imports or []
    try:
        find_files(paths)
    except IntakeError as error:
        fail(str(error), USAGE)
    try:
        with _heard_signals() as check, _shown() as (show, closer):
            result = run_demo(settings, Choices(runs, seed, workers, paths, keep), show, check, closer)
    except Interrupted as stop:
        note(f"trajlake: {stop}; what this demo had started has ended, what has landed stays")
        raise typer.Exit(stop.exit_code) from None
    except DemoError as error:
        fail(str(error))
    if as_json:
        _print_json(result)
    else:
        _print(result, root)
    raise typer.Exit(0 if result.ok else 1)


@contextmanager
def _heard_signals() -> Iterator[Any]:
    """Turn signals into an exception at a place where everything can be stopped in order; yields that place's check."""
    from trajlake.demo.errors import Interrupted

    heard: list[int] = []

    def check() -> None:
        if heard:
            raise Interrupted(heard[0])

    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in SIGNALS}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Progress


@contextmanager
def _shown() -> Iterator[tuple[Progress, Progress]]:
    """Who is told the stages, and who what goes on within them: a line in a terminal, lines of the stages elsewhere,
    for a demo takes a minute."""
    if not sys.stderr.isatty():
        yield _Lines(), SILENT
        return
    with progress() as shown:
        yield shown, shown


class _Lines:
    """Progress for a pipe or a log file: a line a stage, and one every other second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said_at = 0.0
        self._text, self._unit, self._done = "", "", 0
        self._total: int | None = None

    def stage(self, text: str, total: int | None = None, unit: str = "") -> None:
        with self._lock:
            self._text, self._total, self._unit, self._done = text, total, unit, 0
            self._said_at = time.monotonic()
            note(text)

    def name(self, text: str) -> None:
        with self._lock:
            self._text = text

    def advance(self, count: int = 1) -> None:
        with self._lock:
            self._done += count
            self._say()

    def reach(self, done: int, total: int | None = None) -> None:
        with self._lock:
            self._done, self._total = done, self._total if total is None else total
            self._say()

    def _say(self) -> None:
        if self._total is not None and (time.monotonic() - self._said_at >= PLAIN_EVERY_S or self._done == self._total):
            self._said_at = time.monotonic()
            note(f"{self._text.partition(' (')[0]}: {self._done} of {self._total} {self._unit}")


# What a demo came to


def _print_json(result: Result) -> None:
    figures = asdict(result.figures)
    print_json(
        {
            "ok": result.ok,
            "root": result.root,
            "topic": result.topic,
            **{name: value for name, value in figures.items() if name != "example_run"},
            "open_runs": result.open_runs,
            "not_landed": result.not_landed,
            "not_counted": result.not_counted,
            "curated": asdict(result.curated),
            "policies": result.policies,
            "imported": _import_totals(result.imported),
            "verify": asdict(result.report),
            "seconds": round(result.seconds, 1),
        },
        indent=True,
    )


def _print(result: Result, root: str | None) -> None:
    figures = result.figures
    total: Counter[str] = Counter()
    for counts in figures.by_skill.values():
        total.update(counts)
    rows = [_skill_row(skill, counts) for skill, counts in {**figures.by_skill, "all": dict(total)}.items()]
    print_table(rows, ["skill", "runs", "success", "other outcomes"], title=f"runs in {result.root}")
    columns = ["outcome_class", "failure_kind", "failure_basis", "runs"]
    print_table(figures.failures, columns, title="why runs failed, and the rule that says so")
    print(
        f"{figures.events:,} events, {figures.steps:,} steps, {figures.runs:,} runs, {figures.rewards:,} rewards"
        f" in {result.seconds:.0f} s"
    )
    print(f"quarantined: {_listed(figures.quarantine)}")
    print(f"values removed: {_listed(figures.redactions)}")
    _print_import(result.imported)
    _print_curated(result)
    _print_verdict(result)
    _print_next(result, root)


def _skill_row(skill: str, counts: dict[str, int]) -> tuple[str, int, int, str]:
    others = {outcome: count for outcome, count in counts.items() if outcome != "success"}
    most_first = dict(sorted(others.items(), key=lambda item: (-item[1], item[0])))
    return skill, sum(counts.values()), counts.get("success", 0), _listed(most_first)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"


def _import_totals(report: ImportReport | None) -> dict[str, int] | None:
    names = ("runs", "events", "new", "known", "failed", "kept")
    return None if report is None else {name: report.total(name) for name in names}


def _print_import(report: ImportReport | None) -> None:
    totals = _import_totals(report)
    if report is None or totals is None:
        return
    print(f"imported: {totals['runs']:,} runs, {totals['new']:,} new events, {totals['known']:,} known before")
    problems = [problem for found in report.files for problem in found.problems if not problem.kept]
    for problem in problems[:SHOWN_PROBLEMS]:
        note(f"{problem.file}: {problem.place}: {problem.reason} [left out]")
    if totals["failed"] > SHOWN_PROBLEMS:
        note(f"{totals['failed']:,} records in all were left out; `trajlake import --dry-run` lists them")


def _print_curated(result: Result) -> None:
    figures, curated = result.figures, result.curated
    decisions = "1 decision" if figures.decisions == 1 else f"{figures.decisions:,} decisions"
    print(f"statistics: {figures.skills:,} skills counted, {decisions} on levers")
    others = {name: count for name in ("held", "refused") if (count := getattr(curated, name))}
    why = f" ({_listed(dict(list(curated.reasons.items())[:SHOWN_REASONS]))})" if others else ""
    print(f"curated: {_listed({'published': curated.published, **others})}{why}")


def _print_verdict(result: Result) -> None:
    report = result.report
    if result.open_runs or result.not_landed or result.not_counted:
        print(
            f"not ok: {result.not_landed:,} records have not landed, {result.open_runs:,} runs have not closed,"
            f" statistics of {result.not_counted:,} skills are missing"
        )
    if report.ok:
        print(
            f"verify: ok, every offset is accounted for exactly once, and the tables agree "
            f"({sum(part.landed_offset + 1 for part in report.partitions):,} offsets)"
        )
        return
    print(f"verify: not ok: {_listed(report.problem_counts)}")
    for problem in report.problems[:SHOWN_PROBLEMS]:
        print(f"wrong: {problem['code']}: {problem['table']}: {problem['detail']}")


def _print_next(result: Result, root: str | None) -> None:
    """Where the tables are, and commands that work as they stand."""
    where = f" --root {shlex.quote(root)}" if root is not None else ""
    command = _command()
    print(f"\nEverything is in {result.root}. What to type next:\n")
    for what, words in looks(result):
        # No comment behind the command: not every shell takes one there.
        print(f"{what}\n  {command} {words}{where}")
    print("questions to the tables")
    for sql in queries(result.figures.example_run):
        print(f'  {command} query "{sql}"{where}')
    if not result.goes_on:
        print(f"\nKafka's log of the demo is in {result.broker_folder}; the next demo on this lake goes on from it.")
        return
    pids = " ".join(map(str, result.pids))
    print(f"\nKafka runs at {result.servers}, the workers under pids {pids}. Publish to them:\n")
    print(f"  export TRAJLAKE_BOOTSTRAP_SERVERS={result.servers} TRAJLAKE_EVENTS_TOPIC={result.topic}")
    print("\nRuns that are silent for 6 s end as abandoned here. Stop them:\n")
    print(f"  kill {pids}")
    print(f"  {command} broker stop --data {shlex.quote(str(result.broker_folder))}")


def looks(result: Result) -> list[tuple[str, str]]:
    """What each command shows, and the command: those that a first look is made of, in order."""
    run, published = result.figures.example_run, result.curated.published
    export = "export trl-sft ./demo-sft --where \"outcome_class = 'success'\""
    found = [
        ("which skills need attention, and why", "attention"),
        ("the same in a browser, and more", "dashboard"),
        ("closed runs with outcome and verdict", "runs"),
        ("a run that failed, step by step", f"show {run}" if run else None),
        ("a training set of what was published", export if published else None),
        ("tables, versions and rows", "tables"),
        ("the proof, once more", "verify"),
    ]
    return [(what, words) for what, words in found if words is not None]


def _command() -> str:
    """How this program was called, where its plain name would not be found."""
    called = Path(sys.argv[0])
    if called.name == "trajlake" and shutil.which("trajlake") is None:
        return shlex.quote(os.path.relpath(called))
    return "trajlake"


def queries(example_run: str | None) -> list[str]:
    """Questions to the tables that are worth a look."""
    found = [
        "SELECT skill_name, skill_version, model_tier, count(*) AS runs,"
        " round(avg((outcome_class = 'success')::int), 2) AS success FROM current_runs"
        " WHERE outcome_class IN ('success', 'quality_failure', 'agent_action') GROUP BY ALL ORDER BY ALL",
        "SELECT reason_code, stage, detail, event_type, run_id FROM quarantine",
    ]
    if example_run is not None:
        found.append(
            "SELECT step_index, message, tool_calls[1].function_name AS tool, observations[1].content AS saw"
            f" FROM current_steps WHERE run_id = '{example_run}' ORDER BY step_index"
        )
    return found
