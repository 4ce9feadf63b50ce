"""Files on disk: found in folders, unpacked, read in pieces, and each reported for itself."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.landkit.told import Told
from trajlake.streams.importing import intake, sourcefiles
from trajlake.streams.importing.intake import import_files
from trajlake.streams.importing.sourcefiles import IntakeError, find_files


class Ledger:
    """Keeps what is published, and tells it back to later imports."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self.asked: list[list[str]] = []

    def publish(self, key: bytes, value: bytes) -> None:
        self.records.append((key, value))

    def known(self, run_ids: Collection[str]) -> dict[str, dict[str, int]]:
        self.asked.append(list(run_ids))
        found: dict[str, dict[str, int]] = {}
        for _, value in self.records:
            event = orjson.loads(value)
            if event["runid"] in run_ids:
                found.setdefault(event["runid"], {})[event["id"]] = event["sequence"]
        return found


def text(session: Any, name: str = "s1", turns: int = 2) -> bytes:
    log = session(name)
    for number in range(turns):
        log.user(f"q{number}")
        log.assistant(f"a{number}")
    return b"".join(json.dumps(record).encode() + b"\n" for record in log.records)


def test_folders_are_looked_through_and_named_files_are_told_from_met_ones(tmp_path: Path) -> None:
    for name in ("a/b/two.jsonl", "a/one.json", ".hidden/x", "a/.secret", "plain.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    found = {file.name: file.was_named for file in find_files([tmp_path, tmp_path / "plain.txt"])}
    assert found == {"a/b/two.jsonl": False, "a/one.json": False, "plain.txt": True}
    with pytest.raises(IntakeError, match="nowhere"):
        find_files([tmp_path / "nowhere"])


def test_an_import_reports_each_file_and_publishes_under_the_runs_key(tmp_path: Path, session: Any) -> None:
    (tmp_path / "s1.jsonl").write_bytes(text(session))
    (tmp_path / "notes.md").write_text("# notes")
    ledger = Ledger()
    report = import_files([tmp_path], publish=ledger.publish, known=ledger.known, tenant="acme")
    notes, log = sorted(report.files, key=lambda found: found.file)
    assert (notes.format, notes.failed, "text that is not JSON" in str(notes.skipped)) == (None, 0, True)
    assert (log.format, log.runs, log.events, log.new, log.known) == ("claude-code", 1, 4, 4, 0)
    assert report.ok
    assert {key for key, _ in ledger.records} == {b"acme/s1"}
    again = import_files([tmp_path], publish=ledger.publish, known=ledger.known, tenant="acme")
    assert (again.total("new"), again.total("known"), again.ok) == (0, 4, True)


def test_an_unknown_file_fails_only_when_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# notes")
    named = import_files([tmp_path / "notes.md"], publish=Ledger().publish)
    assert (named.ok, named.total("failed")) == (False, 1)
    met = import_files([tmp_path], publish=Ledger().publish)
    assert (met.ok, met.total("failed")) == (False, 0)


def test_a_format_asked_for_by_name_refuses_other_files(tmp_path: Path, session: Any) -> None:
    (tmp_path / "s1.jsonl").write_bytes(text(session))
    report = import_files([tmp_path / "s1.jsonl"], publish=Ledger().publish, format="atif")
    assert "does not look like ATIF trajectory" in str(report.files[0].skipped)
    with pytest.raises(IntakeError, match="no format named 'nope'"):
        import_files([tmp_path], publish=Ledger().publish, format="nope")


def test_gzip_is_unpacked_by_content_and_gives_the_same_events(tmp_path: Path, session: Any) -> None:
    (tmp_path / "s1.jsonl").write_bytes(text(session))
    (tmp_path / "packed").write_bytes(gzip.compress(text(session)))
    plain, packed = Ledger(), Ledger()
    import_files([tmp_path / "s1.jsonl"], publish=plain.publish)
    import_files([tmp_path / "packed"], publish=packed.publish)
    assert [orjson.loads(value)["id"] for _, value in packed.records] == [
        orjson.loads(value)["id"] for _, value in plain.records
    ]


def test_L10_a_damaged_archive_gives_what_it_holds_and_the_other_files_go_on(tmp_path: Path, session: Any) -> None:
    long = text(session, "long", 3000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(long, 1)[: len(gzip.compress(long, 1)) // 2])
    (tmp_path / "b.jsonl").write_bytes(text(session, "good"))
    ledger = Ledger()
    report = import_files([tmp_path], publish=ledger.publish)
    broken, good = report.files
    assert broken.failed == 1
    assert broken.problems[0].place == "file"
    assert good.new == 4
    assert broken.new > 100


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_L10_a_file_that_may_not_be_read_is_a_problem_of_its_own(tmp_path: Path, session: Any) -> None:
    (tmp_path / "a.jsonl").write_bytes(text(session))
    (tmp_path / "a.jsonl").chmod(0)
    (tmp_path / "b.jsonl").write_bytes(text(session, "s2"))
    report = import_files([tmp_path], publish=Ledger().publish)
    assert [found.failed for found in report.files] == [1, 0]
    assert str(tmp_path) not in report.files[0].problems[0].reason


def test_what_the_publisher_raises_stops_the_import(tmp_path: Path, session: Any) -> None:
    (tmp_path / "s1.jsonl").write_bytes(text(session))

    def publish(key: bytes, value: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        import_files([tmp_path], publish=publish)


def test_known_events_are_asked_for_many_runs_at_once(tmp_path: Path, session: Any) -> None:
    for number in range(50):
        (tmp_path / f"{number}.jsonl").write_bytes(text(session, f"s{number}", 1))
    ledger = Ledger()
    import_files([tmp_path], publish=ledger.publish, known=ledger.known)
    assert [len(asked) for asked in ledger.asked] == [50]


def test_memory_stays_bounded_by_the_window(tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "WINDOW_EVENTS", 7)
    (tmp_path / "s1.jsonl").write_bytes(text(session, "s1", 100))
    ledger = Ledger()
    widths: list[int] = []

    def known(run_ids: Collection[str]) -> dict[str, dict[str, int]]:
        widths.append(len(ledger.records))
        return {}

    import_files([tmp_path], publish=ledger.publish, known=known)
    assert widths == [0]
    sequences = [orjson.loads(value)["sequence"] for _, value in ledger.records]
    assert sequences == list(range(1, 103))


def test_an_event_too_large_for_any_broker_is_reported_and_leaves_no_hole(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "EVENT_MAX_BYTES", 5000)
    log = session()
    log.user("q")
    log.assistant(log.call("a"))
    log.result("a", "x" * 6000)
    log.assistant("b")
    (tmp_path / "s1.jsonl").write_bytes(b"\n".join(json.dumps(record).encode() for record in log.records))
    ledger = Ledger()
    report = import_files([tmp_path], publish=ledger.publish)
    assert report.files[0].failed == 1
    assert report.files[0].problems[0].place == "line 3"
    assert [orjson.loads(value)["sequence"] for _, value in ledger.records] == [1, 2, 3, 4]


def test_progress_counts_the_bytes_that_were_read(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sourcefiles, "CHUNK_BYTES", 100)
    content = text(session)
    (tmp_path / "s1.jsonl").write_bytes(content)
    told = Told()
    import_files([tmp_path], publish=Ledger().publish, progress=told)
    assert [(stage.text, stage.total, stage.done) for stage in told.stages] == [
        ("looking through the files", len(content), len(content)),
        ("importing", len(content), len(content)),
    ]
    assert told["importing"].names == ["importing s1.jsonl"]
