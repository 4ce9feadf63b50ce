"""Manifests of exports that hold runs which were taken out: each gets a note beside it that says which."""

from __future__ import annotations

from io import BytesIO
from typing import Final

import orjson
import polars as pl

from trajlake.sinks.lake import Lake
from trajlake.sinks.reports import manifest_names, read_manifest, write_manifest

_RUNS: Final = ".runs.parquet"
_RUN: Final = ["tenant_id", "run_id"]


def revoke_manifests(lake: Lake, gone: pl.DataFrame, publication: int | None) -> list[str]:
    """Note in every registered manifest which of its runs are gone; returns the ids of those that hold any.

    `gone`: tenant_id and run_id. `publication`: the one that takes them out; None where it is not seen yet. A note only
    grows; the same call again changes nothing.
    """
    revoked = []
    for name in sorted(manifest_names(lake)):
        content = read_manifest(lake, name) if name.endswith(_RUNS) else None
        if content is None:
            continue
        manifest = name.removesuffix(_RUNS)
        hit = pl.read_parquet(BytesIO(content), columns=_RUN).join(gone.select(_RUN).unique(), on=_RUN, how="semi")
        if hit.is_empty():
            continue
        noted = orjson.loads(read_manifest(lake, f"{manifest}.revoked.json") or b'{"runs": []}')["runs"]
        known = {(run["tenant_id"], run["run_id"]) for run in noted}
        noted += [
            {"tenant_id": tenant, "run_id": run, "publication": publication}
            for tenant, run in hit.sort(_RUN).iter_rows()
            if (tenant, run) not in known
        ]
        note = {"manifest": manifest, "runs": noted}
        write_manifest(lake, f"{manifest}.revoked.json", orjson.dumps(note, option=orjson.OPT_INDENT_2))
        revoked.append(manifest)
    return revoked
