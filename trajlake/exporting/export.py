"""Making an export: select, group, turn into rows, write, and say in the manifest what was done."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version as version_of
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import orjson
import polars as pl
import pyarrow.parquet as pq

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import TRAJECTORIES
from trajlake.exporting.datafiles import ShardWriter
from trajlake.exporting.erased import ExportError as ExportError
from trajlake.exporting.erased import erasures_seen, refuse_erased
from trajlake.exporting.manifest import MANIFEST, RUNS, Manifest, ManifestError
from trajlake.exporting.selection import RunReader, grouped, select_runs
from trajlake.reading.training import TrainingZone
from trajlake.sinks.reports import read_training, training_reports
from trajlake.streams.curate.revision import code_revision
from trajlake.transforms.exporters.format import ExportFormat, LeftOut, Omission, Run, spread
from trajlake.transforms.exporters.registry import FORMATS

GroupBy = Literal["group", "task"]
SHARD_ROWS: Final = 100_000


@dataclass(frozen=True)
class Plan:
    """What to export. `where`: condition in SQL over the columns of `trajectories`; all when None."""

    format: str
    where: str | None = None
    group_by: GroupBy = "group"
    shard_rows: int = SHARD_ROWS


def export(
    zone: TrainingZone,
    plan: Plan,
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress = SILENT,
    accept: Callable[[Manifest], None] = lambda made: None,
) -> Manifest:
    """Make an export of a zone at its version in a new folder, and return its manifest.

    `progress` counts runs. The folder appears when everything is in it. `overwrite`: it may take an export's place.
    `accept`: told the manifest before that; what it raises leaves everything as it was.
    Raises `ExportError`, `WhereError`.
    """
    kind = FORMATS.get(plan.format)
    if kind is None:
        raise ExportError(f"no format named {plan.format!r}; there are {', '.join(FORMATS)}")
    if zone.version < 0:
        raise ExportError(f"nothing is published in {zone.lake.training_uri}; `trajlake curate` publishes")
    shown, out = out, out.resolve()
    if out.exists():
        _refuse_place(out, shown, overwrite=overwrite)
    fence = erasures_seen(zone.lake)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        manifest = _write(zone, plan, kind, partial, progress)
        refuse_erased(zone.lake, partial, fence)
        accept(manifest)
        if out.exists():
            shutil.rmtree(out)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _refuse_place(out: Path, shown: Path, *, overwrite: bool) -> None:
    """Refuse to take the place of what is there, unless it is an export and that is wanted."""
    if not overwrite:
        raise ExportError(f"{shown} is there already; --overwrite takes its place")
    if not all((out / name).is_file() for name in (MANIFEST, RUNS)):
        raise ExportError(f"{shown} is no export, so --overwrite does not take its place; give another folder")
    if Path.cwd().is_relative_to(out):
        raise ExportError(f"{shown} is the folder that this is called in; call from outside")


def _write(zone: TrainingZone, plan: Plan, kind: ExportFormat, folder: Path, progress: Progress) -> Manifest:
    progress.stage("choosing the runs")
    selected = select_runs(zone, plan.where)
    keys = selected if kind.unit == "run" else grouped(selected, plan.group_by)
    left_out: Counter[str] = Counter()
    if kind.unit == "group":
        spawned = int(selected["parent_run_id"].is_not_null().sum())
        left_out[LeftOut.SUB_AGENT.value] += spawned
        left_out[LeftOut.NO_GROUP.value] += len(selected) - spawned - len(keys)
    writer = ShardWriter(folder, kind, plan.shard_rows)
    groups: Counter[str] = Counter()
    used: set[tuple[str, str]] = set()
    done = 0
    progress.stage("writing", len(keys), "runs")
    for rows in RunReader(zone).parts(keys):
        for unit in _units(kind, rows, keys, done):
            _count_group(kind, unit, groups)
            made = list(kind.rows(unit))
            writer.write([row for row in made if not isinstance(row, Omission)])
            for omission in made:
                if isinstance(omission, Omission):
                    left_out[omission.reason.value] += omission.count
            if any(not isinstance(row, Omission) for row in made):
                used.update((run["tenant_id"], run["run_id"]) for run in unit)
        done += len(rows)
        progress.reach(done)
    return _manifest(zone, plan, folder, writer, selected, used, left_out, groups)


def _units(kind: ExportFormat, rows: list[dict[str, Any]], keys: pl.DataFrame, first: int) -> Iterator[Sequence[Run]]:
    """Runs one by one, or by group: rows come in the order of the keys."""
    if kind.unit == "run":
        yield from ([row] for row in rows)
        return
    numbers = keys["group"].slice(first, len(rows)).to_list()
    for _, members in groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
        yield [row for _, row in members]


def _count_group(kind: ExportFormat, unit: Sequence[Run], groups: Counter[str]) -> None:
    if kind.unit == "group":
        rewards = [run["reward"] for run in unit]
        groups["all"] += 1
        groups["single_attempt"] += len(unit) == 1
        groups["without_spread"] += len(unit) > 1 and not spread(rewards)
        groups["with_missing_rewards"] += None in rewards


def _manifest(
    zone: TrainingZone, plan: Plan, folder: Path, writer: ShardWriter, selected: pl.DataFrame,
    used: set[tuple[str, str]], left_out: Counter[str], groups: Counter[str],
) -> Manifest:  # fmt: skip
    files = writer.close()
    names = pl.DataFrame(sorted(used), {"tenant_id": pl.String, "run_id": pl.String}, orient="row")
    runs = selected.join(names, on=["tenant_id", "run_id"], how="semi", maintain_order="left")
    kept = ("tenant_id", "run_id", "publication", "verdict_id", "consent_basis", "policy_revision")
    pq.write_table(runs.select(kept).to_arrow(), folder / RUNS, compression="zstd", version="2.6")
    table = zone.table
    assert table is not None
    manifest = Manifest(
        format=plan.format,
        table_id=str(table.metadata().id),
        versions={TRAJECTORIES.name: zone.version},
        where=plan.where,
        group_by=plan.group_by,
        shard_rows=plan.shard_rows,
        rows=sum(file.rows for file in files),
        runs_selected=len(selected),
        runs=len(runs),
        outcomes=dict(sorted(Counter(runs["outcome_class"].to_list()).items())),
        left_out={reason: count for reason, count in sorted(left_out.items()) if count},
        groups=dict(sorted(groups.items())),
        not_published=_not_published(zone, selected),
        policy_revisions=_distinct(runs, "policy_revision"),
        consent_revisions=_distinct(runs, "consent_basis"),
        code_revisions=_distinct(runs, "code_revision"),
        export_revision=code_revision(),
        made_with={name: version_of(name) for name in ("trajlake", "pyarrow", "orjson")},
        files=files,
        detector_revisions=_distinct(runs, "detector_revision"),
        runs_sha256=hashlib.sha256((folder / RUNS).read_bytes()).hexdigest(),
    )
    (folder / MANIFEST).write_bytes(manifest.to_json())
    return manifest


def _distinct(runs: pl.DataFrame, column: str) -> list[str]:
    return sorted(set(runs[column].drop_nulls().to_list()))


def _not_published(zone: TrainingZone, selected: pl.DataFrame) -> dict[str, int]:
    """Runs that were kept out, by reason, summed over the reports of the publications that the export draws on."""
    found: Counter[str] = Counter()
    last = selected["publication"].max()
    for number in training_reports(zone.lake):
        if last is None or number > last:  # type: ignore[operator]
            continue
        report = orjson.loads(read_training(zone.lake, number, "bias.json") or b"{}")
        for row in report.get("reasons", ()):
            found[row["code"]] += row["runs"]
    return dict(sorted(found.items()))


def export_again(
    zone_at: Callable[[int], TrainingZone],
    manifest: Manifest,
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Manifest:
    """Make an export again from its manifest. `zone_at`: the zone at a version.

    Raises `ManifestError` when the bytes are others than the manifest says: that names what changed in between, and
    leaves what is there as it is.
    """
    zone = zone_at(manifest.versions[TRAJECTORIES.name])
    table = zone.table
    if table is None or str(table.metadata().id) != manifest.table_id:
        raise ManifestError(f"was made from another table than {zone.lake.table_uri(TRAJECTORIES.name)}")
    plan = Plan(manifest.format, manifest.where, _group_by(manifest.group_by), manifest.shard_rows)
    return export(
        zone, plan, out, overwrite=overwrite, progress=progress, accept=lambda made: _refuse_other(made, manifest)
    )


def _refuse_other(made: Manifest, manifest: Manifest) -> None:
    if made.content_hash != manifest.content_hash:
        changed = [
            f"{name}: {before} then, {now} now"
            for name, before, now in (
                ("code", manifest.export_revision, made.export_revision),
                *((n, v, made.made_with.get(n, "none")) for n, v in manifest.made_with.items()),
            )
            if before != now
        ]
        why = "; ".join(changed) or "and neither code nor libraries differ: the table's files were changed"
        raise ManifestError(f"gives other bytes now ({why})")


def _group_by(text: str) -> GroupBy:
    return "task" if text == "task" else "group"
