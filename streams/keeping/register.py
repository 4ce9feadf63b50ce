"""The register of exports after an erasure: it names nobody who was erased, and says how much of each export is gone.

    <id>.runs.parquet    runs of an export, without those that were erased
    <id>.erased.json     how many these are; the export's own `runs.parquet` tells which, for it has them still
    <id>.revoked.json    runs that were withdrawn, likewise without the erased
    <id>.json            the manifest; it goes where its condition names somebody erased

Copies of an export are out of reach. Their holder learns by `trajlake manifest check` that they must not be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO
from typing import Any, Final

import orjson
import polars as pl

from trajlake.sinks.lake import Lake
from trajlake.sinks.reports import manifest_names, read_manifest, remove_manifest, write_manifest
from trajlake.transforms.landing.suppression import Suppression

RUNS_SUFFIX: Final = ".runs.parquet"
ERASED_SUFFIX: Final = ".erased.json"
REVOKED_SUFFIX: Final = ".revoked.json"
_RUN: Final = ("tenant_id", "run_id")
_QUOTED: Final = re.compile(r"'((?:[^']|'')*)'")


def clear_register(lake: Lake, suppression: Suppression) -> int:
    """Take erased runs out of the register and note what went. Returns how many exports hold any.

    The same call again changes nothing. Raises `SinkUnavailable`.
    """
    hit = 0
    for name in sorted(manifest_names(lake)):
        if name.endswith(RUNS_SUFFIX):
            hit += _clear(lake, name.removesuffix(RUNS_SUFFIX), suppression)
    return hit


def erased_runs(lake: Lake, manifest: str) -> int:
    """How many runs of a registered export are erased. Raises `SinkUnavailable`."""
    content = read_manifest(lake, manifest + ERASED_SUFFIX)
    return 0 if content is None else int(orjson.loads(content)["runs"])


def _clear(lake: Lake, manifest: str, suppression: Suppression) -> bool:
    content = read_manifest(lake, manifest + RUNS_SUFFIX)
    if content is None:
        return False
    listed = pl.read_parquet(BytesIO(content))
    gone = [suppression.has_run(*run) for run in listed.select(_RUN).iter_rows()]
    if any(gone):
        kept = listed.filter(~pl.Series(gone, dtype=pl.Boolean))
        # The note first: who is stopped in between counts the same runs again, and none is forgotten.
        note = {"manifest": manifest, "runs": _count(lake, manifest, listed, sum(gone)) - len(kept)}
        write_manifest(lake, manifest + ERASED_SUFFIX, orjson.dumps(note, option=orjson.OPT_INDENT_2))
        rewritten = BytesIO()
        kept.write_parquet(rewritten, compression="zstd")
        write_manifest(lake, manifest + RUNS_SUFFIX, rewritten.getvalue())
    _clear_withdrawn(lake, manifest, suppression)
    _clear_condition(lake, manifest, suppression, listed["tenant_id"].unique().to_list())
    return any(gone)


def _count(lake: Lake, manifest: str, listed: pl.DataFrame, gone: int) -> int:
    """Runs that the export was made of: as its manifest says, else those listed and those that went before."""
    content = read_manifest(lake, f"{manifest}.json")
    if content is not None:
        return int(orjson.loads(content)["runs"])
    return max(len(listed) + erased_runs(lake, manifest), gone)


def _clear_withdrawn(lake: Lake, manifest: str, suppression: Suppression) -> None:
    content = read_manifest(lake, manifest + REVOKED_SUFFIX)
    if content is None:
        return
    note: dict[str, Any] = orjson.loads(content)
    kept = [run for run in note["runs"] if not suppression.has_run(run["tenant_id"], run["run_id"])]
    if len(kept) < len(note["runs"]):
        content = orjson.dumps({**note, "runs": kept}, option=orjson.OPT_INDENT_2)
        write_manifest(lake, manifest + REVOKED_SUFFIX, content)


def _clear_condition(lake: Lake, manifest: str, suppression: Suppression, tenants: Iterable[str]) -> None:
    """Take the manifest away whose condition names an erased subject or run, as text in quotes."""
    content = read_manifest(lake, f"{manifest}.json")
    where = None if content is None else orjson.loads(content).get("where")
    words = {word.replace("''", "'") for word in _QUOTED.findall(where or "")}
    if any(
        suppression.has_subject(tenant, word) or suppression.has_run(tenant, word)
        for tenant in tenants for word in words
    ):  # fmt: skip
        remove_manifest(lake, f"{manifest}.json")
