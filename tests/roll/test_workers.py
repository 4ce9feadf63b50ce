"""Rolling workers on a real Kafka: killed, joined and left by others, their numbers equal a recount of `runs`."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from tests.conftest import Eventually
from tests.landkit.events import Sent
from tests.landkit.running import Running
from tests.roll.harness import ENDS, START, RollProcess, counted, exact, publish, recount, roll_plan, run_events
from trajlake.streams.roll.guard import EXIT_STATE
from trajlake.streams.roll.rebuild import RollError, rebuild
from trajlake.streams.roll.store import value_key
from trajlake.streams.roll.topics import changelog_topics
from trajlake.streams.settings import Settings, load_settings

pytestmark = pytest.mark.integration
SKILLS = [f"skill-{n}" for n in range(8)]


def some_runs(random: Random, count: int, name: str) -> list[Sent]:
    """Runs of all skills with any outcome, within four days, in no order of time."""
    sent: list[Sent] = []
    for number in range(count):
        ended = START + timedelta(minutes=random.randint(0, 4 * 24 * 60), microseconds=number)
        sent += run_events(
            random.choice(SKILLS), f"{name}-{number}", ended, random.choice(list(ENDS)),
            tier=random.choice(("cheap", "upper")), cost=random.choice((None, 0.0012345, 0.25)),
        )  # fmt: skip
    return sent


@pytest.mark.slow
def test_killed_rebalanced_and_joined_the_numbers_stay_exact(
    broker: str, tmp_path: Path, eventually: Eventually
) -> None:
    options = roll_plan(broker, tmp_path)
    random = Random(3)
    topic = options["events_topic"]
    with Running(load_settings(**options)), RollProcess(options) as first:
        publish(broker, topic, some_runs(random, 150, "a"))
        eventually(first.ready, 60, "first worker ready")
        publish(broker, topic, some_runs(random, 150, "b"))
        eventually(lambda: counted([first]), 30, "first statistics")
        first.kill()
        killed = time.monotonic()
        publish(broker, topic, some_runs(random, 100, "c"))
        with RollProcess(options) as second:
            eventually(second.ready, 60, "back in service")
            back_s = time.monotonic() - killed
            eventually(lambda: len(recount(tmp_path)) == len(SKILLS) and total(tmp_path) == 400, 30, "all landed")
            exact([second], tmp_path, 30, "exact after a kill")
            with RollProcess(options) as third:
                eventually(third.ready, 60, "a worker joined")
                publish(broker, topic, some_runs(random, 100, "d"))
                eventually(lambda: total(tmp_path) == 500, 30, "all landed")
                exact([second, third], tmp_path, 60, "exact after a worker joined")
                assert all(counted([worker]) for worker in (second, third)), "both hold skills"
                listed = eventually(lambda: third.get("/skills?window=30d"), 10)
                assert [row["skill"] for row in listed["skills"]] == SKILLS
                there = counted([second]).keys() - counted([third]).keys()
                tenant, skill = sorted(there)[0]
                assert third.get(f"/skills/{tenant}/{skill}")["skill_name"] == skill, "routed to the one that holds it"
                second.kill()
                exact([third], tmp_path, 60, "exact when the other is gone")
                third.kill()
        settings = load_settings(**options)
        eventually(lambda: _rebuilt(settings), 40, "nobody works any more")
        with RollProcess(options) as fourth:
            eventually(fourth.ready, 60, "ready after the rebuild")
            exact([fourth], tmp_path, 30, "exact after a rebuild from the tables")
    print(f"back in service {back_s:.1f} s after a kill")


def test_a_changelog_that_cannot_be_read_ends_the_worker(broker: str, tmp_path: Path, eventually: Eventually) -> None:
    options = roll_plan(broker, tmp_path, partitions=1)
    changelog = changelog_topics(load_settings(**options))[0]
    publish(broker, changelog, [Sent(value_key(0, "acme", "mail", "s"), b"not what was stored")])
    with RollProcess(options) as worker:
        eventually(lambda: worker.process.poll() is not None, 60, "the worker ends")
        assert worker.process.returncode == EXIT_STATE, worker.tail()
        assert "recovery of table skills" in worker.tail()


def test_metrics_tell_that_everything_announced_was_applied(
    broker: str, tmp_path: Path, eventually: Eventually
) -> None:
    options = roll_plan(broker, tmp_path, partitions=1)
    with Running(load_settings(**options)), RollProcess(options) as worker:
        publish(broker, options["events_topic"], some_runs(Random(4), 20, "m"))
        eventually(lambda: worker.metric("trajlake_roll_runs_total") == 20, 60, "all applied")
        eventually(lambda: worker.metric("trajlake_roll_lag_messages") == 0, 30, "nothing left to read")
        assert worker.metric("trajlake_roll_ready") == 1
        assert worker.metric("trajlake_roll_worker_restarts_total") == 0
        assert abs(worker.metric("trajlake_roll_applied_timestamp_seconds") - time.time()) < 600


def _rebuilt(settings: Settings) -> bool:
    try:
        return bool(rebuild(settings))
    except RollError:
        return False


def total(root: Path) -> int:
    """Runs in the table."""
    return sum(sum(found["counts"].values()) for found in recount(root).values())
