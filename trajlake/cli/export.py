"""`trajlake export`: a training set from one version of the training zone, with its manifest."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.exporting.manifest import Manifest
    from trajlake.sinks.lake import Lake


class GroupBy(StrEnum):
    """What makes runs attempts of one group."""

    GROUP = "group"
    TASK = "task"


def register(app: typer.Typer) -> None:
    """Add `export`."""
    app.command("export")(export)


def export(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FORMAT OUT", help="Format, and the folder that is made.", show_default=False),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Condition on columns of trajectories.")
    ] = None,
    at: Annotated[int | None, typer.Option("--at", metavar="VERSION", help="Version of trajectories [newest].")] = None,
    group_by: Annotated[
        GroupBy, typer.Option("--group-by", help="What makes runs attempts of one group.")
    ] = GroupBy.GROUP,
    shard_rows: Annotated[int, typer.Option("--shard-rows", min=1, help="Rows of a data file at most.")] = 100_000,
    from_manifest: Annotated[
        Path | None,
        typer.Option("--from-manifest", metavar="FILE", help="Make the export of a manifest again, in OUT."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Take the place of a folder that is there.")] = False,
    register_it: Annotated[
        bool,
        typer.Option("--register/--no-register", help="Note the manifest in the training zone, so that it is revoked."),
    ] = True,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write published runs as a training set: data files, manifest.json and runs.parquet in a new folder.

    Without arguments it lists the formats. The same version, condition and format give the same bytes. --root may name
    the training zone alone.

    Example: trajlake export trl-sft ./sft --where "outcome_class = 'success'"
    """
    from trajlake.exporting.erased import erasures_seen
    from trajlake.exporting.export import ExportError, Plan, export_again
    from trajlake.exporting.export import export as make
    from trajlake.exporting.manifest import ManifestError, read_manifest
    from trajlake.reading.training import TrainingZone, WhereError, zone_lake
    from trajlake.reading.versions import VersionError

    words = words or []
    if from_manifest is None and not words:
        _list_formats(as_json=as_json)
        return
    if len(words) != (1 if from_manifest is not None else 2):
        fail("give FORMAT and OUT, or --from-manifest FILE and OUT", USAGE)
    out = Path(words[-1])
    lake = zone_lake(root)
    try:
        with progress() as shown:
            fence = erasures_seen(lake)
            if from_manifest is not None:
                manifest = read_manifest(_content(from_manifest))
                made = export_again(
                    lambda version: TrainingZone(lake, version), manifest, out, overwrite=overwrite, progress=shown
                )
            else:
                plan = Plan(words[0], where, group_by.value, shard_rows)
                made = make(TrainingZone(lake, at), plan, out, overwrite=overwrite, progress=shown)
    except (ExportError, WhereError, VersionError) as error:
        fail(str(error), USAGE)
    except ManifestError as error:
        fail(f"{from_manifest} {error}")
    if register_it and from_manifest is None:
        _register(lake, made, out, fence)
    _show(made, out, as_json=as_json)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", USAGE)


def _list_formats(*, as_json: bool) -> None:
    from trajlake.transforms.exporters.registry import FORMATS

    rows = [
        {"format": kind.name, "rows": f"one or more a {kind.unit}", "file": kind.suffix, "for": kind.consumer,
         "what": kind.title}
        for kind in FORMATS.values()
    ]  # fmt: skip
    if as_json:
        print_json(rows, indent=True)
    else:
        print_table(rows, list(rows[0]))


def _register(lake: Lake, made: Manifest, out: Path, fence: int) -> None:
    """Note the export in the training zone, where one may write there. `fence`: the newest erasure before it was made;
    where a newer one took some of its runs, neither the note nor the export stays."""
    from trajlake.exporting.erased import ExportError, refuse_erased
    from trajlake.exporting.manifest import RUNS
    from trajlake.sinks.errors import SinkUnavailable
    from trajlake.sinks.reports import remove_manifest, write_manifest

    try:
        write_manifest(lake, f"{made.manifest_id}.runs.parquet", (out / RUNS).read_bytes())
        write_manifest(lake, f"{made.manifest_id}.json", made.to_json())
        registered = True
    except SinkUnavailable:
        registered = False
        note("not registered, for the training zone cannot be written from here; `manifest check` works all the same")
    try:
        # An erasure that cleared the register before the note stood there did not see it.
        refuse_erased(lake, out, fence)
    except ExportError as error:
        for name in (f"{made.manifest_id}.runs.parquet", f"{made.manifest_id}.json"):
            remove_manifest(lake, name)
        shutil.rmtree(out)
        fail(str(error))
    if registered:
        _revoke_gone(lake, made, out, fence)


def _revoke_gone(lake: Lake, made: Manifest, out: Path, fence: int) -> None:
    """Mark the registered export revoked where runs were taken out since its version: a withdrawal that came before the
    note stood there did not see it."""
    import polars as pl

    from trajlake.exporting.check import check
    from trajlake.exporting.erased import erasures_seen
    from trajlake.exporting.manifest import RUNS
    from trajlake.reading.training import RUN, TrainingZone
    from trajlake.streams.curate.revocation import revoke_manifests

    zone = TrainingZone(lake)
    if zone.version == made.versions["trajectories"]:
        return
    found = check(zone, made, pl.read_parquet(out / RUNS))
    gone = found.withdrawn
    if erasures_seen(lake) == fence:
        # Between two commits of a withdrawal its runs are gone, and nothing says yet by which publication. Who is
        # erased is not named in the register.
        gone = [*gone, *(run | {"publication": None} for run in found.erased)]
    for publication in {run["publication"] for run in gone}:
        names = [{key: run[key] for key in RUN} for run in gone if run["publication"] == publication]
        revoke_manifests(lake, pl.DataFrame(names), publication)
    if gone:
        note(f"{len(gone):,} of its runs were withdrawn since version {made.versions['trajectories']}: it is revoked")


def _show(made: Manifest, out: Path, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(made.to_json())
        return
    size = sum(file.bytes for file in made.files)
    print(f"{made.rows:,} rows of {made.runs:,} runs in {out} ({len(made.files)} files, {size:,} bytes)")
    for title, counts in (
        ("outcomes", made.outcomes), ("groups", made.groups), ("left out", made.left_out),
        ("not published", made.not_published),
    ):  # fmt: skip
        if counts:
            print(f"  {title}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}")
    print(f"  version {made.versions['trajectories']}, manifest {made.manifest_id}, content {made.content_hash[:16]}")
