"""One assigned partition: where it resumes, what it has folded, and the rows that wait for the next commit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from trajlake.expectations.reasons import LogGap
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.sinks.ledger import Ledger, Stretch
from trajlake.sinks.sealing import Sealer
from trajlake.sinks.snapshots import read_snapshot
from trajlake.streams.errors import LogTooShort, OffsetBelowRetention
from trajlake.streams.keeping.seals import seal_refused
from trajlake.streams.keeping.suppression import read_suppression
from trajlake.streams.land.chaining import catch_up, resume_chain
from trajlake.streams.land.history import History
from trajlake.streams.land.recovery import quarantined_offsets, refold_ledger
from trajlake.transforms.assemble.state import decode_state
from trajlake.transforms.columns.rows import batches
from trajlake.transforms.integrity.chain import Block, Chain
from trajlake.transforms.integrity.rows import rows_of
from trajlake.transforms.landing.fingerprint import snapshot_fingerprint
from trajlake.transforms.landing.partition import PartitionFold
from trajlake.transforms.landing.rows import Landing
from trajlake.transforms.landing.rules import LandRules
from trajlake.transforms.records import Record


@dataclass
class PartitionProgress:
    """Figures of a partition for health and lag. Offsets are the last ones; `_us` in µs, other times in seconds since
    the Unix epoch. `committed_at`: None before the first commit.

    `replayed`: rows of the ledger folded again for their state alone, because they had landed since the last snapshot.
    """

    committed: int = -1
    committed_append_us: int = 0
    committed_at: float | None = None
    taken_up: float = field(default_factory=time.time)
    high_watermark: int = 0
    replayed: int = 0


class AssignedPartition:
    """A partition while this worker owns it.

    `landed`: last offset that every table holds. `chain`: the hashes of the ledger's rows up to there. The state up to
    it comes from a snapshot and the ledger, never from the log: the tables say how its records were judged, and today's
    settings might judge them otherwise.
    """

    def __init__(
        self, topic: str, partition: int, rules: LandRules, landed: int, fold: PartitionFold, chain: Chain | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.rules = rules
        self.landed = landed
        self.fold = fold
        self.chain = chain or Chain(topic, partition)
        self.blocks: list[Block] = []
        """Complete blocks of the chain that are not in the table `integrity` yet."""
        self.sealer: Sealer | None = None
        """Seals originals of refused records, where they are kept."""
        self.history: History | None = None
        """Answers requests to classify runs again."""
        self.pending: Landing | None = None
        self.is_held_up = False
        """Records are left over that can only be folded once what waits has landed."""
        self.pending_bytes = 0
        self.last_append_us = 0
        self.end_offset: int | None = None
        """Offset at which a draining worker has seen everything."""
        self.tick_in_flight = False
        self.tick_offset = -1
        """Where the last tick of this owner stands in the log."""
        self.progress = PartitionProgress(committed=landed)
        self.snapshot_offset = fold.next_offset - 1
        """Offset of the newest snapshot."""
        self.snapshot_due = 0.0
        """Monotonic time from which the next snapshot is due."""
        self._built: Stretch | None = None
        self._chained: tuple[Chain, list[Block]] | None = None
        """The chain with the rows of `_built`."""

    @classmethod
    def resume(cls, lake: Lake, ledger: Ledger, topic: str, partition: int, rules: LandRules) -> AssignedPartition:
        """Take over a partition from its tables: the newest snapshot, at or below what has landed, that was made under
        these rules by this version.

        Raises `SinkUnavailable` or `TableMismatch`.
        """
        landed = ledger.landed(topic, partition)
        # Read behind the tables' fences: it knows at least the erasures that they ask for.
        suppression = read_suppression(lake)
        decode = partial(decode_state, fingerprint=snapshot_fingerprint(rules.revision))
        state = read_snapshot(lake, topic, partition, landed, decode)
        chain = resume_chain(lake, topic, partition, landed)
        refused = _refused_above(lake, ledger, topic, partition, landed) if suppression.epoch else frozenset()
        fold = PartitionFold(topic, partition, rules, state, suppression, refused)
        owned = cls(topic, partition, rules, landed, fold, chain)
        owned.history = History(lake, topic, partition, rules)
        return owned

    @property
    def next_offset(self) -> int:
        return self.fold.next_offset

    @property
    def is_behind(self) -> bool:
        """Whether the state is still behind what has landed."""
        return self.next_offset <= self.landed

    @property
    def awaits_rebuild(self) -> bool:
        """Whether state or chain are behind what has landed: `rebuild` has to bring them there before records come."""
        return self.is_behind or self.chain.last < self.landed

    def check_log_end(self, log_end: int) -> None:
        """Compare what has landed with the log's end. Raises `LogTooShort` when the log never held so much."""
        if self.landed >= log_end:
            raise LogTooShort(self.topic, self.partition, self.landed, log_end)

    def rebuild(self, lake: Lake) -> Iterator[int]:
        """Bring state and chain to what has landed from the ledger tables, piece by piece; yields the rows of each.

        Raises `SinkUnavailable` when the tables cannot be read.
        """
        for rows in refold_ledger(lake, self.fold, self.landed):
            self.progress.replayed += rows
            yield rows
        for blocks in catch_up(lake, self.chain, self.landed):
            self.blocks += blocks
            yield 0

    def meet_log_start(self, log_start: int, declare: bool) -> None:
        """Compare the next offset with the first one that the log still holds.

        Before anything has landed, what the log no longer holds was never ours. Later it is a loss: declared as a gap
        row when `declare`, else `OffsetBelowRetention` stops the worker.
        """
        if self.next_offset >= log_start:
            return
        if self.landed < 0:
            self.fold.declare_gap(log_start, LogGap.HOLE, "deleted before the first landing")
        elif declare:
            self.fold.declare_gap(log_start, LogGap.BELOW_RETENTION, "deleted before it could land")
        else:
            raise OffsetBelowRetention(self.topic, self.partition, self.next_offset, log_start)

    def awaits_tick(self) -> bool:
        """Whether a tick of this owner is on its way, or in the log and not folded yet."""
        return self.tick_in_flight or self.tick_offset >= self.next_offset

    def take(self, records: list[Record], up_to: int | None = None) -> int:
        """Fold records. Returns how many offsets wait for the commit because of them.

        `up_to`: the log is known to hold nothing more up to this offset. Where it leaves `is_held_up` behind, the same
        call has to come again after the commit.
        """
        landing = self.fold.fold(records, up_to, self.landed)
        self.is_held_up = bool(records) and records[-1].offset >= self.next_offset
        if records:
            self.last_append_us = records[-1].append_us
            self.pending_bytes += sum(len(record.value or b"") for record in records)
        if landing.last < landing.first:
            return 0
        if self.pending is None:
            self.pending = landing
        else:
            self.pending.extend(landing)
        self._built = self._chained = None
        return landing.last - landing.first + 1

    def awaits_snapshot(self, now: float) -> bool:
        """Whether a snapshot is due at the monotonic time `now`: all that was folded has landed, and it is more than
        the newest snapshot holds."""
        return (
            now >= self.snapshot_due
            and self.pending is None
            and self.landed > self.snapshot_offset
            and self.next_offset == self.landed + 1
        )

    def stretch(self) -> Stretch | None:
        """What waits for the commit, as record batches. The same object until more is taken or it is committed.

        Raises `SinkUnavailable` where runs are to be classified again and the tables cannot be read.
        """
        landing = self.pending
        if landing is None:
            return None
        if landing.asked:
            assert self.history is not None
            landing.answer(*self.history.answer(landing.asked, self.landed))
        if self._built is None:
            if self.sealer is not None:
                policies = self.rules.governance.policies
                seal_refused(landing, self.sealer, policies, self.rules.payload_inline_max_bytes)
            tables = self.rules.row_rules.mark(
                batches(landing, self.rules.revision, self.rules.payload_inline_max_bytes)
            )
            chain, events = self.chain.copy(), tables.get("events")
            self._chained = (
                chain,
                chain.extend(
                    None if events is None else rows_of(events, [row.text for row in landing.events]), landing.last
                ),
            )
            self._built = Stretch(
                self.topic,
                self.partition,
                landing.first,
                landing.last,
                tables,
                landing.payloads,
                chain.note(),
                self.fold.watch.suppression.epoch,
            )
        return self._built

    def committed(self) -> None:
        """The waiting rows are in the tables now."""
        if self.pending is not None:
            self.landed = self.pending.last
            self.progress.committed = self.landed
            self.progress.committed_append_us = self.last_append_us
            self.progress.committed_at = time.time()
        if self._chained is not None:
            self.chain, blocks = self._chained
            self.blocks += blocks
        self._chained = None
        self.pending = None
        self.pending_bytes = 0
        self._built = None


def _refused_above(lake: Lake, ledger: Ledger, topic: str, partition: int, landed: int) -> frozenset[int]:
    """Offsets above what has landed that stand in quarantine already: of a batch that stopped halfway."""
    if ledger.log_of("quarantine").at(transaction_app(ledger.app_id, topic, partition)) <= landed:
        return frozenset()
    return frozenset(quarantined_offsets(lake, topic, partition, landed + 1))
