"""Metrics are declared once, named as Prometheus names them, and nothing else can be shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.metrics.reading import samples, value
from trajlake.expectations import metrics
from trajlake.expectations.metrics import METRICS, PROCESSES, Kind, Metric
from trajlake.streams.metrics import Readings, Rounds, Tally

CONSTANTS = {name: made for name, made in vars(metrics).items() if isinstance(made, Metric)}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_names_and_units_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"trajlake(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert not re.search(r"_(ms|us|millis|minutes|hours|days|kb|mb|count|sum|bucket)(_total)?$", metric.name)
    assert re.fullmatch(r"[A-Z0-9].*\.", metric.help)
    assert metric.process in PROCESSES
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert not metric.values or len(metric.labels) == 1


def test_each_metric_is_shown_by_the_program(repo: Path) -> None:
    code = "\n".join(path.read_text() for layer in ("streams", "trajlake") for path in (repo / layer).rglob("*.py"))
    assert [name for name in CONSTANTS if f"metrics.{name}" not in code and not re.search(rf"\b{name}\b", code)] == []
    assert len(CONSTANTS) == len(METRICS)


def test_no_metric_is_made_beside_the_declared_ones(repo: Path) -> None:
    for layer in ("streams", "trajlake", "sinks", "transforms"):
        for path in (repo / layer).rglob("*.py"):
            if path.relative_to(repo) != Path("streams/metrics.py"):
                assert "prometheus_client" not in path.read_text(), path


def test_what_is_not_declared_or_has_other_labels_is_refused() -> None:
    stranger = Metric("trajlake_land_ready", Kind.GAUGE, "Another.", metrics.LAND)
    readings = Readings(metrics.LAND)
    with pytest.raises(ValueError, match="trajlake_land_ready"):
        readings.put(stranger, 1)
    with pytest.raises(ValueError, match="partition"):
        readings.put(metrics.LAND_LAG, 1, "topic")
    with pytest.raises(ValueError, match="counter"):
        Tally().add(metrics.LAND_READY)


@pytest.mark.parametrize("process", PROCESSES)
def test_counters_are_there_from_the_start_so_that_the_first_increase_is_seen(process: str) -> None:
    found = samples(Readings(process).text())
    for metric in METRICS.values():
        if metric.process == process and metric.kind is not Kind.GAUGE:
            for one in metric.values or ([""] if not metric.labels else []):
                labels = {metric.labels[0]: one} if one else {}
                name = f"{metric.name}_count" if metric.kind is Kind.HISTOGRAM else metric.name
                assert value(found, name, **labels) == 0


def test_a_histogram_counts_each_observation_in_all_buckets_that_hold_it() -> None:
    one, other = Tally(), Tally()
    one.observe(metrics.LAND_COMMIT_DURATION, 0.02)
    one.observe(metrics.LAND_COMMIT_DURATION, 0.25)
    other.observe(metrics.LAND_COMMIT_DURATION, 99.0)
    readings = Readings(metrics.LAND)
    readings.add(one)
    readings.add(other)
    found = samples(readings.text())
    name = metrics.LAND_COMMIT_DURATION.name
    counts = [value(found, f"{name}_bucket", le=le) for le in ("0.01", "0.025", "0.25", "30.0", "+Inf")]
    assert counts == [0, 1, 2, 2, 3]
    assert value(found, f"{name}_count") == 3
    assert value(found, f"{name}_sum") == pytest.approx(99.27)


def test_rounds_say_when_the_last_one_did_well_and_why_the_newest_did_not() -> None:
    rounds = Rounds(
        metrics.MAINTAIN, metrics.MAINTAIN_READY, metrics.MAINTAIN_ROUNDS, metrics.MAINTAIN_DONE,
        metrics.MAINTAIN_DURATION,
    )  # fmt: skip
    done_at = metrics.MAINTAIN_DONE.name
    assert (done_at, ()) not in samples(rounds.metrics())
    rounds.ended(0.0, "done")
    first = value(samples(rounds.metrics()), done_at)
    rounds.ended(0.0, "failed", "disk full")
    found = samples(rounds.metrics())
    assert (value(found, done_at), value(found, "trajlake_maintain_ready")) == (first, 0)
    assert value(found, "trajlake_maintain_rounds_total", result="failed") == 1
    assert rounds.view()["problems"] == ["disk full"]
