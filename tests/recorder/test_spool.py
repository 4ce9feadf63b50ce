"""The spool: nothing that was appended is lost, and nothing that was acknowledged comes again."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trajlake.streams.publish.frames import frame
from trajlake.streams.publish.spool import MAGIC, Entry, SpoolLog
from trajlake.streams.publish.spoolfolder import SpoolFolder

SERVERS = "kafka-1:9092,kafka-2:9092"


def open_folder(root: Path, **options: Any) -> tuple[SpoolLog, list[SpoolLog]]:
    return SpoolFolder(root, "audit", SERVERS, **options).open()


def die(log: SpoolLog) -> None:
    """What the death of the process does to its log: files closed, lock gone, nothing else."""
    log.forget()


def read_all(log: SpoolLog, max_bytes: int = 1 << 20) -> list[Entry]:
    entries: list[Entry] = []
    while found := log.read(max_bytes):
        entries += found
    return entries


def values(entries: list[Entry]) -> list[bytes]:
    return [entry.value for entry in entries]


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [frame(b"key", b"event %d" % number) for number in range(start, start + count)]


def test_what_a_dead_process_left_is_read_by_the_next_one_in_order(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path, segment_bytes=100)
    for number in range(20):
        log.append(numbered(1, number))
    die(log)
    _, (orphan,) = open_folder(tmp_path)
    assert orphan.count_unread() == 20
    assert values(read_all(orphan)) == [b"event %d" % number for number in range(20)]


def test_what_was_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path, segment_bytes=100)
    ends = [log.append(numbered(1, number))[0] for number in range(20)]
    log.acknowledge(ends[12])
    die(log)
    _, (orphan,) = open_folder(tmp_path)
    assert values(read_all(orphan)) == [b"event %d" % number for number in range(13, 20)]


def test_a_log_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path)
    log.append(numbered(3))
    _, orphans = open_folder(tmp_path)
    assert orphans == []


def test_an_adopted_log_is_adopted_once(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path)
    log.append(numbered(3))
    die(log)
    _, first = open_folder(tmp_path)
    _, second = open_folder(tmp_path)
    assert (len(first), len(second)) == (1, 0)


def test_logs_are_adopted_oldest_first(tmp_path: Path) -> None:
    for number in range(3):
        log, orphans = open_folder(tmp_path)
        assert len(orphans) == number
        log.append(numbered(1, number))
        for each in [*orphans, log]:
            die(each)
    _, orphans = open_folder(tmp_path)
    assert [values(read_all(orphan)) for orphan in orphans] == [[b"event 0"], [b"event 1"], [b"event 2"]]


def test_nothing_is_left_behind_once_all_is_acknowledged(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path)
    end = log.append(numbered(3))[-1]
    log.skip_to(end)
    log.acknowledge(end)
    log.close()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["adopt.lock"]


def test_segments_behind_the_cursor_are_deleted(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path, segment_bytes=100)
    ends = [log.append(numbered(1, number))[0] for number in range(20)]
    before = log.size_bytes
    log.acknowledge(ends[-1])
    assert log.size_bytes < before / 4
    assert len(list(log.folder.glob("*.log"))) == 1


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_torn_tail_costs_only_the_event_that_it_tore(tmp_path: Path, cut: int) -> None:
    log, _ = open_folder(tmp_path)
    log.append(numbered(3))
    die(log)
    segment = next(log.folder.glob("*.log"))
    last = len(numbered(1, 2)[0])
    os.truncate(segment, segment.stat().st_size - min(cut, last))
    _, (orphan,) = open_folder(tmp_path)
    assert values(read_all(orphan)) == [b"event 0", b"event 1"]
    assert orphan.is_read


def test_a_damaged_frame_is_reported_and_kept_and_later_segments_are_read(tmp_path: Path) -> None:
    seen: list[tuple[Path, int]] = []
    log, _ = open_folder(tmp_path, segment_bytes=50)
    log.append(numbered(3))
    log.append(numbered(1, 3))
    die(log)
    first = min(log.folder.glob("*.log"))
    content = bytearray(first.read_bytes())
    content[len(MAGIC) + len(numbered(1)[0]) + 20] ^= 1
    first.write_bytes(content)
    _, (orphan,) = open_folder(tmp_path, on_damage=lambda path, size: seen.append((path, size)))
    assert values(read_all(orphan)) == [b"event 0", b"event 3"]
    ((path, size),) = seen
    assert path.stat().st_size == size == 2 * len(numbered(1)[0])
    assert b"event 2" in path.read_bytes()


def test_a_file_that_is_no_segment_is_kept_and_not_read(tmp_path: Path) -> None:
    seen: list[Path] = []
    log, _ = open_folder(tmp_path)
    log.append(numbered(1))
    die(log)
    next(log.folder.glob("*.log")).write_bytes(b"something else altogether")
    _, (orphan,) = open_folder(tmp_path, on_damage=lambda path, size: seen.append(path))
    assert read_all(orphan) == []
    assert seen[0].read_bytes() == b"something else altogether"


def test_a_cursor_that_is_damaged_means_reading_from_the_start(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path)
    ends = log.append(numbered(3))
    log.acknowledge(ends[1])
    die(log)
    (log.folder / "acked").write_bytes(b"\xff" * 20)
    _, (orphan,) = open_folder(tmp_path)
    assert len(read_all(orphan)) == 3


def test_a_frame_larger_than_the_read_size_is_read_whole(tmp_path: Path) -> None:
    large = os.urandom(300_000)
    log, _ = open_folder(tmp_path)
    log.append([frame(b"k", b"small"), frame(b"k", large), frame(b"k", b"small too")])
    assert values(read_all(log, max_bytes=10)) == [b"small", large, b"small too"]


def test_the_limit_refuses_all_of_a_batch_and_holds_afterwards(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path, limit_bytes=200)
    log.append(numbered(2))
    with pytest.raises(OSError, match="limit") as refused:
        log.append(numbered(10, 2))
    assert refused.value.errno == errno.ENOSPC
    assert len(read_all(log)) == 2


def test_removed_segments_do_not_stop_those_behind_them(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path, segment_bytes=50)
    for number in range(3):
        log.append(numbered(2, number * 2))
    (log.folder / "00000002.log").unlink()
    assert values(read_all(log)) == [b"event 0", b"event 1", b"event 4", b"event 5"]


def test_only_the_owner_may_read_what_is_not_redacted_yet(tmp_path: Path) -> None:
    log, _ = open_folder(tmp_path)
    end = log.append(numbered(1))[-1]
    log.acknowledge(end)
    for path in (tmp_path / "audit").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_leftovers_for_other_servers_are_pointed_out_and_not_taken(tmp_path: Path) -> None:
    log, _ = SpoolFolder(tmp_path, "audit", "elsewhere:9092").open()
    log.append(numbered(1))
    die(log)
    folder = SpoolFolder(tmp_path, "audit", SERVERS)
    assert folder.open()[1] == []
    assert folder.strangers() == [log.folder.parent]


def test_the_order_of_servers_does_not_change_the_place(tmp_path: Path) -> None:
    one = SpoolFolder(tmp_path, "audit", "a:1,b:2")
    two = SpoolFolder(tmp_path, "audit", "b:2, a:1")
    assert one.folder == two.folder


class LogHistory(RuleBasedStateMachine):
    """Appending, reading, acknowledging and dying in any order: only unacknowledged events come again."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.root = Path(tempfile.mkdtemp())
        self.log, _ = open_folder(self.root, segment_bytes=120)
        self.is_own = True
        self.next = 0
        self.unread: list[bytes] = []
        self.unacked: list[Entry] = []

    @precondition(lambda self: self.is_own)
    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        batch = [b"%d:" % (self.next + place) + b"x" * size for place, size in enumerate(sizes)]
        self.next += len(batch)
        self.log.append([frame(b"k", value) for value in batch])
        self.unread += batch

    @rule(max_bytes=st.integers(1, 200))
    def read(self, max_bytes: int) -> None:
        entries = self.log.read(max_bytes)
        assert bool(entries) == bool(self.unread)
        assert values(entries) == self.unread[: len(entries)]
        del self.unread[: len(entries)]
        self.unacked += entries

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        upto = data.draw(st.integers(1, len(self.unacked)))
        self.log.acknowledge(self.unacked[upto - 1].end)
        del self.unacked[:upto]

    @rule()
    def die_and_adopt(self) -> None:
        die(self.log)
        own, orphans = open_folder(self.root, segment_bytes=120)
        left = values(self.unacked) + self.unread
        assert len(orphans) == bool(left)
        self.unread, self.unacked = left, []
        if orphans:
            own.close()
            self.log, self.is_own = orphans[0], False
        else:
            self.log, self.is_own = own, True

    @invariant()
    def knows_whether_it_is_done(self) -> None:
        assert self.log.is_read == (not self.unread)
        assert self.log.is_done == (not self.unread and not self.unacked)
        assert self.log.count_unread() == len(self.unread)

    def teardown(self) -> None:
        import shutil

        self.log.close()
        shutil.rmtree(self.root)


TestLogHistory = LogHistory.TestCase
TestLogHistory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
