"""`trajlake manifest`: what an export was made of, and whether it may still be used."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    import polars as pl

    from trajlake.expectations.progress import Progress
    from trajlake.exporting.manifest import Manifest

LISTED = 20
PlaceArgument = Annotated[
    Path, typer.Argument(metavar="EXPORT", help="Folder of an export, or the manifest.json in it.")
]


def register(app: typer.Typer) -> None:
    """Add `manifest` with its actions."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("check", short_help="Say whether an export may still be used.")(check)
    group.command("list", short_help="List the exports that are registered.")(list_registered)
    app.add_typer(group, name="manifest", help="Tell whether an export may still be used.")


def check(
    place: PlaceArgument,
    root: RootOption = None,
    files: Annotated[bool, typer.Option("--files/--no-files", help="Hash the data files too.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Say whether any run of an export has since been withdrawn, erased or superseded, and whether its bytes are whole.

    Exits 1 when one has, or when a file is not what the manifest says.

    Example: trajlake manifest check ./sft --root ./lake
    """
    from trajlake.exporting.check import check as compare
    from trajlake.reading.training import TrainingZone, zone_lake

    folder, manifest, runs = _read(place)
    with progress() as shown:
        shown.stage("comparing with what is published now")
        standing = compare(TrainingZone(zone_lake(root)), manifest, runs)
        changed = _changed(folder, manifest, shown) if files else []
    ok = standing.ok and not changed
    if as_json:
        print_json({"ok": ok, **asdict(standing), "changed_files": changed}, indent=True)
    else:
        print(f"manifest {standing.manifest_id}: {standing.current:,} of {standing.runs:,} runs stand as they stood")
        for name in ("withdrawn", "erased", "superseded"):
            rows = getattr(standing, name)
            for row in rows[:LISTED]:
                why = f" ({', '.join(row['reasons'] or ())})" if name == "withdrawn" else ""
                print(f"  {name}: {row['tenant_id']} {row['run_id']}{why}")
            if len(rows) > LISTED:
                print(f"  {name}: {len(rows) - LISTED:,} more")
        for name in changed:
            print(f"  changed on disk: {name}")
        if not standing.reproducible:
            note("its version is no longer kept, so it cannot be made again")
    if not ok:
        raise SystemExit(1)


def list_registered(root: RootOption = None, as_json: JsonOption = False) -> None:
    """List the exports that are registered in the training zone, and which of them are revoked.

    Example: trajlake manifest list --root ./lake
    """
    from trajlake.exporting.registered import registered
    from trajlake.reading.training import zone_lake

    with progress() as shown:
        rows = registered(zone_lake(root), shown)
    if as_json:
        print_json(rows, indent=True)
    elif rows:
        print_table(rows, list(rows[0]))
    else:
        note("no export is registered")


def _read(place: Path) -> tuple[Path, Manifest, pl.DataFrame]:
    import polars as pl

    from trajlake.exporting.manifest import MANIFEST, RUNS, ManifestError, read_manifest

    folder = place if place.is_dir() else place.parent
    path = place / MANIFEST if place.is_dir() else place
    try:
        manifest = read_manifest(path.read_bytes())
        content = (folder / RUNS).read_bytes()
    except OSError as error:
        fail(f"{error.filename} cannot be read: {error.strerror}", USAGE)
    except ManifestError as error:
        fail(f"{path} {error}", USAGE)
    if hashlib.sha256(content).hexdigest() != manifest.runs_sha256:
        fail(f"{folder / RUNS} is not the one that the manifest was written with", USAGE)
    return folder, manifest, pl.read_parquet(BytesIO(content))


def _changed(folder: Path, manifest: Manifest, shown: Progress) -> list[str]:
    """Data files that are absent or hold other bytes."""
    wrong = []
    shown.stage("hashing the data files", sum(file.bytes for file in manifest.files), "bytes")
    for file in manifest.files:
        digest = hashlib.sha256()
        try:
            with (folder / file.name).open("rb") as content:
                while chunk := content.read(1 << 20):
                    digest.update(chunk)
                    shown.advance(len(chunk))
        except OSError:
            wrong.append(file.name)
            continue
        if digest.hexdigest() != file.sha256:
            wrong.append(file.name)
    return wrong
