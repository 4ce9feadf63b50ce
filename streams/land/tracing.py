"""The trace of each batch that a land worker commits.

land batch                      from the first record taken until it is committed
  poll                          a question to Kafka that brought records
  fold                          decode, redact, gate, assemble
  columns                       rows to Arrow, quality rules, the chain's hashes
  commit                        one attempt; the batch that a store refuses has several
    1 payloads, 2 data files, 3 steps, ... 4 events      as in `sinks/ledger.py`: one a table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from trajlake.sinks.ledger import Stretch
from trajlake.streams.tracing import MOST_LINKS, OFF, Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class BatchTrace:
    """Spans of the batch that is being collected. Costs a comparison a call where tracing is off."""

    def __init__(self, tracing: Tracing = OFF, topic: str = "") -> None:
        self._tracing = tracing
        self._topic = topic
        self._batch: Span | None = None
        self._commit: Span | None = None
        self._step: Span | None = None

    def observe(self, on_step: Callable[[str], None]) -> Callable[[str], None]:
        """An observer of the commit order that also makes a span of each step."""
        if not self._tracing.is_on:
            return on_step

        def observed(step: str) -> None:
            self._end_step()
            if self._commit is not None:
                self._step = self._tracing.start(step, self._commit)
            on_step(step)

        return observed

    @contextmanager
    def taking(self, began_ns: int, records: int) -> Iterator[None]:
        """Around the fold of records that a poll brought which began at `began_ns`."""
        if not self._tracing.is_on:
            yield
            return
        if self._batch is None:
            self._batch = self._tracing.start(
                "land batch", began_ns=began_ns, messaging__system="kafka", messaging__destination__name=self._topic
            )
        poll = self._tracing.start("poll", self._batch, began_ns=began_ns, messaging__batch__message_count=records)
        if poll is not None:
            poll.end()
        with self._tracing.span("fold", self._batch, trajlake__records=records):
            yield

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Around another part of the batch's way."""
        if self._batch is None:
            yield
            return
        with self._tracing.span(name, self._batch):
            yield

    @contextmanager
    def committing(self, stretches: Sequence[Stretch]) -> Iterator[None]:
        """Around one attempt to commit; when it ends well, the batch does."""
        if not self._tracing.is_on:
            yield
            return
        if self._batch is None:
            # Nothing was polled: a gap that was declared, or ticks alone.
            self._batch = self._tracing.start("land batch", messaging__system="kafka")
        rows = sum(stretch.last - stretch.first + 1 for stretch in stretches)
        with self._tracing.span(
            "commit",
            self._batch,
            traceparents=_traceparents(stretches),
            trajlake__records=rows,
            trajlake__partitions=[stretch.partition for stretch in stretches],
        ) as self._commit:
            try:
                yield
            finally:
                self._end_step()
                self._commit = None
        if self._batch is not None:
            self._batch.set_attribute("messaging.batch.message_count", rows)
        self.drop()

    def drop(self) -> None:
        """The batch is over, or was given up."""
        if self._batch is not None:
            self._batch.end()
            self._batch = None

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.end()
            self._step = None


def _traceparents(stretches: Sequence[Stretch]) -> list[str]:
    """Some of the agents' traces that the batch holds events of."""
    found: list[str] = []
    for stretch in stretches:
        events = stretch.batches.get("events")
        if events is not None and len(found) < MOST_LINKS:
            found += [each for each in pc.unique(events.column("traceparent")).to_pylist() if each]
    return found[:MOST_LINKS]
