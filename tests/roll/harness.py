"""Rolling workers as processes, and runs told as real events."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import polars as pl
import pytest
from confluent_kafka import Producer

from tests.landkit.events import Sent, event
from tests.landkit.running import plan
from tests.metrics.reading import samples
from trajlake.expectations.outcomes import CLASSES
from trajlake.streams.roll.topics import ensure_roll_topics
from trajlake.streams.settings import load_settings
from trajlake.streams.topics import ensure_topics

REPO = Path(__file__).resolve().parents[2]
START: Final = datetime(2026, 3, 1, 10, tzinfo=UTC)
ENDS: Final[Mapping[str, dict[str, Any]]] = {
    "success": {"end_state": "completed", "success": True},
    "quality_failure": {"end_state": "completed", "success": False, "exit_code": 1},
    "quota": {
        "end_state": "failed", "http_status": 429, "provider_code": "insufficient_quota",
        "error_type": "RateLimitError", "error_message": "You exceeded your current quota", "exit_code": 1,
    },
    "timeout": {"end_state": "timeout"},
    "cancelled": {"end_state": "cancelled"},
}  # fmt: skip


def run_events(
    skill: str,
    name: str,
    ended: datetime,
    outcome: str = "success",
    *,
    tenant: str = "acme",
    tier: str = "cheap",
    provider: str = "north",
    version: str = "1",
    cost: float | None = None,
) -> list[Sent]:
    """One run of two events, or three where it has a price."""
    began = (ended - timedelta(seconds=3)).isoformat()
    model = {"name": f"model-{tier}", "tier": tier, "provider": provider}
    started = {"skill": {"name": skill, "version": version}, "model": model, "task_family": "mail"}
    sent = [event("run.started", name, 1, started, tenant=tenant, time=began)]
    if cost is not None:
        answer = {"message": "done", "cost_usd": cost, "usage": {"input_tokens": 11, "output_tokens": 7}}
        sent.append(event("model.responded", name, 2, answer, tenant=tenant, time=began))
    return [*sent, event("run.ended", name, len(sent) + 1, ENDS[outcome], tenant=tenant, time=ended.isoformat())]


def publish(broker: str, topic: str, events: Iterable[Sent]) -> None:
    """Write events, each run to the partition of its key."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for sent in events:
        producer.produce(topic, sent.value, sent.key)
        producer.poll(0)
    assert producer.flush(30) == 0


def roll_plan(broker: str, root: Path, *, partitions: int = 2, **options: Any) -> dict[str, Any]:
    """Settings of land and roll with topics of their own, which are made."""
    name = uuid.uuid4().hex[:10]
    given = plan(
        broker, f"events-{name}", root, outcomes_topic=f"outcomes-{name}", stats_topic=f"stats-{name}",
        decisions_topic=f"decisions-{name}", roll_id=f"roll-{name}", outcomes_partitions=partitions,
        roll_port=free_ports(1)[0], stats_interval_ms=200, **options,
    )  # fmt: skip
    ensure_topics(broker, {given["events_topic"]: partitions})
    ensure_roll_topics(load_settings(**given))
    return given


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class RollProcess:
    """One rolling worker in a process of its own."""

    def __init__(self, settings: dict[str, Any], port: int | None = None) -> None:
        self.port = port or free_ports(1)[0]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        code = "import json,sys; from trajlake.streams.roll.worker import run_worker; "
        code += f"run_worker(json.loads(sys.argv[1]), {self.port})"
        given = {**settings, "log_format": "json"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(given)], cwd=REPO, stdout=self.log, stderr=self.log
        )

    def __enter__(self) -> RollProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
        if kind is not None:
            sys.stderr.write(self.tail())

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def get(self, path: str) -> Any:
        """The answer of a view; None while there is none."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return json.load(answer)
        except (URLError, OSError, ValueError):
            return None

    def metric(self, name: str, **labels: str) -> float:
        """A sample of `/metrics`; NaN while there is none."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                found = samples(answer.read())
        except (URLError, OSError):
            return float("nan")
        return found.get((name, tuple(sorted(labels.items()))), float("nan"))

    def ready(self) -> bool:
        return self.process.poll() is not None or bool((self.get("/ready") or {}).get("ready"))

    def tail(self) -> str:
        self.log.seek(0)
        return "".join(self.log.readlines()[-40:])


def recount(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Counts of each skill from the table `runs`, by Polars alone: the newest row of each life of a run."""
    files = str(root / "restricted" / "runs" / "*.parquet")
    runs = pl.read_parquet(files, missing_columns="insert")
    newest = runs.sort("revision").unique(["topic", "partition", "first_offset"], keep="last")
    ends = newest.with_columns(end=pl.min_horizontal(pl.col("ended_at").fill_null(pl.col("closed_at")), "closed_at"))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for (tenant, skill), rows in ends.group_by("tenant_id", pl.col("skill_name").fill_null("")):
        ordered = rows.sort("end", "partition", "offset", "run_id")
        streak = 0
        for name in ordered["outcome_class"]:
            if name in ("success", "quality_failure", "agent_action"):
                streak = 0 if name == "success" else streak + 1
        counts = dict(rows["outcome_class"].value_counts().iter_rows())
        found[str(tenant), str(skill)] = {
            "counts": {name: counts[name] for name in CLASSES if counts.get(name)},
            "attempts": int((rows["retry_count"].fill_null(0) + 1).sum()),
            "input_tokens": int(rows["input_tokens"].fill_null(0).sum()),
            "cost_nano_usd": sum(round(cost * 10**9) for cost in rows["cost_usd"].drop_nulls()),
            "streak": streak,
            "recent": ordered["run_id"].to_list()[-30:],
        }
    return found


def exact(workers: Iterable[RollProcess], root: Path, timeout_s: float, what: str) -> None:
    """Wait until the workers' numbers equal a recount of `runs`. Fails with what differs, and where it is held."""
    workers = list(workers)
    deadline = time.monotonic() + timeout_s
    while True:
        wanted, by_worker = recount(root), [counted([worker]) for worker in workers]
        found = {skill: value for held in by_worker for skill, value in held.items()}
        if found == wanted and sum(map(len, by_worker)) == len(wanted):
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    lines = [f"not within {timeout_s:g} s: {what}"]
    for skill in sorted(wanted.keys() | found.keys()):
        holders = [worker.port for worker, held in zip(workers, by_worker, strict=True) if skill in held]
        ours, theirs = found.get(skill, {}), wanted.get(skill, {})
        fields = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if fields or len(holders) != 1:
            told = "; ".join(f"{name}: {ours.get(name)} for {theirs.get(name)}" for name in fields)
            lines.append(f"{'/'.join(skill)} held at {holders}: {told}")
    lines += [f"{worker.port}: {worker.get('/ready')}, exit code {worker.process.poll()}" for worker in workers]
    pytest.fail("\n".join(lines))


def counted(workers: Iterable[RollProcess]) -> dict[tuple[str, str], dict[str, Any]]:
    """The same from the views of rolling workers, for the window of thirty days."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for worker in workers:
        for row in (worker.get("/skills?own=1&window=30d") or {}).get("skills", ()):
            stats = worker.get(f"/skills/{row['tenant']}/{row['skill']}")
            if stats is None:
                continue
            window = next(each for each in stats["windows"] if each["window"] == "30d")
            found[row["tenant"], row["skill"]] = {
                "counts": {name: window["counts"][name] for name in CLASSES if name in window["counts"]},
                "attempts": window.get("attempts", 0),
                "input_tokens": window.get("input_tokens", 0),
                "cost_nano_usd": window.get("cost_nano_usd", 0),
                "streak": stats.get("streak", 0),
                "recent": [run["run_id"] for run in stats["recent"]],
            }
    return found
