"""Freshness: from the time that an event carries to the moment at which its row can be read from the `events` table.

A producer process publishes at a steady rate while a worker lands; it makes its events before it begins. Before what is
measured it publishes at half of the rate, so that the broker's code is compiled and nothing is in arrears. The moment
of a row is the time at which the Delta commit that added it appeared in the table's log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from bench.figures import Figure, show
from bench.processes import cpu_s, wait_until_ready

RATE = 20_000
SECONDS = 30
WARM_UP_S = 10
WARM_UP = RATE // 2 * WARM_UP_S
"""Events that are published before the measured ones."""
TOTAL = WARM_UP + RATE * SECONDS
PORT = 18_780
TOPIC = "bench.latency"


def main() -> None:
    from trajlake.streams.broker import EmbeddedBroker
    from trajlake.streams.topics import ensure_topics

    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as root:
        servers = broker.bootstrap_servers
        ensure_topics(servers, {TOPIC: 4})
        worker = subprocess.Popen(
            [sys.executable, "-m", "trajlake", "land", "--root", root, "--health-port", str(PORT)],
            env={**os.environ, "TRAJLAKE_BOOTSTRAP_SERVERS": servers, "TRAJLAKE_EVENTS_TOPIC": TOPIC},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until_ready(f"http://127.0.0.1:{PORT}/ready")
            subprocess.run([sys.executable, "-m", "bench.latency", "produce", servers], check=True, timeout=300)
            _wait_until_landed(root)
            cpu = {"land": cpu_s(worker.pid), "broker": cpu_s(broker.pid or 0)}
        finally:
            worker.terminate()
            worker.wait(30)
        _report(root, cpu)


def _produce(servers: str) -> None:
    from datetime import UTC, datetime

    from confluent_kafka import Producer

    from bench.traffic import interleaved

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    mark = b'"time":"2026-01-01T00:00:00.000000Z"'
    made = list(islice(interleaved(TOTAL, 2_000), TOTAL))
    before = time.process_time()
    started = time.perf_counter()
    for number, (key, value) in enumerate(made):
        if number % 200 == 0:
            due = number / (RATE // 2) if number < WARM_UP else WARM_UP_S + (number - WARM_UP) / RATE
            ahead = started + due - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            producer.poll(0)
            now = f'"time":"{datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}"'.encode()
        producer.produce(TOPIC, value.replace(mark, now), key)
    producer.flush()
    rate = (TOTAL - WARM_UP) / (time.perf_counter() - started - WARM_UP_S)
    print(json.dumps({"rate": rate, "cpu_s": round(time.process_time() - before, 1)}), file=sys.stderr)


def _wait_until_landed(root: str, deadline_s: float = 60.0) -> None:
    from deltalake import DeltaTable

    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if DeltaTable(f"{root}/restricted/events").count() >= TOTAL:
            return
        time.sleep(0.2)
    raise TimeoutError("not all events landed")


def _report(root: str, cpu: dict[str, float]) -> None:
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
    steady = waited_ms[WARM_UP:]
    detail = {"events": int(steady.size), "rate": RATE, "left_out": WARM_UP, "commits": len(waits), "cpu_s": cpu}
    p50, p99 = (float(np.percentile(steady, q)) for q in (50, 99))
    show(Figure("event_to_row_p50_ms", round(p50, 1), "ms", at_most=1000, detail=detail))
    show(Figure("event_to_row_p99_ms", round(p99, 1), "ms", at_most=3000, detail=detail))


if __name__ == "__main__":
    _produce(*sys.argv[2:])
