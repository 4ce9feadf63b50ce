"""Logs with holes: transactions, aborted ones, retention, and topics that were made anew."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Eventually, MakeTopic
from tests.landkit.checker import assert_exactly_once, assert_same_rows, offsets_of_gaps, read
from tests.landkit.events import Sent, event, mixture, run_events
from tests.landkit.kafka import Transactions, delete_below, delete_topic, end_of, log_of, produce
from tests.landkit.running import Running, land_all, settings
from trajlake.streams.errors import LogReplaced, OffsetBelowRetention
from trajlake.streams.topics import ensure_topics

pytestmark = pytest.mark.integration


def landed(root: Path) -> list[int]:
    """Offsets of everything that has landed, holes left out."""
    return sorted(row["offset"] for name in ("events", "quarantine") for row in read(root, name))


# Transactions


def test_L8_markers_and_aborted_transactions_are_accounted_for_to_the_end_of_the_log(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    transactions = Transactions(broker, topic)
    transactions.write(mixture(2, name="a"))
    transactions.write(mixture(1, name="aborted"), commit=False)
    transactions.write(mixture(2, name="b"))
    transactions.write(mixture(1, name="also aborted"), commit=False)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)
    records, _, end = log_of(broker, topic)
    assert len(offsets_of_gaps(tmp_path)) == end - len(records)
    assert not [row for row in read(tmp_path, "events") if "aborted" in row["run_id"]]
    assert not [row for row in read(tmp_path, "runs") if row["gaps"]]


def test_L8_an_open_transaction_holds_back_what_is_behind_it_and_nothing_else(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    transactions, others = Transactions(broker, topic), Transactions(broker, topic)
    transactions.write(mixture(2, name="a"))
    stable = end_of(broker, topic)
    transactions.begin(mixture(1, name="b"))
    others.write(mixture(1, name="c"), settle=False)
    land_all(broker, topic, tmp_path)  # ends: what is decided has landed
    assert max(landed(tmp_path)) < stable
    with Running(settings(broker, topic, tmp_path)) as running:
        eventually(lambda: running.landed() == stable - 1, 20)
        transactions.end()
        end = end_of(broker, topic)
        eventually(lambda: running.landed() == end - 1, 20)
    assert_exactly_once(tmp_path, broker, topic)


def test_L8_markers_that_arrive_one_by_one_while_the_worker_is_idle_never_count_twice(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    transactions = Transactions(broker, topic)
    with Running(settings(broker, topic, tmp_path)) as running:
        for number in range(6):
            transactions.write(run_events(f"r{number}", 1), commit=number % 3 != 1)
            end = end_of(broker, topic)
            eventually(lambda end=end: running.landed() == end - 1, 20)  # type: ignore[misc]
    assert_exactly_once(tmp_path, broker, topic)
    land_all(broker, topic, tmp_path)
    assert_exactly_once(tmp_path, broker, topic)


# Retention


def test_L9_records_deleted_below_the_landed_offset_stop_the_worker_with_their_offsets(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(3, name="a"))
    land_all(broker, topic, tmp_path)
    end = end_of(broker, topic)
    produce(broker, topic, mixture(3, name="b"))
    delete_below(broker, topic, end + 10)
    before = landed(tmp_path)
    for _ in range(2):
        with pytest.raises(OffsetBelowRetention, match=rf"{topic}/0: offsets {end}\.\.{end + 9} were deleted"):
            land_all(broker, topic, tmp_path)
    assert landed(tmp_path) == before
    assert not read(tmp_path, "gaps")


def test_L9_a_loss_that_is_declared_is_a_row_of_gaps_and_landing_goes_on(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(3, name="a"))
    land_all(broker, topic, tmp_path)
    end = end_of(broker, topic)
    produce(broker, topic, mixture(3, name="b"))
    delete_below(broker, topic, end + 10)
    for _ in range(2):
        land_all(broker, topic, tmp_path, offset_reset_policy="declare")
    gaps = [(row["first_offset"], row["offset"], row["code"]) for row in read(tmp_path, "gaps")]
    assert gaps == [(end, end + 9, "below_retention")]
    assert_exactly_once(tmp_path, broker, topic)


def test_L9_a_log_that_was_emptied_is_a_declared_loss_to_its_end(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(1, name="a"))
    land_all(broker, topic, tmp_path)
    first = end_of(broker, topic)
    produce(broker, topic, mixture(1, name="b"))
    end = end_of(broker, topic)
    delete_below(broker, topic, end)
    land_all(broker, topic, tmp_path, offset_reset_policy="declare")
    assert offsets_of_gaps(tmp_path) == list(range(first, end))
    assert_exactly_once(tmp_path, broker, topic)


def test_L9_what_was_deleted_before_the_first_landing_is_noted_and_no_loss(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(3))
    delete_below(broker, topic, 12)
    land_all(broker, topic, tmp_path)
    assert [(r["first_offset"], r["offset"], r["code"], r["detail"]) for r in read(tmp_path, "gaps")] == [
        (0, 11, "hole", "deleted before the first landing")
    ]
    assert_exactly_once(tmp_path, broker, topic)


@pytest.mark.parametrize("policy", ["stop", "declare"])
def test_L9_records_deleted_ahead_of_a_running_worker_are_never_jumped_over(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually, policy: str
) -> None:
    topic = make_topic()
    filler = "y" * 4_000
    sent = [event("run.started", f"r{number}", 1, {"input": filler}) for number in range(400)]
    produce(broker, topic, sent, per_batch=5)
    held, go_on = threading.Event(), threading.Event()

    def on_step(step: str) -> None:
        held.set()
        go_on.wait(30)

    # Little is fetched ahead, so that the worker's position is truly below the new start of the log.
    meagre = {
        "queued.min.messages": "1", "queued.max.messages.kbytes": "1", "fetch.message.max.bytes": "1000",
        "fetch.max.bytes": "1000", "message.max.bytes": "1000",
    }  # fmt: skip
    config = settings(broker, topic, tmp_path, batch_max_rows=10, offset_reset_policy=policy, kafka_options=meagre)
    with Running(config, on_step, until_end=True) as running:
        eventually(held.is_set, 20)
        delete_below(broker, topic, 390)
        go_on.set()
        error = running.end()
    if policy == "stop":
        assert isinstance(error, OffsetBelowRetention)
        assert error.log_start == 390
        assert landed(tmp_path) == list(range(error.next_offset))
        assert not read(tmp_path, "gaps")
    else:
        assert error is None
        (gap,) = read(tmp_path, "gaps")
        assert (gap["offset"], gap["code"]) == (389, "below_retention")
        assert_exactly_once(tmp_path, broker, topic)


@pytest.fixture
def two_lakes(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> Iterator[tuple[str, Path, Path]]:
    """A topic, a lake that has landed its first half, and one that a worker keeps up to date all the time."""
    topic = make_topic()
    log = mixture(20, width=6)
    half = len(log) // 2
    produce(broker, topic, log[:half])
    lagging, steady = tmp_path / "lagging", tmp_path / "steady"
    land_all(broker, topic, lagging)
    with Running(settings(broker, topic, steady)) as running:
        eventually(lambda: running.landed() == half - 1, 20)
        yield topic, lagging, steady
        produce(broker, topic, log[half:])
        eventually(lambda: running.landed() == len(log) - 1, 20)
    land_all(broker, topic, lagging)
    assert_exactly_once(lagging, broker, topic)
    assert_same_rows(lagging, steady)


@pytest.mark.parametrize("start", ["landed", "below"])
def test_L9_state_whose_log_is_gone_is_rebuilt_from_the_ledger(
    broker: str, two_lakes: tuple[str, Path, Path], start: str
) -> None:
    topic, lagging, _ = two_lakes
    # No snapshot, and the log no longer holds what one would be made from; what follows lands all the same.
    shutil.rmtree(lagging / "_state")
    end = end_of(broker, topic)
    delete_below(broker, topic, end if start == "landed" else end - 7)


def test_L9_state_is_rebuilt_from_a_snapshot_that_is_older_than_the_log(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    log = mixture(30, width=6)
    third = len(log) // 3
    lagging, steady = tmp_path / "lagging", tmp_path / "steady"
    with Running(settings(broker, topic, steady)) as running:
        produce(broker, topic, log[:third])
        land_all(broker, topic, lagging)
        snapshots = lagging / "_state" / "land" / topic / "0"
        kept = {path.name for path in snapshots.iterdir()}
        produce(broker, topic, log[third : 2 * third])
        land_all(broker, topic, lagging)
        for path in snapshots.iterdir():
            if path.name not in kept:
                path.unlink()
        eventually(lambda: running.landed() == 2 * third - 1, 20)
        delete_below(broker, topic, 2 * third - 5)
        produce(broker, topic, log[2 * third :])
        land_all(broker, topic, lagging)
        eventually(lambda: running.landed() == len(log) - 1, 20)
    assert_exactly_once(lagging, broker, topic)
    assert_same_rows(lagging, steady)


def test_a_topic_that_is_not_there_is_named_until_it_is(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = f"{make_topic()}-later"
    quick = {"topic.metadata.refresh.interval.ms": "200", "session.timeout.ms": "6000"}
    with Running(settings(broker, topic, tmp_path, kafka_options=quick)) as running:
        eventually(lambda: f"topic {topic} does not exist" in running.problem, 20)
        ensure_topics(broker, {topic: 1})
        produce(broker, topic, mixture(2))
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 20)
        assert not running.problem
    assert_exactly_once(tmp_path, broker, topic)


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    broker: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(broker, topic, mixture(3))
    land_all(broker, topic, tmp_path)
    before = landed(tmp_path)
    delete_topic(broker, topic)
    ensure_topics(broker, {topic: 1})
    produce(broker, topic, [Sent(b"acme/x", b"{}")])
    with pytest.raises(LogReplaced, match="was landed from another topic"):
        land_all(broker, topic, tmp_path)
    assert landed(tmp_path) == before
