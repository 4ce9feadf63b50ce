"""Erasure beside land workers on a real Kafka: nobody is asked, nobody waits, nothing comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Eventually, MakeTopic
from tests.keeping.people import run_of
from tests.landkit.checker import read
from tests.landkit.events import mixture
from tests.landkit.kafka import end_of, produce
from tests.landkit.running import Running, land_all, settings
from trajlake.reading.tables import open_lake
from trajlake.sinks.lake import Lake
from trajlake.streams.keeping.forget import forget, in_flight, request
from trajlake.streams.keeping.proof import prove_absence
from trajlake.streams.keeping.upkeep import finish_erasures
from trajlake.verification.verify import verify

pytestmark = pytest.mark.integration
SUBJECT = "person-381"


def assert_gone(root: Path, app_id: str, *needles: str) -> None:
    proof = prove_absence(Lake(str(root)), [SUBJECT, *needles])
    assert proof.absent, (proof.mentions, proof.unreadable)
    report = verify(open_lake(str(root), storage_options={}), app_id, integrity=True)
    assert report.ok, report.problems


def test_G17_beside_a_worker_that_lands_the_subject_goes_and_stays_away(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually
) -> None:
    topic = make_topic()
    options = settings(broker, topic, tmp_path, snapshot_interval_s=1)
    lake = Lake(str(tmp_path))
    produce(broker, topic, [*mixture(4), *run_of(SUBJECT, "p-1"), *run_of(SUBJECT, "p-2", ended=False)])
    with Running(options) as running:
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 30, "landed")
        entry = request(lake, "acme", subject_id=SUBJECT)
        done = forget(lake, entry)
        assert {name for _, name in done.names} == {"p-1", "p-2"}
        # It holds the open run in memory until its next batch meets the fence.
        produce(broker, topic, [*run_of(SUBJECT, "p-2")[4:], *run_of(SUBJECT, "p-3"), *mixture(3, name="after")])
        eventually(lambda: running.landed() == end_of(broker, topic) - 1, 30, "landed behind the fence")
        eventually(lambda: {"after-0", "after-2"} <= {row["run_id"] for row in read(tmp_path, "runs")}, 20)
    assert_gone(tmp_path, options.app_id, "p-1", "p-2", "p-3")
    # The log still holds them: read again from its start, under another id, they land as empty rows.
    land_all(broker, topic, tmp_path, app_id="again")
    assert prove_absence(lake, [SUBJECT, "p-1", "p-2", "p-3"]).absent


@pytest.mark.parametrize("step", ["2 data files", "3 steps", "4 events", "5 snapshot"])
def test_G17_an_erasure_that_comes_upon_a_batch_at_any_step_leaves_nothing(
    broker: str, make_topic: MakeTopic, tmp_path: Path, eventually: Eventually, step: str
) -> None:
    topic = make_topic()
    options = settings(broker, topic, tmp_path, snapshot_interval_s=1)
    lake = Lake(str(tmp_path))
    begun: list[int] = []

    def erase(taken: str) -> None:
        if taken == step and not begun:
            begun.append(1)
            forget(lake, request(lake, "acme", subject_id=SUBJECT))

    produce(broker, topic, [*run_of(SUBJECT, "p-1"), *run_of(SUBJECT, "p-2", ended=False), *mixture(3)])
    with Running(options, on_step=erase) as running:
        eventually(lambda: begun and running.landed() == end_of(broker, topic) - 1, 30, "landed")
        produce(broker, topic, [*run_of(SUBJECT, "p-2")[4:], *mixture(2, name="after")])
        eventually(lambda: "after-1" in {row["run_id"] for row in read(tmp_path, "runs")}, 30, "landed behind it")
    # What side tables held of the batch before its ledger rows told whose it is, goes in the next round.
    assert not in_flight(lake, options.app_id)
    finish_erasures(lake)
    assert_gone(tmp_path, options.app_id, "p-1", "p-2")
