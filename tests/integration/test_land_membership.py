"""Workers that come, go, freeze and fall behind share one topic, and every record lands once."""

from __future__ import annotations

import gc
import itertools
import signal
import threading
import weakref
from pathlib import Path

import pytest

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import assert_exactly_once, assert_same_rows, read
from tests.landkit.events import event, mixture
from tests.landkit.kafka import end_of, produce
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import Running, land_all, plan, settings
from trajlake.streams.land import worker as worker_module

pytestmark = pytest.mark.integration


class Load:
    """Runs that are produced without end, to all partitions in turn, until the block is left."""

    def __init__(self, broker: str, topic: str, partitions: int) -> None:
        self._broker, self._topic, self._partitions = broker, topic, partitions
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            for partition in range(self._partitions):
                produce(self._broker, self._topic, mixture(2, name=f"r{number}-p{partition}"), partition)
            self.rounds = number
            if self._over.wait(0.02):
                return


def offsets_of(root: Path, partition: int) -> list[int]:
    """Offsets of all records of a partition that have landed."""
    rows = [*read(root, "events"), *read(root, "quarantine")]
    return [row["offset"] for row in rows if row["partition"] == partition]


def landed_everywhere(broker: str, topic: str, root: Path, partitions: int) -> bool:
    """Whether the tables have reached the end of every partition."""
    for partition in range(partitions):
        end = end_of(broker, topic, partition)
        if max(offsets_of(root, partition), default=-1) < end - 1:
            return False
    return True


def test_L5_a_worker_that_joins_at_half_a_flush_and_leaves_again(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic(4)
    joined = threading.Event()
    seen: list[str] = []

    def on_step(step: str) -> None:
        seen.append(step)
        if step == "3 steps" and seen.count(step) == 3:
            joined.wait(30)

    config = settings(broker, topic, tmp_path)
    shared = plan(broker, topic, tmp_path, group_id=config.group_id)
    with Load(broker, topic, 4) as load, Running(config, on_step) as first:
        eventually(lambda: seen.count("3 steps") >= 3, 30, "half a flush")
        with WorkerProcess(shared) as second:
            second.wait_for("status")
            joined.set()
            eventually(lambda: second.wait_for("status")["status"]["partitions"], 30, "partitions of the second")
            rounds = load.rounds
            eventually(lambda: load.rounds > rounds + 5, 30)
            assert second.terminate() < 10, second.tail()
            assert second.process.returncode == 0, second.tail()
        eventually(lambda: len(first.worker.status.partitions) == 4, 30, "all partitions back at the first")
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic, 4)


def test_L6_a_worker_that_froze_before_its_commit_is_refused_when_it_wakes_up(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(10))
    config = settings(broker, topic, tmp_path / "lake")
    halfway, go_on = threading.Event(), threading.Event()
    commits: list[str] = []

    def on_step(step: str) -> None:
        if step == "4 events":
            commits.append(step)
            if len(commits) == 2:
                halfway.set()
                go_on.wait(60)

    small = config.model_copy(update={"batch_max_rows": 40})
    with WorkerProcess(plan(broker, topic, tmp_path / "lake", group_id=config.group_id), halt_at="4 events") as frozen:
        frozen.wait_for("halted")
        with Running(small, on_step):
            eventually(halfway.is_set, 60, "the second worker has landed a part of the frozen one's batch")
            frozen.process.send_signal(signal.SIGCONT)
            eventually(lambda: any("landed by another worker" in line for line in frozen.log), 20, "it is refused")
            assert max(row["offset"] for row in read(tmp_path / "lake", "events")) < 40
            go_on.set()
            produce(broker, topic, mixture(4, name="last"))
            eventually(lambda: landed_everywhere(broker, topic, tmp_path / "lake", 1), 30, "all lands")
            assert frozen.process.poll() is None, frozen.tail()
    assert_exactly_once(tmp_path / "lake", broker, topic)
    land_all(broker, topic, tmp_path / "whole")
    assert_same_rows(tmp_path / "lake", tmp_path / "whole")


def test_L6_a_commit_that_outlasts_the_groups_patience_doubles_nothing(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(10))
    patience = {"max.poll.interval.ms": "6000", "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
    config = settings(broker, topic, tmp_path, kafka_options=patience)
    slow, go = threading.Event(), threading.Event()

    def on_step(step: str) -> None:
        if step == "4 events" and not slow.is_set():
            slow.set()
            go.wait(60)

    with Running(config, on_step) as late:
        eventually(slow.is_set, 30)
        with Running(config) as owner:
            end = end_of(broker, topic)
            eventually(lambda: owner.landed() == end - 1, 40, "the other worker lands it")
            go.set()
            produce(broker, topic, mixture(4, name="later"))
            eventually(lambda: landed_everywhere(broker, topic, tmp_path, 1), 30)
        produce(broker, topic, mixture(4, name="last"))
        eventually(lambda: landed_everywhere(broker, topic, tmp_path, 1), 30, "the late one works on after that")
        assert late.alive
    assert_exactly_once(tmp_path, broker, topic)


def test_sigterm_under_load_flushes_snapshots_and_ends_in_time_and_the_next_start_replays_nothing(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic(2)
    shared = plan(broker, topic, tmp_path, snapshot_interval_s=3600, batch_max_age_ms=2_000)
    with Load(broker, topic, 2), WorkerProcess(shared) as worker:
        eventually(lambda: worker.wait_for("status")["status"]["rows"] > 0, 30)
        assert worker.terminate() < 10
        assert worker.process.returncode == 0, worker.tail()
    status = worker.told[-1]["status"]
    assert status["rows"] == len(read(tmp_path, "events")) + len(read(tmp_path, "quarantine"))
    for partition in range(2):
        offsets = offsets_of(tmp_path, partition)
        folder = tmp_path / "_state" / "land" / topic / str(partition)
        assert max(int(path.name[:20]) for path in folder.iterdir()) == max(offsets)
    produce(broker, topic, mixture(2, name="after"))
    with Running(settings(broker, topic, tmp_path)) as resumed:
        eventually(lambda: landed_everywhere(broker, topic, tmp_path, 2), 30)
        eventually(lambda: len(resumed.worker.status.partitions) == 2, 10)
        assert [figures["replayed_records"] for figures in resumed.worker.status.partitions.values()] == [0, 0]
    assert_exactly_once(tmp_path, broker, topic, 2)


def test_a_killed_worker_leaves_only_what_followed_the_last_snapshot_to_be_replayed(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(10))
    land_all(broker, topic, tmp_path)
    first = end_of(broker, topic)
    produce(broker, topic, mixture(10, name="second"))
    # Lands the rest and is killed where the next snapshot would be written.
    with WorkerProcess(plan(broker, topic, tmp_path), kill_at="5 snapshot") as worker:
        assert worker.end() == -9
    landed = max(row["offset"] for name in ("events", "quarantine") for row in read(tmp_path, name))
    assert landed >= first
    produce(broker, topic, mixture(1, name="third"))
    with Running(settings(broker, topic, tmp_path)) as resumed:
        eventually(lambda: landed_everywhere(broker, topic, tmp_path, 1), 30)
        eventually(lambda: resumed.worker.status.partitions, 10)
        assert resumed.worker.status.partitions[0]["replayed_records"] == landed - first + 1
    assert_exactly_once(tmp_path, broker, topic)


def test_garbage_that_refers_to_itself_is_freed_while_a_worker_runs_and_nothing_stays_frozen(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    monkeypatch.setattr(worker_module, "GC_EVERY_S", 0.2)
    topic = make_topic()
    with Running(settings(broker, topic, tmp_path)) as running:
        eventually(lambda: running.worker.status.partitions, 20)
        assert not gc.isenabled()
        knot = Knot()
        gone = weakref.ref(knot)
        for _ in range(3):
            gc.collect()
        # It is in the oldest generation now.
        del knot
        eventually(lambda: gone() is None, 20)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_L10_a_setting_that_changes_over_a_crash_leaves_the_state_of_what_had_landed_alone(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    runs = [f"r{number}" for number in range(8)]
    produce(broker, topic, [event("run.started", run, 1, {"input": {"hidden": "h" * 3_000}}) for run in runs])
    # What has landed is never folded from the log again, with or without a snapshot.
    for number, root in enumerate(("changed", "bare", "steady")):
        with WorkerProcess(plan(broker, topic, tmp_path / root), kill_at="5 snapshot") as worker:
            assert worker.end() == -9
        assert len(read(tmp_path / root, "events")) == 8, number
    # A snapshot of the old settings.
    land_all(broker, topic, tmp_path / "changed")
    produce(broker, topic, [event("model.responded", run, 2, {"message": "m"}) for run in runs])
    produce(broker, topic, [event("run.ended", run, 3, {"end_state": "completed"}) for run in runs])
    for root in ("changed", "bare"):
        changed = {"deny_fields": ["hidden"], "payload_inline_max_bytes": 1_024, "closed_runs_kept": 3}
        land_all(broker, topic, tmp_path / root, **changed)
    land_all(broker, topic, tmp_path / "steady")
    for root in ("changed", "bare"):
        for table in ("runs", "steps"):
            assert read(tmp_path / root, table) == read(tmp_path / "steady", table), (root, table)
        assert len({row["rule_revision"] for row in read(tmp_path / root, "events")}) == 2


def test_L24_input_that_ends_is_flushed_however_large_and_old_a_batch_may_get(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(3)
    for partition in range(2):
        produce(broker, topic, mixture(3, name=f"p{partition}"), partition)
    worker = land_all(broker, topic, tmp_path, batch_max_age_ms=3_600_000)
    assert worker.status.rows == len(read(tmp_path, "events")) + len(read(tmp_path, "quarantine"))
    assert gc.isenabled(), "the worker does without, its caller may not"
    assert_exactly_once(tmp_path, broker, topic, 3)
    assert land_all(broker, topic, tmp_path, batch_max_age_ms=3_600_000).status.rows == 0


def test_L24_a_worker_that_is_stopped_lands_what_it_holds(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    sent = mixture(3)
    with Running(settings(broker, topic, tmp_path, batch_max_age_ms=3_600_000)) as running:
        eventually(lambda: running.worker.status.partitions, 20)
        produce(broker, topic, sent)
        eventually(lambda: running.worker._batch_rows == len(sent), 20)
    assert read(tmp_path, "events")
    assert_exactly_once(tmp_path, broker, topic)


def test_L24_workers_without_a_partition_end_too(broker: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(3))
    config = settings(broker, topic, tmp_path)
    with Running(config, until_end=True) as one, Running(config, until_end=True) as other:
        assert one.end(60) is None
        assert other.end(60) is None
    assert_exactly_once(tmp_path, broker, topic)
