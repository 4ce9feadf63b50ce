"""`trajlake verify`: proof from the tables that nothing is lost or doubled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress
from trajlake.cli.tables import NOTHING_THERE, nothing_landed
from trajlake.sinks.errors import SinkUnavailable

if TYPE_CHECKING:
    from trajlake.sinks.integrity import RecordedHead
    from trajlake.streams.settings import Settings
    from trajlake.verification.report import Report

BROKER_TIMEOUT_S = 10.0
SHOWN_PROBLEMS = 20
CANNOT_TELL = 2
"""Exit code where nothing can be proved or refuted."""


def register(app: typer.Typer) -> None:
    """Add `verify`."""
    app.command("verify")(verify)


def verify(
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also hash all content that is stored by reference, and look for it in events."),
    ] = False,
    integrity: Annotated[
        bool, typer.Option("--integrity", help="Also hash the ledger, and compare with what was noted when it landed.")
    ] = False,
    heads: Annotated[
        str | None,
        typer.Option(
            "--heads",
            metavar="PATH",
            help="Compare with heads kept outside the lake: a head file, or a folder or URI of them. "
            "Default: the setting integrity_heads.",
        ),
    ] = None,
    write_heads: Annotated[
        Path | None,
        typer.Option("--write-heads", metavar="FILE", help="When all is well, write a head file to keep elsewhere."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove from the tables alone that every offset is accounted for exactly once, and that all tables agree.

    Exits 0 when all is well, 1 when something is wrong, 2 when nothing can be said. May run while workers land: what is
    on its way is left out. --integrity finds rows of the ledger that were changed, removed or cut off since they landed
    (docs/integrity.md). With --bootstrap-servers, also says how many records have not landed yet.

    Example: trajlake verify --root ./lake
    """
    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import load_settings
    from trajlake.verification.verify import verify as prove

    settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    lake = LakeTables(settings.lake())
    if lake.is_empty():
        fail(nothing_landed(lake.root), NOTHING_THERE)
    integrity = integrity or heads is not None or write_heads is not None
    try:
        kept = _outside_heads(heads or settings.integrity_heads, settings) if integrity else []
        with progress() as shown:
            report = prove(lake, settings.app_id, deep=deep, integrity=integrity, heads=kept, progress=shown)
    except LookupError as error:
        fail(str(error.args[0]))
    except (SinkUnavailable, ValueError) as error:
        fail(str(error), CANNOT_TELL)
    if bootstrap_servers is not None:
        _compare_with_log(report, settings)
    if as_json:
        print_json(asdict(report), indent=True)
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(1)
    if write_heads is not None:
        _write_heads(write_heads, report)


def _outside_heads(place: str, settings: Settings) -> list[RecordedHead]:
    """Heads at a path or URI; none where no place is named. Raises ValueError where there is nothing or no head."""
    from trajlake.sinks.integrity import parse_heads, read_heads
    from trajlake.sinks.lake import Lake

    if not place:
        return []
    folder = Lake(place, settings.storage_options)
    path = Path(folder.uri)
    if folder.is_local and path.is_file():
        return parse_heads(path.read_bytes().splitlines(), f"head file {path}")
    if folder.is_local and not path.is_dir():
        raise ValueError(f"there is no head file or folder of heads at {path}")
    found = read_heads(folder)
    if not found:
        raise ValueError(f"there is no head file in {folder.uri}")
    return found


def _write_heads(path: Path, report: Report) -> None:
    from trajlake.sinks.integrity import head_line

    try:
        path.write_bytes(b"".join(head_line(part.note()) for part in report.integrity or ()))
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")
    note(f"wrote {path}: keep it where those who can write the lake cannot write")


def _compare_with_log(report: Report, settings: Settings) -> None:
    """Add what Kafka holds to the report."""
    from trajlake.reading.lag import measure_lag
    from trajlake.verification.report import add_lags

    landed = {(part.topic, part.partition): part.landed_offset for part in report.partitions}
    lags = measure_lag(settings.kafka(), landed, {settings.events_topic}, BROKER_TIMEOUT_S)
    if lags is None:
        fail(
            f"no broker answers at {settings.bootstrap_servers}; without --bootstrap-servers the tables alone count",
            CANNOT_TELL,
        )
    add_lags(report, {key: (lag.end_offset, lag.records, lag.ahead) for key, lag in lags.items()})


def _show(report: Report) -> None:
    rows = [asdict(part) for part in report.partitions]
    hidden = [name for name in ("end_offset", "lag") if all(row[name] is None for row in rows)]
    if rows:
        print_table(rows, [name for name in rows[0] if name not in hidden], title=f"partitions of {report.root}")
    for gap in report.gaps:
        where = f"{gap.topic}/{gap.partition} offsets {gap.first_offset} to {gap.last_offset}"
        note(f"declared gap: {where} were deleted before they could land")
    for hashed in report.integrity or ():
        erased = f", {hashed.erased:,} erased" if hashed.erased else ""
        where = f"{hashed.topic}/{hashed.partition} at offset {hashed.offset}"
        note(f"head of {where}: {hashed.head} ({hashed.rows:,} rows{erased})")
    if report.integrity and all(hashed.anchored_offset < 0 for hashed in report.integrity):
        note("no head from outside the lake was compared (--heads): who can write all of a lake can write its heads")
    lag = sum(part.lag or 0 for part in report.partitions)
    if lag:
        note(f"{lag:,} records of the log have not landed yet")
    checked = ", ".join(f"{count:,} {name}" for name, count in report.checked.items())
    if report.ok:
        print(
            f"ok: every offset is accounted for exactly once, and the tables agree ({checked}; {report.seconds:.1f} s)"
        )
        return
    for problem in report.problems[:SHOWN_PROBLEMS]:
        print(f"wrong: {problem['code']}: {_place(problem)}: {problem['detail']}")
    total = sum(report.problem_counts.values())
    if total > min(SHOWN_PROBLEMS, len(report.problems)):
        print(f"… {total:,} in all; --json lists more")
    kinds = ", ".join(f"{name} {count:,}" for name, count in report.problem_counts.items())
    print(f"not ok: {kinds} ({checked}; {report.seconds:.1f} s)")


def _place(problem: dict[str, Any]) -> str:
    """`steps agent.audit.v1/2 offset 17 run acme/run-9 step_index 3`."""
    place = dict(problem["place"])
    words = [problem["table"]]
    if "topic" in place:
        words.append(f"{place.pop('topic')}/{place.pop('partition')}")
    if "offset" in place:
        first, last = place.pop("offset"), place.pop("last_offset", None)
        words.append(f"offset {first}" if last in (None, first) else f"offsets {first} to {last}")
    if "run_id" in place:
        words.append(f"run {place.pop('tenant_id', None)}/{place.pop('run_id')}")
    words += [f"{name} {value}" for name, value in place.items() if value is not None]
    return " ".join(words)
