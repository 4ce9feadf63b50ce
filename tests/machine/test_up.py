"""`trajlake up` on a real Kafka: started, fed, one of its services killed, stopped; nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Eventually
from tests.landkit.processes import processes_of
from trajlake import Recorder
from trajlake.machine.services import Choices, Service, services
from trajlake.machine.supervisor import ServiceRefused, Supervisor
from trajlake.reading.skills import current_statistics
from trajlake.reading.tables import open_lake
from trajlake.streams.broker import EmbeddedBroker, free_port
from trajlake.streams.settings import load_settings

COMMAND = [sys.executable, "-P", "-m", "trajlake", "up"]


class Up:
    """The command as a process, and what it says."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.folder = folder
        self.said = folder / "said.jsonl"
        self.errors = folder / "errors.txt"
        ports = dict.fromkeys(("TRAJLAKE_HEALTH_PORT", "TRAJLAKE_CURATE_PORT", "TRAJLAKE_MAINTAIN_PORT"), "0")
        ports["TRAJLAKE_ROLL_PORT"] = str(free_port())
        with self.said.open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(
                [*COMMAND, "--root", str(folder / "lake"), "--port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env={**os.environ, **ports, **environment},
            )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said.read_text().splitlines()]

    def state(self, name: str) -> dict[str, Any]:
        """What was told last of a service."""
        return next((line for line in reversed(self.lines()) if line.get("service", line.get("name")) == name), {})

    def ready(self) -> bool:
        names = ("kafka", "land", "roll", "curate", "maintain", "dashboard")
        return self.process.poll() is not None or all(self.state(name).get("state") == "ready" for name in names)

    def left(self) -> list[str]:
        """Everything that still runs and has to do with this folder."""
        return [str(process) for process in processes_of(self.folder)]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Up]]:
    """Ups of a test; what a failed one left is ended."""
    made: list[Up] = []
    yield made
    for up in made:
        up.process.kill()
        for process in processes_of(up.folder):
            with suppress(psutil.Error):
                process.kill()


@pytest.mark.integration
@pytest.mark.slow
def test_all_of_it_runs_heals_and_stops(tmp_path: Path, started: list[Up], eventually: Eventually) -> None:
    up = Up(tmp_path, "--json", "--broker-port", "0", TRAJLAKE_STATS_ROWS_INTERVAL_MS="200")
    started.append(up)
    eventually(up.ready, 150, "everything is ready")
    assert up.process.poll() is None, up.errors.read_text()
    servers = up.state("kafka")["detail"]
    publish(servers, tmp_path / "spool", "a")
    root = str(tmp_path / "lake")
    eventually(lambda: counted(root) == {"refund": 3}, 60, "statistics of three runs")
    page = up.lines()[0]["addresses"]["dashboard"]
    eventually(lambda: "refund" in read(f"{page}skills"), 30, "the skill is on its page")
    eventually(lambda: rows(root, "curation") == 3, 60, "three verdicts")

    killed = up.state("land")["pid"]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: up.state("land").get("restarts") == 1 and up.state("land")["state"] == "ready", 90, "land again")
    assert up.state("land")["pid"] != killed
    publish(servers, tmp_path / "spool", "b")
    eventually(lambda: counted(root) == {"refund": 6}, 60, "statistics of six runs")

    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(20) == 0
    assert up.errors.read_text() == ""
    told = [line["name"] for line in up.lines() if line.get("state") == "stopped"]
    assert set(told[:4]) == {"land", "roll", "curate", "maintain"}
    assert told[4:] == ["dashboard", "kafka"]
    eventually(lambda: up.left() == [], 10, "nothing left running")


@pytest.mark.integration
@pytest.mark.slow
def test_a_stop_while_kafka_starts_is_heard_and_a_second_up_is_told(
    tmp_path: Path, started: list[Up], eventually: Eventually
) -> None:
    up = Up(tmp_path, "--json", "--broker-port", "0")
    started.append(up)
    eventually(lambda: up.state("kafka"), 60, "kafka is being started")
    second = subprocess.run(
        [*COMMAND, "--root", str(tmp_path / "lake"), "--broker-port", "0"],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert "another `trajlake up` runs on this lake" in second.stderr
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    eventually(lambda: up.left() == [], 10, "nothing left running")


@pytest.mark.integration
@pytest.mark.slow
def test_kafka_of_a_killed_up_is_the_next_ones_and_somebody_elses_is_left_running(
    tmp_path: Path, started: list[Up], eventually: Eventually
) -> None:
    killed = Up(tmp_path, "--json", "--broker-port", "0", "--no-dashboard")
    started.append(killed)
    eventually(lambda: killed.state("kafka").get("state") == "ready", 90, "kafka")
    killed.process.kill()
    pid = killed.state("kafka")["pid"]
    killed.process.wait(20)
    assert psutil.pid_exists(pid)
    following = Up(tmp_path, "--json", "--broker-port", "0", "--no-dashboard")
    started.append(following)
    eventually(lambda: following.state("kafka").get("state") == "ready", 90, "the same kafka")
    assert following.state("kafka")["pid"] == pid
    following.process.send_signal(signal.SIGTERM)
    assert following.process.wait(30) == 0
    eventually(lambda: following.left() == [], 20, "nothing left running")

    with EmbeddedBroker(tmp_path / ".trajlake" / "broker") as theirs:
        guest = Up(tmp_path, "--json", "--broker-port", "0", "--no-dashboard")
        started.append(guest)
        eventually(lambda: guest.state("kafka").get("state") == "ready", 90, "their kafka")
        guest.process.send_signal(signal.SIGTERM)
        assert guest.process.wait(30) == 0
        assert theirs.pid == guest.state("kafka")["pid"]
    eventually(lambda: guest.left() == [], 20, "nothing left running")


def test_a_service_that_refuses_its_settings_stops_all_with_its_words(tmp_path: Path) -> None:
    told: list[str] = []
    wrong = [Service("query", ("--no-such-option",)), Service("curate", ("--every", "60"))]
    environment = {"TRAJLAKE_ROOT": str(tmp_path / "lake")}
    supervisor = Supervisor(
        wrong, None, tmp_path, environment, lambda state: told.append(f"{state.name} {state.state}")
    )
    with pytest.raises(ServiceRefused, match="no-such-option"):
        supervisor.run()
    assert told[-2:] == ["curate stopping", "curate stopped"]


@pytest.mark.parametrize(
    ("options", "environment", "said", "code"),
    [
        (("--broker-port", "9"), {"TRAJLAKE_BOOTSTRAP_SERVERS": "127.0.0.1:9"}, "--broker-port", 2),
        (("--policies", "absent"), {}, "setting policies", 2),
        (("--workers", "0"), {}, "--workers", 2),
        ((), {"TRAJLAKE_BATCH_MAX_ROWS": "x"}, "setting batch_max_rows", 2),
        ((), {"TRAJLAKE_SUITES": "absent"}, "absent", 2),
        ((), {"TRAJLAKE_LEVERS_FILE": "absent.yaml"}, "absent.yaml", 2),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], said: str, code: int
) -> None:
    done = subprocess.run(
        [*COMMAND, "--root", str(tmp_path / "lake"), *options],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **environment}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert said in done.stderr
    assert not (tmp_path / ".trajlake").exists()


def test_roll_says_at_its_start_that_the_lever_file_is_wrong(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trajlake", "roll", "--root", str(tmp_path), "--bootstrap-servers", "127.0.0.1:1"],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
        env={**os.environ, "TRAJLAKE_LEVERS_FILE": "absent.yaml"},
    )  # fmt: skip
    assert (done.returncode, "absent.yaml" in done.stderr) == (2, True)


def test_ports_that_are_left_open_are_free_ones_and_differ(tmp_path: Path) -> None:
    settings = load_settings(root=str(tmp_path), health_port=0)
    found = {service.name: service for service in services(settings, Choices(dashboard_port=0))}
    assert ":0/" not in found["land"].ready_url + found["dashboard"].ready_url
    assert found["land"].ready_url != found["dashboard"].ready_url
    assert [service.name for service in services(settings, Choices(dashboard=False))] == [
        "land", "roll", "curate", "maintain",
    ]  # fmt: skip


def publish(servers: str, spool: Path, name: str) -> None:
    recorder = Recorder("acme", source="urn:test", bootstrap_servers=servers, spool=spool)
    for number in range(3):
        with recorder.run(run_id=f"{name}-{number}", skill="refund", skill_version="1") as run:
            with run.step() as step:
                step.respond(message="done")
            run.end(success=True)
    deadline = time.monotonic() + 60
    while recorder.flush(5) and time.monotonic() < deadline:
        pass
    recorder.close()


def counted(root: str) -> dict[str, int]:
    told = current_statistics(open_lake(root), window="30d")
    return {row["skill_name"]: row["runs"] for row in told.iter_rows(named=True)}


def rows(root: str, table: str) -> int:
    return len(open_lake(root).frame(table).collect())


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
