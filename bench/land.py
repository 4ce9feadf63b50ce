"""Throughput of the land path on a real Kafka: consume, decode, check, assemble, write five tables.

The worker runs in a process of its own. Its CPU time counts from the first poll to the last commit, all threads
included (the Kafka client's, the encoders'); start-up and imports are left out. The reference, read from the same
topic in the same run, is what the bare client and decoder cost; compare ratios rather than absolute figures across
machines.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bench.figures import Figure, show
from bench.traffic import interleaved

RUNS = 24_000
AT_ONCE = 2_000
ROUNDS = 3
PARTITIONS = 4
FLOOR = 60_000


def main() -> None:
    from trajlake.streams.broker import EmbeddedBroker

    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        count, size = publish(servers, "bench.land", RUNS)
        landed, reference = [], []
        for number in range(ROUNDS):
            reference.append(child(["reference", servers, "bench.land", str(count)]))
            with tempfile.TemporaryDirectory() as root:
                landed.append(child(["land", servers, "bench.land", root, f"bench-{number}"]))
    per_core = statistics.median(count / r["cpu_s"] for r in landed)
    detail = {
        "events": count,
        "bytes_per_event": round(size / count),
        "wall_events_per_s": round(statistics.median(count / r["wall_s"] for r in landed)),
        "commits": landed[0]["commits"],
        "peak_rss_mb": max(r["rss_mb"] for r in landed),
        "rounds": [round(count / r["cpu_s"]) for r in landed],
        "reference_consume_decode_events_per_core_s": round(statistics.median(count / r["cpu_s"] for r in reference)),
        "ratio_to_reference": round(
            statistics.median(a["cpu_s"] / b["cpu_s"] for a, b in zip(landed, reference, strict=True)), 2
        ),
    }
    show(Figure("land_events_per_core_second", round(per_core), "events/s", floor=FLOOR, detail=detail))


def publish(servers: str, topic: str, runs: int, at_once: int = AT_ONCE) -> tuple[int, int]:
    """Publish the traffic of `runs` runs. Returns events and bytes."""
    from confluent_kafka import Producer

    from trajlake.streams.topics import ensure_topics

    ensure_topics(servers, {topic: PARTITIONS})
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    count = size = 0
    for run_key, value in interleaved(runs, at_once):
        while True:
            try:
                producer.produce(topic, value, run_key)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        size += len(value)
    producer.flush()
    return count, size


def child(arguments: list[str]) -> dict[str, Any]:
    """Run one measurement in a fresh process and read its JSON line."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.land", *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=600
    )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _measure_land(servers: str, topic: str, root: str, group: str) -> None:
    import resource

    from trajlake.streams.land.worker import LandWorker
    from trajlake.streams.logs import configure_logs
    from trajlake.streams.settings import load_settings

    settings = load_settings(
        root=root, bootstrap_servers=servers, events_topic=topic, group_id=group, log_level="warning"
    )
    configure_logs(settings)
    worker = LandWorker(settings, until_end=True)
    cpu, wall = time.process_time(), time.perf_counter()
    worker.run()
    _print(cpu, wall, commits=worker.status.commits, rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def _measure_reference(servers: str, topic: str, count: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    from trajlake.transforms.decode.decoder import decode_typed

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reference", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    left = int(count)
    cpu, wall = time.process_time(), time.perf_counter()
    while left > 0:
        for message in consumer.consume(10_000, 1.0):
            value = message.value()
            if value is not None and message.error() is None:
                decode_typed(value)
                left -= 1
    _print(cpu, wall)
    consumer.close()


def _print(cpu: float, wall: float, **more: Any) -> None:
    print(json.dumps({"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, **more}))


if __name__ == "__main__":
    parts: dict[str, Callable[..., None]] = {"land": _measure_land, "reference": _measure_reference}
    parts[sys.argv[1]](*sys.argv[2:])
