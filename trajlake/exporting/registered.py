"""The exports that are registered in the training zone, and which of them are revoked."""

from __future__ import annotations

from typing import Any

import orjson

from trajlake.expectations.progress import SILENT, Progress
from trajlake.exporting.manifest import read_manifest
from trajlake.sinks import reports
from trajlake.sinks.lake import Lake
from trajlake.streams.keeping.register import ERASED_SUFFIX, REVOKED_SUFFIX, erased_runs


def registered(lake: Lake, progress: Progress = SILENT) -> list[dict[str, Any]]:
    """Each export in the order of its name: manifest, format, version, runs, and how many of its runs were withdrawn
    (`revoked_runs`) or erased since. progress: counts files of the register."""
    names = sorted(reports.manifest_names(lake))
    rows = []
    progress.stage("reading manifests", len(names), "files")
    for name in names:
        progress.advance()
        if not name.endswith(".json") or name.endswith((REVOKED_SUFFIX, ERASED_SUFFIX)):
            continue
        manifest = read_manifest(reports.read_manifest(lake, name) or b"")
        revoked = reports.read_manifest(lake, manifest.manifest_id + REVOKED_SUFFIX)
        rows.append(
            {
                "manifest": manifest.manifest_id,
                "format": manifest.format,
                "version": manifest.versions["trajectories"],
                "runs": manifest.runs,
                "revoked_runs": len(orjson.loads(revoked)["runs"]) if revoked else 0,
                "erased_runs": erased_runs(lake, manifest.manifest_id),
            }
        )
    return rows
