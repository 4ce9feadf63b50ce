"""Freshness: from the time that an event carries to the moment at which its row can be read from the `events` table.

A producer process publishes at a steady rate while a worker lands. The moment of a row is the time at which the Delta
commit that added it appeared in the table's log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figure, show

RATE = 20_000
SECONDS = 20
WARM_UP_S = 4
TOPIC = "bench.latency"


def main() -> None:
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.topics import ensure_topics

    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as root:
        servers = broker.bootstrap_servers
        ensure_topics(servers, {TOPIC: 4})
        worker = subprocess.Popen(
            [sys.executable, "-m", "bench.latency", "land", servers, root], stdout=subprocess.DEVNULL
        )
        try:
            subprocess.run([sys.executable, "-m", "bench.latency", "produce", servers], check=True, timeout=300)
            _wait_until_landed(root)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)
        _report(root)


def _produce(servers: str) -> None:
    from datetime import UTC, datetime

    from confluent_kafka import Producer

    from bench.traffic import interleaved

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    total = RATE * SECONDS
    mark = b'"time":"2026-01-01T00:00:00.000000Z"'
    started = time.perf_counter()
    for number, (key, value) in enumerate(interleaved(total, 2_000)):
        if number >= total:
            break
        if number % 200 == 0:
            ahead = started + number / RATE - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            producer.poll(0)
            now = f'"time":"{datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}"'.encode()
        producer.produce(TOPIC, value.replace(mark, now), key)
    producer.flush()
    print(json.dumps({"rate": total / (time.perf_counter() - started)}), file=sys.stderr)


def _land(servers: str, root: str) -> None:
    from trajlake.streams.land.worker import LandWorker
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, bootstrap_servers=servers, events_topic=TOPIC, log_level="warning")
    configure_logs(settings)
    worker = LandWorker(settings)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


def _wait_until_landed(root: str, deadline_s: float = 60.0) -> None:
    from deltalake import DeltaTable

    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if DeltaTable(f"{root}/restricted/events").count() >= RATE * SECONDS:
            return
        time.sleep(0.2)
    raise TimeoutError("not all events landed")


def _report(root: str) -> None:
    import numpy as np
    import pyarrow.parquet as pq

    table = Path(root, "restricted/events")
    waits = []
    for entry in sorted(Path(table, "_delta_log").glob("*.json")):
        visible_us = os.stat(entry).st_mtime_ns // 1000
        for line in entry.read_text().splitlines():
            added = json.loads(line).get("add")
            if added:
                times = pq.read_table(table / added["path"], columns=["time"])["time"].cast("int64").to_numpy()
                waits.append((visible_us - times) / 1e3)
    waited_ms = np.concatenate(waits)
    steady = waited_ms[RATE * WARM_UP_S :]
    detail = {"events": int(waited_ms.size), "rate": RATE, "left_out_s": WARM_UP_S, "commits": len(waits)}
    p50, p99 = (float(np.percentile(steady, q)) for q in (50, 99))
    show(Figure("event_to_row_p50_ms", round(p50, 1), "ms", at_most=1000, detail=detail))
    show(Figure("event_to_row_p99_ms", round(p99, 1), "ms", at_most=3000, detail=detail))


if __name__ == "__main__":
    parts: dict[str, Callable[..., None]] = {"produce": _produce, "land": _land}
    parts[sys.argv[1]](*sys.argv[2:])
