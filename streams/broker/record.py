"""What is remembered of a broker beside its data, in `broker.json`."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Record:
    """Pid while the broker is meant to run; ports also after a stop, so that a restart answers where clients look."""

    pid: int | None = None
    port: int = 0
    controller_port: int = 0
    cluster_id: str = ""


def read_record(folder: Path) -> Record:
    """The folder's record; an empty one when there is none, or when it was torn by a crash."""
    try:
        return Record(**json.loads((folder / "broker.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return Record()


def write_record(folder: Path, record: Record) -> None:
    """Replace the folder's record as a whole."""
    fresh = folder / "broker.json.fresh"
    fresh.write_text(json.dumps(asdict(record)))
    fresh.replace(folder / "broker.json")


def new_cluster_id() -> str:
    """A random cluster id: 22 characters of URL-safe Base64, as Kafka's own `Uuid.randomUuid`.

    Like Kafka's, it never starts with a dash: on the storage tool's command line it would be taken for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
