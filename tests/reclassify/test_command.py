"""`trajlake reclassify` on a real Kafka: beside workers, killed, twice at a time, and where nobody answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests.keeping.conftest import RunCommand, Said
from tests.landkit.events import Sent, event
from tests.landkit.kafka import produce
from tests.landkit.killed import Killed, kill_at
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import Running, land_all
from tests.outcomes.test_announcing import announced, applied, recounted
from tests.reclassify.conftest import Kafka
from tests.reclassify.lab import QUOTA, run_of, tick
from tests.reclassify.rules import classified_by, without_quota
from tests.reclassify.test_landing import FAILED
from trajlake.streams.keeping.asking import NothingLands
from trajlake.streams.keeping.reclassify import Reclassified, reclassify
from trajlake.streams.keeping.rejudging import Wanted
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION

pytestmark = pytest.mark.integration
REPO = Path(__file__).resolve().parents[2]


def history(count: int = 6) -> list[Sent]:
    """Runs of two skills, half of them refused by quota."""
    sent: list[Sent] = []
    for n in range(count):
        sent += run_of(f"q{n}", QUOTA, end=FAILED, skill="mail" if n % 2 else "sort")
        sent += run_of(f"ok{n}", {})
    return sent


def expected(count: int = 6) -> dict[str, list[tuple[int, str]]]:
    """What the rows of `history` are once it has been classified again."""
    return {f"q{n}": [(0, "config"), (1, "quota")] for n in range(count)} | {
        f"ok{n}": [(0, "success")] for n in range(count)
    }


def classify(kafka: Kafka, **options: object) -> Reclassified:
    return reclassify(kafka.lake, kafka.settings, Wanted(), **options)  # type: ignore[arg-type]


# Saying what would change


@pytest.fixture
def command(kafka: Kafka, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """The command on the test's own lake, topic and Kafka."""
    for name in ("root", "events_topic", "outcomes_topic", "bootstrap_servers"):
        monkeypatch.setenv(f"TRAJLAKE_{name.upper()}", kafka.options[name])
    return lambda *arguments: run_command("reclassify", *arguments)


def test_a_dry_run_shows_what_would_change_and_needs_nobody(kafka: Kafka, command: Callable[..., Said]) -> None:
    kafka.land_by_older_rules(history())
    before = len(kafka.rows())
    nowhere = ("--bootstrap-servers", "127.0.0.1:1", "--dry-run")
    said = command(*nowhere)
    assert said.exit_code == 0, said.output
    assert said.stdout.splitlines() == [
        "tenant\tskill\tfrom\tto\truns",
        "acme\tmail\tconfig/bad_request\tquota/quota_exhausted\t3",
        "acme\tsort\tconfig/bad_request\tquota/quota_exhausted\t3",
        f"12 runs judged by rules {CLASSIFIER_REVISION}: 6 would change, with 6 of their steps",
    ]
    told = json.loads(command(*nowhere, "--skill", "mail", "--json").stdout)
    change = {
        "tenant_id": "acme", "skill_name": "mail", "from_class": "config", "from_kind": "bad_request",
        "to_class": "quota", "to_kind": "quota_exhausted", "runs": 3,
    }  # fmt: skip
    assert told == {
        "revision": CLASSIFIER_REVISION, "judged": 9, "changed": 3, "steps": 3, "untold": 0, "changes": [change],
    }  # fmt: skip
    for option, judged in (
        (("--since", "2099-01-01T00:00:00Z"), 0), (("--until", "2099-01-01T00:00:00Z"), 12), (("--run", "q1"), 1),
        (("--tenant", "other"), 0),
    ):  # fmt: skip
        assert json.loads(command(*nowhere, *option, "--json").stdout)["judged"] == judged
    assert len(kafka.rows()) == before


def test_what_is_asked_wrongly_is_said_in_one_line(
    kafka: Kafka, command: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = command("--dry-run")
    assert (said.exit_code, said.stderr) == (2, f"trajlake: no runs at {kafka.root}\n")
    kafka.land_by_older_rules(history(1))
    said = command("--since", "yesterday")
    assert (said.exit_code, said.stderr) == (2, "trajlake: --since: 'yesterday' is no RFC 3339 time\n")
    monkeypatch.setenv("TRAJLAKE_EVENTS_TOPIC", "another")
    said = command("--dry-run")
    assert said.exit_code == 2
    assert said.stderr.startswith("trajlake: nothing of topic another has landed in")


# Beside workers


def test_beside_a_worker_history_is_written_anew_and_announced(kafka: Kafka, command: Callable[..., Said]) -> None:
    kafka.land_by_older_rules(history())
    kafka.land_by_older_rules(run_of("other", QUOTA, end=FAILED), 1)
    with Running(kafka.settings) as running:
        said = command("--by", "ops")
        assert said.exit_code == 0, said.output
        assert said.stdout.splitlines()[-2:] == [
            f"13 runs judged by rules {CLASSIFIER_REVISION}: 7 change, with 7 of their steps",
            "7 runs have a further revision",
        ]
        assert classify(kafka).asked == 0
        kafka.eventually(lambda: running.worker._outcomes.idle, 20, "announced")
    assert kafka.revisions() == expected() | {"other": [(0, "config"), (1, "quota")]}
    kafka.assert_proved()
    asked = [row for row in kafka.rows("events") if row["type"] == "trajlake.reclassify"]
    assert {json.loads(row["event"])["data"]["requested_by"] for row in asked} == {"ops"}
    assert applied(announced(kafka.broker, kafka.settings.outcomes_topic, 1)) == recounted(kafka.root)


def test_beside_late_events_of_the_same_runs_revisions_stay_whole(kafka: Kafka) -> None:
    kafka.land_by_older_rules(history(40))
    with Running(kafka.settings) as running:
        done: list[Reclassified] = []
        asking = Thread(target=lambda: done.append(classify(kafka)))
        asking.start()
        for n in range(40):
            late = [event("model.responded", f"q{n}", 4, {"message": "late"}), event("run.ended", f"q{n}", 5, FAILED)]
            produce(kafka.broker, kafka.topic, [*late, *run_of(f"new{n}", {})])
        asking.join(60)
        kafka.eventually(kafka.landed(running), 30, "landed")
        classify(kafka)
    assert done
    for run, rows in kafka.revisions().items():
        assert [revision for revision, _ in rows] == list(range(len(rows))), run
        assert rows[-1][1] == ("quota" if run.startswith("q") else "success")
    kafka.assert_proved()


def test_runs_that_the_worker_has_forgotten_are_written_anew(kafka: Kafka) -> None:
    kafka.land_by_older_rules([*history(), tick(forget_us=0)])
    with Running(kafka.settings):
        assert classify(kafka).done == 6
        assert classify(kafka).asked == 0
    assert kafka.revisions() == expected()
    kafka.assert_proved()


def test_two_calls_at_a_time_write_each_run_anew_once(kafka: Kafka) -> None:
    kafka.land_by_older_rules([*history(30), tick(forget_us=0)])
    with Running(kafka.settings):
        done: list[Reclassified] = []
        calls = [Thread(target=lambda: done.append(classify(kafka))) for _ in range(2)]
        for call in calls:
            call.start()
        for call in calls:
            call.join(60)
        assert len(done) == 2
    assert kafka.revisions() == expected(30)
    kafka.assert_proved()


# Broken off


@pytest.mark.parametrize("step", ["1 catch up", "2 judge", "3 ask", "4 await"])
def test_killed_at_any_step_the_next_call_ends_the_same(kafka: Kafka, step: str) -> None:
    kafka.land_by_older_rules(history())
    with Running(kafka.settings):
        with pytest.raises(Killed):
            classify(kafka, on_step=kill_at(step))
        classify(kafka)
        assert classify(kafka).asked == 0
    assert kafka.revisions() == expected()
    kafka.assert_proved()


CALL_THAT_KILLS_ITSELF = """
import json, os, signal, sys
from trajlake.streams.keeping.reclassify import reclassify
from trajlake.streams.keeping.rejudging import Wanted
from trajlake.streams.settings import load_settings
settings = load_settings(**json.loads(sys.argv[1]))
reclassify(settings.lake(), settings, Wanted(),
           on_step=lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == sys.argv[2] else None)
"""


def test_a_process_killed_with_9_leaves_requests_that_are_met_without_it(kafka: Kafka) -> None:
    kafka.land_by_older_rules(history())
    command = [sys.executable, "-c", CALL_THAT_KILLS_ITSELF, json.dumps(kafka.options), "4 await"]
    with Running(kafka.settings):
        ended = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        done = classify(kafka)
    assert (done.asked, done.changed) == (0, 0)
    assert kafka.revisions() == expected()
    kafka.assert_proved()


@pytest.mark.parametrize("step", ["3 steps", "3 runs", "4 events", "5 snapshot"])
def test_a_worker_killed_while_it_meets_requests_is_followed_by_one_that_does(kafka: Kafka, step: str) -> None:
    kafka.land_by_older_rules(history())
    with pytest.raises(NothingLands):
        classify(kafka, patience_s=1.0)
    with WorkerProcess(kafka.options, kill_at=step) as worker:
        assert worker.end(90) == -signal.SIGKILL, worker.tail()
    land_all(kafka.broker, kafka.topic, kafka.root, **kafka.own)
    assert kafka.revisions() == expected()
    kafka.assert_proved()


# Where nobody answers


def test_where_nothing_lands_it_says_so_and_goes_on_later(kafka: Kafka, command: Callable[..., Said]) -> None:
    kafka.land_by_older_rules(history())
    said = command("--wait", "1")
    assert said.exit_code == 1
    assert "Is `trajlake land` running? Once it does, run this again" in said.stderr
    # What is in the log waits for a worker; until then a second call asks for nothing.
    with pytest.raises(NothingLands):
        classify(kafka, patience_s=1.0)
    with Running(kafka.settings):
        assert classify(kafka).asked == 0
    assert kafka.revisions() == expected()


def test_workers_under_other_rules_refuse_and_the_call_says_so(kafka: Kafka) -> None:
    kafka.land_by_older_rules(history())
    call = [sys.executable, "-c", CALL_THAT_KILLS_ITSELF, json.dumps(kafka.options), "never"]
    with classified_by(without_quota()), Running(kafka.settings):
        ended = subprocess.run(call, cwd=REPO, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "6 requests were refused: land workers classify by other rules than" in ended.stderr
    assert kafka.revisions() == {run: rows[:1] for run, rows in expected().items()}
    assert {row["reason_code"] for row in kafka.rows("quarantine")} == {"other_rules"}
    with Running(kafka.settings):
        assert classify(kafka).done == 6
    kafka.assert_proved()
