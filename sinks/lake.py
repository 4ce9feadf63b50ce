"""Where everything of a lake lies below its one root, and how it is reached.

    <root>/restricted/<table>/            Delta tables of the restricted zone: events, steps, runs, rewards, gaps
    <root>/quarantine/quarantine/         Delta table of what was not let in; its own root, so its own permissions
    <root>/restricted/_payloads/<tenant>/ content by reference, named by its SHA-256
    <root>/quarantine/_payloads/<tenant>/ the same for records that were not let in
    <root>/_state/land/<topic>/<p>/       snapshots of open runs, named by their offset
    <root>/_state/tiers/<tenant>.json     the team's own tier file, as it was imported
    <training root>/<table>/              Delta tables of the training zone: trajectories
    <training root>/_publications/<n>/    what each publication left out, in numbers
    <training root>/_manifests/           manifests of exports, and which of them are revoked
    <root>/_state/forget/key              key of the digests by which erased subjects and runs are recognised

The training root is `<root>/training` unless it is named; it may lie in another store with keys of its own, so that
who reads it reads nothing else. A root is a folder or a URI (`s3://`, `gs://`, `az://`, ...). All writes go through
one object-store client per root that offers put-if-absent, on a local disk (hard link) as on object stores
(conditional put).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from trajlake.expectations.tables import TABLES

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore.store import ObjectStore

_PLAIN_FOLDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PROVIDER = re.compile(r"^(aws|azure|google)_")
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "randomize_addresses",
        "timeout",
        "user_agent",
    }
)
"""Options of the connection, not of the store."""
QUARANTINE_TABLES = frozenset({"quarantine", "quarantine_actions"})
TRAINING_TABLES = frozenset({"trajectories"})


@dataclass(frozen=True)
class Lake:
    """A lake by its root. Opening is free: nothing is read or made until a method says so.

    `root`: local folder or URI. `storage_options`: passed to the object store and to Delta as they are.
    `training_root`, `training_storage_options`: the same for the training zone; where the first is not given, the zone
    is `<root>/training` and takes the root's options, unless it has some of its own.
    """

    root: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    training_root: str = ""
    training_storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @cached_property
    def uri(self) -> str:
        """Root as an absolute path (local) or URI without a trailing slash."""
        return _absolute(self.root)

    @cached_property
    def training_uri(self) -> str:
        """Root of the training zone, likewise."""
        return _absolute(self.training_root) if self.training_root else f"{self.uri}/training"

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    @cached_property
    def store(self) -> ObjectStore:
        """Object-store client rooted at the lake's root."""
        return _client(self.uri, self.storage_options)

    @cached_property
    def training_store(self) -> ObjectStore:
        """Object-store client rooted at the training zone's root."""
        return _client(self.training_uri, self._training_options)

    @property
    def _training_options(self) -> Mapping[str, str]:
        return self.training_storage_options or ({} if self.training_root else self.storage_options)

    def holds_locally(self, name: str) -> bool:
        """Whether a table is in a local folder."""
        return "://" not in self.table_uri(name)

    def store_of(self, name: str) -> ObjectStore:
        """Client of the store that holds a table; `table_path` is the table's path in it."""
        return self.training_store if name in TRAINING_TABLES else self.store

    def options_of(self, name: str) -> dict[str, str]:
        """Storage options for a table."""
        return dict(self._training_options if name in TRAINING_TABLES else self.storage_options)

    def table_path(self, name: str) -> str:
        """Path of a table below its root."""
        if name not in TABLES:
            raise KeyError(f"no table named {name!r}; tables: {', '.join(TABLES)}")
        if name in TRAINING_TABLES:
            return name
        return f"quarantine/{name}" if name in QUARANTINE_TABLES else f"restricted/{name}"

    def log_folder(self, name: str) -> str:
        """Folder of a table's Delta log below its root."""
        return f"{self.table_path(name)}/_delta_log"

    def log_entry_path(self, name: str, version: int) -> str:
        """Path of a version's commit below its root (Delta protocol, "Delta Log Entries")."""
        return f"{self.log_folder(name)}/{version:020d}.json"

    def table_uri(self, name: str) -> str:
        """Absolute path or URI of a table."""
        root = self.training_uri if name in TRAINING_TABLES else self.uri
        return f"{root}/{self.table_path(name)}"

    def exists(self, name: str) -> bool:
        """Whether the table has been made."""
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self.table_uri(name), self.options_of(name))

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a table at its newest or the given version.

        Raises `deltalake.exceptions.TableNotFoundError` when nothing has landed yet.
        """
        from deltalake import DeltaTable

        return DeltaTable(self.table_uri(name), version=version, storage_options=self.options_of(name))

    @staticmethod
    def payload_path(tenant_id: str, sha256: str, *, quarantined: bool = False) -> str:
        """Path below the root of content stored by reference; tenants never share a folder."""
        zone = "quarantine" if quarantined else "restricted"
        return f"{zone}/_payloads/{_folder_of(tenant_id)}/{sha256[:2]}/{sha256}"

    @staticmethod
    def topic_identity_path(topic: str) -> str:
        """Path below the root of the id of the topic that the lake was landed from."""
        return f"_state/land/{quote(topic, safe='')}/topic_id"

    @staticmethod
    def outcome_mark_path(app_id: str, topic: str, partition: int) -> str:
        """Path below the root of the note how far a partition's closed runs have been announced."""
        return f"_state/outcomes/{quote(app_id, safe='')}/{quote(topic, safe='')}/{partition}"

    @staticmethod
    def erasure_key_path() -> str:
        """Path below the root of the key of the erasure ledger's digests."""
        return "_state/forget/key"

    @staticmethod
    def snapshot_folder(topic: str, partition: int) -> str:
        """Folder below the root of a partition's snapshots."""
        return f"_state/land/{quote(topic, safe='')}/{partition}"

    @staticmethod
    def tier_file_path(tenant_id: str) -> str:
        """Path below the root of a tenant's own tier file."""
        return f"_state/tiers/{_folder_of(tenant_id)}.json"


def _absolute(root: str) -> str:
    scheme = urlsplit(root).scheme
    if len(scheme) <= 1:
        return str(Path(root).expanduser().absolute())
    if scheme == "file":
        return unquote(urlsplit(root).path).rstrip("/")
    return root.rstrip("/")


def _client(uri: str, storage_options: Mapping[str, str]) -> ObjectStore:
    from obstore.store import LocalStore, from_url

    if "://" not in uri:
        return LocalStore(uri, mkdir=True)
    options: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for name, value in storage_options.items():
        plain = _PROVIDER.sub("", name.lower())
        # Delta takes both kinds of options in one mapping; this client wants them apart, and panics where they are not.
        (client if plain in _CLIENT_OPTIONS else options)[plain if plain in _CLIENT_OPTIONS else name] = value
    if client:
        options["client_options"] = client
    return from_url(uri, **options)


def transaction_app(app_id: str, topic: str, partition: int) -> str:
    """Delta `txn` application id of one partition: its version is the last offset that has landed."""
    return f"{app_id}/{topic}/{partition}"


def _folder_of(tenant_id: str) -> str:
    """Folder name of a tenant: its id where that is safe and short on every store, else `~` and a digest of it.

    `~` alone is for records whose tenant could not be read; no tenant's own folder can be named so.
    """
    if not tenant_id:
        return "~"
    if _PLAIN_FOLDER.fullmatch(tenant_id):
        return tenant_id
    return f"~{hashlib.sha256(tenant_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
