"""Figures of a process as Prometheus reads them: counted in a `Tally`, put into `Readings`, written as text.

Only what `expectations/metrics.py` declares can be shown: another name, or other labels, raise at once.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from trajlake.expectations.metrics import METRICS, Kind, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Series: TypeAlias = tuple[str, tuple[str, ...]]
"""Name of a metric and the values of its labels."""


@dataclass
class Tally:
    """Counters and histograms of a process. It can be sent to another process and added up there.

    `values`: one number for a counter; for a histogram its sum and the count of each bucket, the last one unbounded.
    Written by one thread; others may read.
    """

    values: dict[Series, list[float]] = field(default_factory=dict)

    def add(self, metric: Metric, amount: float = 1.0, *labels: str) -> None:
        """Count up. Raises ValueError for labels that the metric does not have."""
        _check(metric, labels, Kind.COUNTER)
        self.values.setdefault((metric.name, labels), [0.0])[0] += amount

    def observe(self, metric: Metric, value: float) -> None:
        """Add an observation to a histogram."""
        _check(metric, (), Kind.HISTOGRAM)
        counts = self.values.setdefault((metric.name, ()), [0.0] * (len(metric.buckets) + 2))
        counts[0] += value
        counts[1 + bisect_left(metric.buckets, value)] += 1

    def merge(self, other: Mapping[Series, list[float]]) -> None:
        """Add what another process counted."""
        for series, values in other.items():
            mine = self.values.setdefault(series, [0.0] * len(values))
            for place, value in enumerate(values):
                mine[place] += value


class Readings:
    """What one answer to Prometheus holds. `process`: all of its counters are there, with 0 where nothing happened."""

    def __init__(self, process: str) -> None:
        self._families: dict[str, Family] = {}
        self._counted = Tally()
        for metric in METRICS.values():
            if metric.process == process:
                self._prepare(metric)

    def put(self, metric: Metric, value: float | None, *labels: object) -> None:
        """Show the value of a gauge, or of a counter that is kept elsewhere; None: it is not known, and left out."""
        given = tuple(str(label) for label in labels)
        if metric.kind is Kind.COUNTER:
            if value is not None:
                _check(metric, given, Kind.COUNTER)
                self._counted.values[metric.name, given] = [float(value)]
            return
        _check(metric, given, Kind.GAUGE)
        family = self._families.setdefault(
            metric.name, GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        )
        if value is not None:
            family.add_metric(given, float(value))  # type: ignore[attr-defined]

    def add(self, tally: Tally) -> None:
        """Show what was counted; several tallies are added up."""
        self._counted.merge(dict(tally.values))

    def text(self) -> bytes:
        """The text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)  # type: ignore[arg-type,unused-ignore]
        return generate_latest(registry)

    def collect(self) -> Iterator[Family]:
        """Families for prometheus_client."""
        counted: dict[str, dict[tuple[str, ...], list[float]]] = {}
        for (name, labels), values in self._counted.values.items():
            counted.setdefault(name, {})[labels] = values
        for name, by_labels in counted.items():
            yield _counted(METRICS[name], by_labels)
        yield from self._families.values()

    def _prepare(self, metric: Metric) -> None:
        starts = [(value,) for value in metric.values] if metric.values else [()] if not metric.labels else []
        for labels in starts:
            if metric.kind is Kind.COUNTER:
                self._counted.values[metric.name, labels] = [0.0]
            elif metric.kind is Kind.HISTOGRAM:
                self._counted.values[metric.name, labels] = [0.0] * (len(metric.buckets) + 2)


class Rounds:
    """What a service that works in rounds says of itself: how they ended, when the last one did well, how long they
    take. `tally`: for what else it counts."""

    def __init__(self, process: str, ready: Metric, ended: Metric, done_at: Metric, took: Metric) -> None:
        self.tally = Tally()
        self.problem: str | None = None
        """Why the newest round did not do what it should; None when it did."""
        self._process = process
        self._ready, self._ended, self._done_at, self._took = ready, ended, done_at, took
        self._done: float | None = None

    def ended(self, began: float, result: str, problem: str | None = None) -> None:
        """A round that began at monotonic time `began` is over. `problem`: in one line, None where there was none."""
        self.tally.add(self._ended, 1, result)
        self.tally.observe(self._took, time.monotonic() - began)
        self.problem = problem
        if problem is None:
            self._done = time.time()

    def view(self) -> dict[str, Any]:
        """What `/ready` and `/status` answer."""
        problems = [] if self.problem is None else [self.problem]
        return {"ready": not problems, "problems": problems, "done_at": self._done}

    def metrics(self) -> bytes:
        """What `/metrics` answers."""
        readings = Readings(self._process)
        readings.add(self.tally)
        readings.put(self._ready, float(self.problem is None))
        readings.put(self._done_at, self._done)
        return readings.text()


def _check(metric: Metric, labels: tuple[str, ...], kind: Kind) -> None:
    if METRICS.get(metric.name) is not metric or metric.kind is not kind or len(labels) != len(metric.labels):
        raise ValueError(f"{metric.name} is a declared {metric.kind} with labels {metric.labels}, not {kind} {labels}")


def _counted(metric: Metric, by_labels: Mapping[tuple[str, ...], list[float]]) -> Family:
    if metric.kind is Kind.COUNTER:
        counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, values in by_labels.items():
            counter.add_metric(labels, values[0])
        return counter
    histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, values in by_labels.items():
        buckets = []
        below = 0.0
        for bound, count in zip((*metric.buckets, float("inf")), values[1:], strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), below))
        histogram.add_metric(labels, buckets, sum_value=values[0])
    return histogram
