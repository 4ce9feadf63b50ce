"""Freshness of statistics: from the end of a run to the statistics that hold it, on the statistics topic.

A producer publishes runs of 500 skills at a steady rate, a land worker and a rolling worker follow; the broker runs on
the same machine. A run's moment is the broker's time of the first message whose positions hold its closing offset.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from bench.figures import Figure, show
from bench.processes import cpu_s, wait_until_ready

RATE = 2_000
SKILLS = 500
SECONDS = 30
WARM_UP_S = 8
TOPIC = "agent.audit.v1"


def main() -> None:
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.roll.topics import ensure_roll_topics
    from trajlake.streams.topics import ensure_topics

    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as root:
        servers = broker.bootstrap_servers
        ensure_topics(servers, {TOPIC: 4})
        ensure_roll_topics(_settings(servers, root))
        workers = [_start("land", servers, root), _start("roll", servers, root)]
        try:
            wait_until_ready("http://127.0.0.1:18790/ready")
            subprocess.run([sys.executable, "-m", "bench.rolling", "produce", servers], check=True, timeout=300)
            told = _read_told(servers, root)
            cpu = {name: cpu_s(worker.pid) for name, worker in zip(("land", "roll"), workers, strict=True)}
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            for worker in workers:
                worker.wait(30)
        _report(servers, root, told, cpu)


def _settings(servers: str, root: str) -> Any:
    from trajlake.streams.settings import load_settings

    return load_settings(root=root, bootstrap_servers=servers, log_level="warning", roll_port=18_790)


def _start(part: str, servers: str, root: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.rolling", part, servers, root], stdout=subprocess.DEVNULL)


def _land(servers: str, root: str) -> None:
    from trajlake.streams.land.worker import LandWorker
    from trajlake.streams.logs import configure_logs

    settings = _settings(servers, root)
    configure_logs(settings)
    worker = LandWorker(settings)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def _roll(servers: str, root: str) -> None:
    from trajlake.streams.roll.worker import run_worker

    run_worker(_settings(servers, root).model_dump(), 18_790)


def _produce(servers: str) -> None:
    from datetime import UTC, datetime

    import orjson
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    total = RATE * SECONDS
    started = time.perf_counter()
    now = ""
    for number in range(total):
        if number % 50 == 0:
            ahead = started + number / RATE - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            producer.poll(0)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        run = f"run-{number:08d}"
        common = {"specversion": "1.0", "source": "urn:bench", "time": now, "tenantid": "acme", "runid": run}
        start = {
            "skill": {"name": f"skill-{number * 7919 % SKILLS:03d}", "version": "1"},
            "model": {"name": "model-1", "tier": "cheap", "provider": "north"},
        }
        end = {"end_state": "completed", "success": number % 11 != 0}
        for sequence, kind, data in ((1, "agent.run.started", start), (2, "agent.run.ended", end)):
            event = {**common, "id": f"{run}:{sequence}", "type": kind, "sequence": sequence, "data": data}
            producer.produce(TOPIC, orjson.dumps(event), f"acme/{run}".encode())
    producer.flush()
    print(json.dumps({"runs_per_s": total / (time.perf_counter() - started)}), file=sys.stderr)


def _read_told(servers: str, root: str, deadline_s: float = 60.0) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Statistics as they were told, until they hold all runs or the time is over: (skill, partition) -> [(offset,
    broker's time in ms)]."""
    import msgspec
    from confluent_kafka import Consumer

    class Brief(msgspec.Struct):
        skill_name: str
        positions: list[dict[str, Any]]
        windows: list[dict[str, Any]]

    settings = _settings(servers, root)
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": f"bench-{uuid.uuid4().hex}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([settings.stats_topic])
    decoder = msgspec.json.Decoder(Brief)
    told: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    runs: dict[str, int] = {}
    until = time.monotonic() + deadline_s
    while sum(runs.values()) < RATE * SECONDS and time.monotonic() < until:
        for message in consumer.consume(5_000, timeout=0.5):
            if message.error() is None:
                stats = decoder.decode(message.value() or b"")
                runs[stats.skill_name] = next(w["runs"] for w in stats.windows if w["window"] == "30d")
                for place in stats.positions:
                    told[stats.skill_name, place["partition"]].append((place["offset"], message.timestamp()[1]))
    consumer.close()
    return told


def _report(servers: str, root: str, told: dict[tuple[str, int], list[tuple[int, int]]], cpu: dict[str, float]) -> None:
    import numpy as np
    import polars as pl

    runs = pl.read_parquet(
        f"{root}/restricted/runs/*.parquet", columns=["skill_name", "partition", "offset", "ended_at"]
    )
    start_ms = runs["ended_at"].min().timestamp() * 1e3  # type: ignore[union-attr]
    # What was not told within the time counts as told at its end.
    end_ms = time.time() * 1e3
    waits = []
    untold = 0
    for (skill, partition), rows in runs.group_by("skill_name", "partition"):
        seen = sorted(told[str(skill), int(str(partition))])
        untold += rows.filter(pl.col("offset") > (seen[-1][0] if seen else -1)).height
        seen.append((sys.maxsize, round(end_ms)))
        offsets = np.array([offset for offset, _ in seen])
        times = np.minimum.accumulate(np.array([at for _, at in seen], dtype=np.float64)[::-1])[::-1]
        ended = rows["ended_at"].dt.epoch("ms").to_numpy()
        places = np.searchsorted(offsets, rows["offset"].to_numpy())
        waited = times[places] - ended
        waits.append(waited[ended - start_ms >= WARM_UP_S * 1e3])
    waited_ms = np.concatenate(waits)
    messages = len({at for seen in told.values() for at in seen})
    announced_ms = _announced_ms(servers, root, start_ms)
    detail = {
        "runs": runs.height, "runs_per_s": RATE, "skills": SKILLS, "left_out_s": WARM_UP_S, "cpu_s": cpu,
        "messages": messages, "untold": untold, "announced_p50_ms": round(float(np.percentile(announced_ms, 50))),
        "announced_p99_ms": round(float(np.percentile(announced_ms, 99))),
    }  # fmt: skip
    p50, p99 = (float(np.percentile(waited_ms, q)) for q in (50, 99))
    show(Figure("run_end_to_statistics_p50_ms", round(p50, 1), "ms", detail=detail))
    show(Figure("run_end_to_statistics_p99_ms", round(p99, 1), "ms", at_most=2000, detail=detail))


def _announced_ms(servers: str, root: str, start_ms: float) -> Any:
    """From the end of a run to its outcome on the outcomes topic, by the broker's time: land's part of the wait."""
    import msgspec
    import numpy as np
    from confluent_kafka import Consumer

    from trajlake.expectations.outcomes import OutcomeBatch

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": f"bench-{uuid.uuid4().hex}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([_settings(servers, root).outcomes_topic])
    decoder = msgspec.json.Decoder(OutcomeBatch)
    waits: list[float] = []
    seen = 0
    while seen < RATE * SECONDS and (found := consumer.consume(5_000, timeout=10)):
        for message in found:
            if message.error() is None:
                ends = [run.outcome.end_us / 1e3 for run in decoder.decode(message.value() or b"").runs if run.outcome]
                seen += len(ends)
                waits += [message.timestamp()[1] - end for end in ends if end - start_ms >= WARM_UP_S * 1e3]
    consumer.close()
    return np.array(waits)


if __name__ == "__main__":
    parts: dict[str, Callable[..., None]] = {"produce": _produce, "land": _land, "roll": _roll}
    parts[sys.argv[1]](*sys.argv[2:])
