"""A lake whose partitions were landed by the program's own parts, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.landkit.events import Sent, event, mixture
from tests.landkit.stretches import TOPIC, records
from trajlake.expectations.tables import EVENTS
from trajlake.reading.tables import LakeTables
from trajlake.sinks.integrity import RecordedHead
from trajlake.sinks.lake import Lake
from trajlake.sinks.ledger import Ledger
from trajlake.streams.land.chaining import seal
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.settings import Settings, load_settings
from trajlake.transforms.landing.rules import LandRules
from trajlake.verification.report import Report
from trajlake.verification.verify import verify

APP = "trajlake-land"


@dataclass
class Landed:
    """A lake and the worker's parts that land in it."""

    lake: Lake
    settings: Settings
    ledgers: list[Ledger] = field(default_factory=list)

    @property
    def events(self) -> Path:
        return Path(self.lake.table_uri("events"))

    @property
    def log(self) -> Path:
        return self.events / "_delta_log"

    def ledger(self) -> Ledger:
        made = Ledger(self.lake, APP)
        made.open()
        self.ledgers.append(made)
        return made

    def take_up(self, partition: int = 0, ledger: Ledger | None = None) -> tuple[AssignedPartition, Ledger]:
        """A worker takes up a partition, as after a start or a rebalance."""
        ledger = ledger or self.ledger()
        owned = AssignedPartition.resume(self.lake, ledger, TOPIC, partition, LandRules())
        for _ in owned.rebuild(self.lake):
            pass
        return owned, ledger

    def land(
        self, sent: Sequence[Sent], sizes: Sequence[int] = (50,), partition: int = 0, *, sealed: bool = True
    ) -> None:
        """Land the records of a partition that have not landed, in batches of the given sizes in turn."""
        owned, ledger = self.take_up(partition)
        left = records(sent)[owned.next_offset :]
        turn = 0
        while left:
            size = sizes[turn % len(sizes)]
            owned.take(left[:size])
            left, turn = left[size:], turn + 1
            stretch = owned.stretch()
            assert stretch is not None
            ledger.commit([stretch])
            owned.committed()
        if sealed:
            assert seal(self.lake, ledger, self.settings, owned.chain, owned.blocks)

    def verify(self, heads: Sequence[RecordedHead] = ()) -> Report:
        return verify(LakeTables(self.lake), APP, integrity=True, heads=heads)

    def codes(self, heads: Sequence[RecordedHead] = ()) -> dict[str, int]:
        return self.verify(heads).problem_counts

    def heads(self) -> list[RecordedHead]:
        """What an auditor took away: the heads that a clean verification told."""
        report = self.verify()
        assert report.ok, report.problems
        assert report.integrity
        return [
            RecordedHead(p.topic, p.partition, p.offset, p.rows, p.head, p.chain, "the auditor's file")
            for p in report.integrity
        ]

    def rewrite(self, change: Callable[[pa.Table], pa.Table], holding: int, partition: int = 0) -> None:
        """Change the data file that holds an offset where it lies; the Delta log stays as it is."""
        for path in DeltaTable(str(self.events)).file_uris():
            rows = pq.read_table(path).cast(EVENTS.schema)
            if (partition, holding) in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
                pq.write_table(change(rows), path)
                return
        raise AssertionError(f"no file holds offset {holding}")


@pytest.fixture(scope="session")
def sent() -> list[Sent]:
    """Some hundred events of some runs; a field is removed from some of them."""
    log = mixture(30)
    for number in range(9):
        said = {"message": "done", "password": "".join(("not ", "kept"))}
        log.insert(40 * number, event("feedback.given", f"run-{number}", None, {"comment": "fine", "extra": said}))
    return log


@pytest.fixture(scope="session")
def other() -> list[Sent]:
    """Events of other runs, for another partition."""
    return mixture(15, name="other")


@pytest.fixture
def landed(tmp_path: Path) -> Iterator[Landed]:
    root = str(tmp_path / "lake")
    made = Landed(Lake(root), load_settings(root=root))
    yield made
    for ledger in made.ledgers:
        ledger.close()
