"""`verify` and `payload` as commands: what they print, where, and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.landkit.terminal import Terminal

TOPIC = "agent.audit.v1"


def test_verify_of_a_sound_lake_exits_0_and_says_what_it_checked(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    rows.write(tmp_path / "lake")
    done = trajlake("verify", "--root", "lake")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("ok: every offset is accounted for exactly once")
    assert f"{len(rows['events'])} events" in done.stdout
    assert f"declared gap: {TOPIC}/0 offsets 0 to 2" in done.stderr


def test_verify_as_json_has_the_figures_that_programs_read(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    rows.write(tmp_path / "lake")
    report = json.loads(trajlake("verify", "--root", "lake", "--json").stdout)
    assert report["ok"] is True
    assert (report["missing"], report["duplicates"], report["problems"]) == ([], [], [])
    assert (report["missing_count"], report["duplicate_count"]) == (0, 0)
    assert report["gaps"] == [{"topic": TOPIC, "partition": 0, "first_offset": 0, "last_offset": 2, "count": 3}]
    assert [part["landed_offset"] for part in report["partitions"]] == [
        rows.next_offset[0] - 1,
        rows.next_offset[1] - 1,
    ]
    assert report["versions"]["events"] == 0


def test_verify_exits_1_and_names_table_partition_offset_and_run(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    lost = rows.drop("events", run_id="run-a", sequence=3)
    rows.drop("steps", run_id="run-b", step_index=2)
    rows.write(tmp_path / "lake")
    done = trajlake("verify", "--root", "lake")
    assert done.returncode == 1
    assert (
        f"wrong: missing_offsets: events, quarantine, gaps {TOPIC}/0 offset {lost['offset']}: no table" in done.stdout
    )
    assert f"steps {TOPIC}/0 offset" in done.stdout
    assert "run acme/run-b: step_count of the run is 3, steps has 2" in done.stdout
    report = json.loads(trajlake("verify", "--root", "lake", "--json").stdout)
    assert report["ok"] is False
    assert [(r["first_offset"], r["count"]) for r in report["missing"]] == [(lost["offset"], 1)]
    assert {problem["code"] for problem in report["problems"]} == {"missing_offsets", "step_count", "event_count"}


def test_verify_of_an_empty_root_exits_2_and_says_what_to_type(trajlake: Any, tmp_path: Path) -> None:
    done = trajlake("verify", "--root", "nothing", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "trajlake land" in done.stderr
    assert not (tmp_path / "nothing").exists()


def test_verify_with_a_broker_that_is_away_exits_2(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    rows.write(tmp_path / "lake")
    done = trajlake("verify", "--root", "lake", "--bootstrap-servers", "127.0.0.1:1")
    assert done.returncode == 2
    assert "no broker answers at 127.0.0.1:1" in done.stderr


@pytest.mark.integration
def test_verify_with_a_broker_counts_what_has_not_landed(
    make_rows: Any, make_topic: Any, broker: str, trajlake: Any, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker, "acks": "all"})
    for number in range(10):
        producer.produce(topic, value=b"x", partition=number % 2)
    assert producer.flush(20) == 0
    made = make_rows(topic=topic)
    for _ in range(3):
        made.event(0, "trajlake.tick", None, None, tenant="")
    made.write(tmp_path / "behind")
    done = trajlake("verify", "--root", "behind", "--json", "--bootstrap-servers", broker)
    assert done.returncode == 0, done.stderr
    parts = {part["partition"]: part for part in json.loads(done.stdout)["partitions"] if part["topic"] == topic}
    assert (parts[0]["end_offset"], parts[0]["lag"]) == (5, 2)
    assert (parts[1]["landed_offset"], parts[1]["lag"]) == (-1, 5)
    for _ in range(3):
        made.event(0, "trajlake.tick", None, None, tenant="")
    made.write(tmp_path / "ahead")
    done = trajlake("verify", "--root", "ahead", "--json", "--bootstrap-servers", broker)
    assert done.returncode == 1
    assert json.loads(done.stdout)["problem_counts"] == {"ahead_of_log": 1}


# Content by reference


def test_T12_payload_prints_and_saves_what_a_row_refers_to(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    reference = rows.store("acme", "ü".encode() * 3000)
    rows.write(tmp_path / "lake")
    done = trajlake("payload", reference, "--tenant", "acme", "--root", "lake")
    assert (done.returncode, done.stdout) == (0, "ü" * 3000)
    done = trajlake("payload", reference, "--tenant", "acme", "--root", "lake", "--output", "out.bin")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out.bin").read_bytes() == "ü".encode() * 3000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "out.bin"]


def test_T12_content_that_was_changed_is_not_handed_out(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    reference = rows.store("acme", b"right")
    lake = rows.write(tmp_path / "lake")
    path = tmp_path / "lake" / lake.payload_path("acme", reference.split(":")[2])
    path.write_bytes(b"wrong")
    done = trajlake("payload", reference, "--tenant", "acme", "--root", "lake")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not match" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["payload:sha256:short:9", "--tenant", "acme"], 2, "is no reference"),
        (["payload:sha256:" + "0" * 64 + ":9", "--tenant", "acme"], 1, "tenant 'acme' has no payload"),
        (["payload:sha256:" + "0" * 64 + ":9", "--tenant", "acme", "--root", "nothing"], 1, "no such folder"),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_line(
    rows: Any, trajlake: Any, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    rows.write(tmp_path / "lake")
    done = trajlake("payload", words[0], "--root", "lake", *words[1:])
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "nothing").exists()


def test_content_of_another_tenant_is_not_handed_out(rows: Any, trajlake: Any, tmp_path: Path) -> None:
    reference = rows.store("rival", b"theirs")
    rows.write(tmp_path / "lake")
    done = trajlake("payload", reference, "--tenant", "acme", "--root", "lake")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("words", ["tables", "runs", "verify", "show run-a", "payload 00 --tenant acme"])
def test_commands_that_read_tables_import_nothing_that_they_do_not_need(words: str, rows: Any, tmp_path: Path) -> None:
    """pandas takes as long to import as all else together, and pyarrow does so at the first chance."""
    rows.write(tmp_path / "lake")
    code = (
        f"import sys; sys.argv = ['trajlake', *{words.split()!r}, '--root', 'lake']\n"
        "import trajlake.cli\n"
        "try: trajlake.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'pyarrow.dataset', 'duckdb', 'faust', 'great_expectations', 'altair', 'hyperscan'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("HEAVY []\n")


def test_what_a_terminal_would_obey_is_shown_and_not_obeyed(make_rows: Any, trajlake: Any, tmp_path: Path) -> None:
    """In a pipe as well, since it may end in a terminal."""
    rows = make_rows()
    rows.whole_run(0, "run\x1b[31m-a\u202e\x07")
    rows.write(tmp_path / "lake")
    command = [sys.executable, "-m", "trajlake", "runs", "--root", str(tmp_path / "lake")]
    with Terminal(command, width=200) as terminal:
        assert terminal.finish() == 0
    for shown in (terminal.written, trajlake("runs", "--root", "lake").stdout):
        assert "run␛[31m-a⟨U+202E⟩␇" in shown
        assert "\x1b[31m" not in shown
    found = json.loads(trajlake("runs", "--root", "lake", "--json").stdout)
    assert found[0]["run_id"] == "run\x1b[31m-a\u202e\x07"
