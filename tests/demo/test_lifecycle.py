"""What a demo starts it stops, however it ends; what it was told to keep goes on."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import polars as pl
import psutil
import pytest

from tests.demo.conftest import Place, read_until
from trajlake.demo.errors import DemoError
from trajlake.demo.site import Site, site_folder
from trajlake.reading.tables import open_lake


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "while_it_says"),
    [
        (signal.SIGINT, "starting Kafka"),
        (signal.SIGTERM, "running"),
        (signal.SIGHUP, "landing"),
        (signal.SIGINT, "curating"),
    ],
    ids=["Ctrl-C while Kafka starts", "SIGTERM while agents work", "SIGHUP while it waits", "Ctrl-C in curation"],
)
def test_a_demo_that_is_stopped_stops_all_that_it_started(
    place: Place, sign: signal.Signals, while_it_says: str
) -> None:
    with place.start("--runs", "40") as process:
        read_until(process, while_it_says)
        process.send_signal(sign)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + sign
    assert f"stopped by {sign.name}" in stderr
    assert "Traceback" not in stderr
    assert place.processes() == []


@pytest.mark.integration
@pytest.mark.slow
def test_what_is_kept_goes_on_serves_the_next_demo_and_stops_as_told(place: Place) -> None:
    first = place.demo("--runs", "2", "--keep")
    assert first.code == 0, first.stderr
    running = {process.pid for process in place.processes()}
    (found,) = re.findall(r"^  kill (\d+ \d+)$", first.stdout, re.MULTILINE)
    workers = {int(pid) for pid in found.split()}
    assert workers <= running
    second = place.demo("--runs", "3", "--json")
    assert second.code == 0, second.stderr
    assert second.said["runs"] == 5
    assert {process.pid for process in place.processes()} == running
    (stop,) = re.findall(r"^  trajlake (broker stop --data \S+)$", first.stdout, re.MULTILINE)
    for process in [psutil.Process(pid) for pid in workers]:
        process.terminate()
        process.wait(30)
    assert "Kafka stopped" in place.trajlake(*stop.split()).stdout
    assert place.processes() == []


@pytest.mark.integration
@pytest.mark.slow
def test_what_a_killed_demo_left_behind_is_stopped_by_the_next_one(place: Place) -> None:
    with place.start("--runs", "40") as process:
        read_until(process, "agents: 40 of 40")
        process.kill()
    assert place.processes()
    done = place.demo("--runs", "2", "--json")
    assert done.code == 0, done.stderr
    assert place.processes() == []
    # What the killed one had published is not lost either. Its forgotten runs may still be open.
    seen = open_lake(str(place.root)).events().select(pl.col("run_id").drop_nulls().n_unique()).collect().item()
    assert seen == 42


def test_settings_of_another_kafka_are_not_the_demos(place: Place) -> None:
    from trajlake.demo.site import _environment
    from trajlake.streams.settings import load_settings

    elsewhere = load_settings(root=str(place.root), kafka_options={"sasl.password": "x" * 8})
    here = elsewhere.model_copy(update={"bootstrap_servers": "127.0.0.1:1", "kafka_options": {}})
    given = _environment(here)
    assert given["TRAJLAKE_KAFKA_OPTIONS"] == "{}"
    assert given["TRAJLAKE_BOOTSTRAP_SERVERS"] == "127.0.0.1:1"


def test_only_one_demo_at_a_time_has_a_lake(tmp_path: Path) -> None:
    with Site(str(tmp_path / "lake"), 512, lambda: None), pytest.raises(DemoError, match="another demo is at work"):
        Site(str(tmp_path / "lake"), 512, lambda: None).__enter__()
    with Site(str(tmp_path / "lake"), 512, lambda: None):
        pass


def test_a_demo_has_a_folder_beside_its_lake_never_in_it() -> None:
    assert site_folder("/data/a/lake") == Path("/data/a/.trajlake/demo/lake")
    assert site_folder("/data/b/lake") != site_folder("/data/a/lake")
    remote = site_folder("s3://bucket/lake")
    assert remote == Path.cwd() / ".trajlake" / "demo" / "s3-bucket-lake"
    assert site_folder("s3://bucket/other") != remote


def test_an_import_that_is_not_there_is_said_before_anything_starts(place: Place) -> None:
    done = place.demo("--import", str(place.folder / "absent.jsonl"))
    assert done.code == 2
    assert "absent.jsonl" in done.stderr
    assert not (place.folder / ".trajlake").exists()


def test_a_place_that_cannot_be_written_is_named(place: Place) -> None:
    (place.folder / ".trajlake").write_text("a file where the demo's folder would be")
    done = place.demo("--runs", "1")
    assert done.code == 1
    assert str(place.folder / ".trajlake") in done.stderr
    assert "--root" in done.stderr
