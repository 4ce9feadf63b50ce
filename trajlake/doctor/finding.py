"""What a check says, and what it may look at."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajlake.streams.settings import Settings

if TYPE_CHECKING:
    from trajlake.reading.tables import LakeTables


class Level(StrEnum):
    """ok: nothing to do. warning: works, and somebody should know. failed: something does not work."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One answer of one check. `next_step`: what to do, empty where there is nothing to do."""

    level: Level
    says: str
    next_step: str = ""


def ok(says: str) -> Finding:
    return Finding(Level.OK, says)


def warning(says: str, next_step: str) -> Finding:
    return Finding(Level.WARNING, says, next_step)


def failed(says: str, next_step: str) -> Finding:
    return Finding(Level.FAILED, says, next_step)


def _requirements() -> list[str]:
    try:
        return metadata.requires("trajlake") or []
    except metadata.PackageNotFoundError:
        return []


@dataclass
class Patient:
    """What is examined. Everything that a check asks of the machine is here, so that a test can give another one.

    timeout_s: for one question to Kafka or a health endpoint.
    """

    settings: Settings
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = field(default_factory=platform.python_version)
    requirements: Sequence[str] = field(default_factory=_requirements)
    free_bytes: Callable[[Path], tuple[int, int]] = lambda path: shutil.disk_usage(path)[0::2]
    """Total and free bytes of the disk that holds a path."""
    now: Callable[[], float] = time.time
    timeout_s: float = 5.0

    @property
    def embeds_broker(self) -> bool:
        """Whether nobody named a Kafka, so that the embedded one is meant."""
        return "bootstrap_servers" not in self.settings.model_fields_set

    @cached_property
    def tables(self) -> LakeTables:
        from trajlake.reading.tables import LakeTables

        return LakeTables(self.settings.lake())

    @cached_property
    def kafka(self) -> Kafka:
        return Kafka.ask(self.settings, self.timeout_s)


@dataclass(frozen=True)
class Kafka:
    """What the brokers say of themselves. `problem`: why they do not answer. topics: name -> partitions."""

    problem: str | None
    brokers: int = 0
    topics: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def ask(cls, settings: Settings, timeout_s: float) -> Kafka:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        said: list[str] = []
        options: dict[str, Any] = settings.kafka(log_level=0)
        # What the client tries in the background (a wrong password, a certificate) is told to this callback alone.
        options["error_cb"] = lambda error: said.append(error.str())
        try:
            found = AdminClient(options).list_topics(timeout=timeout_s)
        except (KafkaException, ValueError) as error:
            why = said[-1] if said else error.args[0].str() if isinstance(error, KafkaException) else str(error)
            return cls(why)
        return cls(None, len(found.brokers), {name: len(topic.partitions) for name, topic in found.topics.items()})
