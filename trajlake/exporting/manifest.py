"""The manifest of an export: what it was made from, what is in it and what is not, and the hash of every byte.

It holds no time and no path, so the same export gives the same manifest. The runs of the export lie beside it
(`runs.parquet`), so that it can be told later which of them were withdrawn, even when the version is gone.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

MANIFEST: Final = "manifest.json"
RUNS: Final = "runs.parquet"
FORMAT_VERSION: Final = 1


class ManifestError(ValueError):
    """A manifest cannot be used; the message says why."""


@dataclass(frozen=True)
class DataFileEntry:
    """One file of an export."""

    name: str
    bytes: int
    sha256: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    """See the module. `versions`: of the tables read. `made_with`: programs that wrote the bytes. `left_out`: what has
    no row although it was selected, by reason. `not_published`: runs that never got into the zone, by reason, as its
    publications report them."""

    format: str
    table_id: str
    versions: dict[str, int]
    where: str | None
    group_by: str
    shard_rows: int
    rows: int
    runs_selected: int
    runs: int
    outcomes: dict[str, int]
    left_out: dict[str, int]
    groups: dict[str, int]
    not_published: dict[str, int]
    policy_revisions: list[str]
    consent_revisions: list[str]
    code_revisions: list[str]
    export_revision: str
    made_with: dict[str, str]
    files: list[DataFileEntry] = field(default_factory=list)
    runs_sha256: str = ""
    manifest_version: int = FORMAT_VERSION
    detector_revisions: list[str] = field(default_factory=list)
    """Of the deep scans that its runs passed; not in the file where there were none, as in older manifests."""

    @property
    def content_hash(self) -> str:
        """SHA-256 over names and hashes of the data files, in order."""
        parts = "\n".join(f"{file.sha256}  {file.name}" for file in self.files)
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def manifest_id(self) -> str:
        """First 24 hex digits of the SHA-256 over everything in it."""
        return hashlib.sha256(orjson.dumps(self._stated(), option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]

    def _stated(self) -> dict[str, Any]:
        body = asdict(self)
        if not self.detector_revisions:
            del body["detector_revisions"]
        return body

    def to_json(self) -> bytes:
        """The file's content."""
        body = {"id": self.manifest_id, "content_hash": self.content_hash, **self._stated()}
        return orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_manifest(content: bytes) -> Manifest:
    """A manifest from its file. Raises `ManifestError` for anything else, and for one that was changed by hand."""
    try:
        body: dict[str, Any] = orjson.loads(content)
        stated = body.pop("id"), body.pop("content_hash")
        files = [DataFileEntry(**entry) for entry in body.pop("files")]
        manifest = Manifest(**body, files=files)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"is no manifest of an export: {type(error).__name__}") from None
    if manifest.manifest_version != FORMAT_VERSION:
        raise ManifestError(f"has version {manifest.manifest_version}; this program reads version {FORMAT_VERSION}")
    if stated != (manifest.manifest_id, manifest.content_hash):
        raise ManifestError("was changed: its id is not that of its content")
    return manifest
