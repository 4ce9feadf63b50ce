"""Closed runs classified again: their own events, folded once more under the failure rules of now.

What the classifier was shown is not whole in `steps` and `runs`: an error message, the exit code of a tool call, the
tools that were offered. The ledger has all of it, after redaction and with large content by reference, which is what
landing itself was shown. So a run is folded again from its first event to its last close, apart from all others, with
the ticks of the log; what comes out are its rows with today's findings. Under the rules that it landed by they are the
rows that it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from trajlake.expectations.events import kafka_key
from trajlake.transforms.assemble.runs import RunRow
from trajlake.transforms.assemble.steps import StepRow
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.refold import LedgerEvent, LedgerRefusal, refold_row
from trajlake.transforms.landing.rules import LandRules

UNLIMITED: Final = 1 << 60
"""Runs and bytes: nothing is forgotten here for want of room."""


class Life(NamedTuple):
    """A run from its first event to its last close. `closes`: offsets at which it was closed, in order."""

    tenant_id: str
    run_id: str
    first_offset: int
    closes: tuple[int, ...]

    @property
    def key(self) -> bytes:
        """Kafka key of the run."""
        return kafka_key(self.tenant_id, self.run_id)

    @property
    def close_offset(self) -> int:
        """Offset of the last close."""
        return self.closes[-1]

    def holds(self, offset: int) -> bool:
        """Whether an event of the run at an offset is part of this life."""
        return self.first_offset <= offset <= self.closes[-1]


def rejudge(
    topic: str,
    partition: int,
    rules: LandRules,
    lives: Sequence[Life],
    windows: Iterable[tuple[int, Sequence[LedgerEvent | LedgerRefusal]]],
) -> Iterator[StepRow | RunRow]:
    """Rows that the runs landed with, as they would be now; later revisions of a row come behind earlier ones.

    `windows`: pieces of the ledger in order, each with the offset at which it ends: rows of the lives, and ticks.
    Raises ValueError when a text of the ledger does not decode.
    """
    fold = PartitionFold(topic, partition, rules)
    fold.assembler.limit(UNLIMITED, UNLIMITED)
    begins = {life.first_offset: life.key for life in lives}
    due = deque(sorted((close, life.first_offset, life.key) for life in lives for close in life.closes))
    for end, rows in windows:
        for row in rows:
            _close_due(fold, due, row.offset - 1)
            if row.offset in begins:
                # An earlier life of the run was forgotten by then.
                fold.assembler.drop(begins[row.offset])
            refold_row(fold, row)
        _close_due(fold, due, end)
        made = fold.assembler.take()
        yield from made.steps
        yield from made.runs


def _close_due(fold: PartitionFold, due: deque[tuple[int, int, bytes]], up_to: int) -> None:
    """Close what had closed by an offset and is still open: it was closed for want of room, which is no event of its
    own."""
    while due and due[0][0] <= up_to:
        close, first_offset, key = due.popleft()
        run = fold.assembler.open.get(key)
        if run is not None and run.first_offset == first_offset:
            fold.assembler.pass_by(close)
            fold.assembler.evict(run)
