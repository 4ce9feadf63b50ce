"""Batches for the ledger without a broker: records of one partition, folded into rows by the program itself."""

from __future__ import annotations

from collections.abc import Sequence

from tests.landkit.events import Sent
from trajlake.sinks.ledger import Stretch
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record

TOPIC = "agent.audit.v1"
APPENDED_US = 1_700_000_000_000_000


def records(sent: Sequence[Sent], first: int = 0, append_us: int = APPENDED_US) -> list[Record]:
    """Records as the log would give them, from offset `first` on, a millisecond apart."""
    return [
        Record(first + place, append_us + (first + place) * 1000, one.key, one.value) for place, one in enumerate(sent)
    ]


class Batches:
    """The fold of one partition that hands out its rows batch by batch."""

    def __init__(self, topic: str = TOPIC, partition: int = 0, rules: LandRules | None = None) -> None:
        self.rules = rules or LandRules()
        self.fold = PartitionFold(topic, partition, self.rules)

    def take(self, sent: Sequence[Sent]) -> Stretch:
        """Fold the next records of the log, and return their rows."""
        return self.stretch(self.fold.fold(records(sent, self.fold.next_offset)))

    def stretch(self, landing: Landing) -> Stretch:
        """Rows of a landing as the ledger takes them."""
        tables = self.rules.row_rules.mark(batches(landing, self.rules.revision, self.rules.payload_inline_max_bytes))
        return Stretch(landing.topic, landing.partition, landing.first, landing.last, tables, landing.payloads)
