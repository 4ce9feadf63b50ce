"""Long runs with real faults, one after another: whatever happens, every record is in the tables once.

    make chaos

A seed replays the order of the faults: CHAOS_SEED=17 (the moments at which they strike are the machine's own).
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import Eventually
from tests.landkit.checker import assert_exactly_once, assert_same_rows, read
from tests.landkit.events import Sent, event, mixture, run_events
from tests.landkit.kafka import Transactions, end_of, produce
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import Running, land_all, plan, settings
from tests.landkit.tree import REPO
from trajlake.streams.broker import EmbeddedBroker
from trajlake.streams.topics import ensure_topics

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

PARTITIONS = 4
STEPS = [
    "2 data files",
    "3 gaps",
    "3 quarantine",
    "3 rewards",
    "3 steps",
    "3 runs",
    "4 events",
    "5 snapshot",
    "6 group offsets",
]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker"), heap_mb=384) as broker:
        yield broker


def topic_of(broker: EmbeddedBroker, partitions: int = PARTITIONS) -> str:
    name = f"chaos-{uuid.uuid4().hex[:8]}"
    ensure_topics(broker.bootstrap_servers, {name: partitions})
    return name


class Agents:
    """Produces runs, poison and transactions to all partitions until told to stop; survives a broker that is away."""

    def __init__(self, servers: str, topic: str, pause_s: float = 0.05) -> None:
        self._servers, self._topic, self._pause_s = servers, topic, pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0

    def __enter__(self) -> Agents:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._pause_s):
            try:
                transactions = Transactions(self._servers, self._topic)
                for partition in range(PARTITIONS):
                    name = f"r{self.rounds}-p{partition}"
                    produce(self._servers, self._topic, mixture(3, name=name), partition)
                    transactions.write(run_events(f"t-{name}"), partition, commit=self.rounds % 3 != 0)
            except Exception:
                # The broker is away; what was half sent is in the log or not, and both are right.
                continue
            self.rounds += 1


def land_rest(servers: str, topic: str, lake: Path) -> None:
    """Land what is left, in a group of its own, and compare with a lake that nothing happened to."""
    land_all(servers, topic, lake)
    assert_exactly_once(lake, servers, topic, PARTITIONS)
    whole = lake.with_name(f"{lake.name}-whole")
    land_all(servers, topic, whole)
    assert_same_rows(lake, whole)
    shutil.rmtree(whole)


def test_L1_L5_L6_workers_are_killed_frozen_added_and_removed_under_load(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 16))
    print(f"CHAOS_SEED={seed}")
    chance = random.Random(seed)
    servers, topic = own_broker.bootstrap_servers, topic_of(own_broker)
    shared = plan(servers, topic, tmp_path / "lake", batch_max_rows=300, snapshot_interval_s=1)
    workers: list[WorkerProcess] = []

    def start(**faults: object) -> None:
        workers.append(WorkerProcess(shared, **faults))

    with Agents(servers, topic) as agents:
        try:
            start()
            for _ in range(24):
                fault = chance.choice(["kill at a step", "kill", "freeze", "add", "remove"])
                if fault == "kill at a step":
                    start(kill_at=chance.choice(STEPS), times=chance.randint(1, 6))
                elif fault == "add":
                    start()
                elif fault == "kill" and workers:
                    chance.choice(workers).process.kill()
                elif fault == "remove" and workers:
                    chance.choice(workers).process.terminate()
                elif fault == "freeze" and workers:
                    victim = chance.choice(workers)
                    victim.process.send_signal(signal.SIGSTOP)
                    threading.Timer(chance.uniform(1, 12), victim.process.send_signal, [signal.SIGCONT]).start()
                rounds = agents.rounds
                eventually(lambda rounds=rounds: agents.rounds >= rounds + 3, 60)  # type: ignore[misc]
                workers = [worker for worker in workers if worker.process.poll() is None]
                while len(workers) > 3:
                    workers.pop(0).process.kill()
                if not workers:
                    start()
        finally:
            for worker in workers:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
    land_rest(servers, topic, tmp_path / "lake")


def test_L25_a_broker_that_is_away_for_two_minutes(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers, topic = own_broker.bootstrap_servers, topic_of(own_broker)
    lake = tmp_path / "lake"
    with Running(settings(servers, topic, lake, snapshot_interval_s=5)) as running:
        with Agents(servers, topic) as agents:
            eventually(lambda: agents.rounds > 5, 60)
        own_broker.kill()
        away_until = time.monotonic() + 120
        try:
            eventually(lambda: running.problem, 60)
            # Unready all the time.
            eventually(lambda: time.monotonic() > away_until or not running.problem, 130)
            assert time.monotonic() > away_until
        finally:
            own_broker.start()
        with Agents(servers, topic) as agents:
            eventually(lambda: agents.rounds > 5, 120)
        for partition in range(PARTITIONS):
            end = end_of(servers, topic, partition)
            eventually(lambda p=partition, e=end: running.landed(p) == e - 1, 60)  # type: ignore[misc]
        eventually(lambda: not running.problem, 30)
    land_rest(servers, topic, lake)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB. Skips where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(ballast: Path) -> None:
    """Write a file until its disk has no byte left."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(os.urandom(1 << 16)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_L25_a_disk_that_is_full_for_a_minute(
    own_broker: EmbeddedBroker, small_disk: Path, tmp_path: Path, eventually: Eventually
) -> None:
    servers, topic = own_broker.bootstrap_servers, topic_of(own_broker)
    lake, ballast = small_disk / "lake", small_disk / "ballast"
    with Running(settings(servers, topic, lake, snapshot_interval_s=2)) as running:
        produce(servers, topic, mixture(20, name="before"))
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 30)
        fill(ballast)
        noise = [event("custom", f"n{n}", 1, {"noise": os.urandom(2_000).hex()}) for n in range(500)]
        produce(servers, topic, noise)
        eventually(lambda: "No space left" in running.problem, 30)
        full_until = time.monotonic() + 60
        eventually(lambda: time.monotonic() > full_until, 70)
        assert "No space left" in running.problem
        assert not list(lake.rglob("*#*")), "half-written files stay behind"
        ballast.unlink()
        eventually(lambda: running.landed() == end_of(servers, topic) - 1, 60)
        eventually(lambda: not running.problem, 10)
    assert_exactly_once(lake, servers, topic, PARTITIONS)
    whole = tmp_path / "whole"
    land_all(servers, topic, whole)
    assert_same_rows(lake, whole)


def test_memory_stays_bounded_with_events_of_a_megabyte(
    own_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers, topic = own_broker.bootstrap_servers, topic_of(own_broker)
    for number in range(30):
        # Each different, so that nothing is stored only once.
        large = [
            event(
                "tool.returned",
                f"l{number}",
                n + 1,
                {"tool_call_id": "c", "content": f"{number}-{n}-" + "m" * (1 << 20)},
            )
            for n in range(20)
        ]
        produce(servers, topic, large, number % PARTITIONS)
    peak = 0
    with WorkerProcess(plan(servers, topic, tmp_path, batch_max_bytes=8 << 20), until_end=True) as worker:
        process = psutil.Process(worker.process.pid)
        while worker.process.poll() is None:
            try:
                peak = max(peak, process.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)  # a probe's interval, not a wait for a state
        assert worker.end() == 0, worker.tail()
    assert len(read(tmp_path, "events")) == 600
    # 600 MB of events; 64 MB of them fetched ahead, a batch of 8 MB in several forms, and the libraries.
    assert peak < 700 << 20, f"{peak >> 20} MiB"


def test_L9_state_of_many_open_runs_is_rebuilt_from_the_ledger_in_bounded_memory(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    servers, topic = own_broker.bootstrap_servers, topic_of(own_broker, 1)
    lake = tmp_path / "lake"
    text = "t" * 500
    sent: list[Sent] = []
    for number in range(60_000):
        run = f"r{number % 3_000}"
        sent.append(event("custom", run, number // 3_000 + 1, {"text": text}))
    produce(servers, topic, sent)
    land_all(servers, topic, lake)
    shutil.rmtree(lake / "_state")
    code = (
        "import resource, sys\n"
        "from trajlake.sinks.lake import Lake\n"
        "from trajlake.streams.land.recovery import refold_ledger\n"
        "from trajlake.transforms.landing.partition import PartitionFold\n"
        "from trajlake.transforms.landing.rules import LandRules\n"
        "fold = PartitionFold(sys.argv[2], 0, LandRules())\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "rows = sum(refold_ledger(Lake(sys.argv[1]), fold, 59_999))\n"
        "print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, len(fold.assembler.open))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(lake), topic], cwd=REPO, capture_output=True, text=True, check=True
    )
    rows, grown_mib, open_runs = map(int, done.stdout.split())
    assert (rows, open_runs) == (60_000, 3_000)
    assert grown_mib < 400, grown_mib
