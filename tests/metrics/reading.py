"""Prometheus text as tests read it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from trajlake.expectations.metrics import METRICS

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
_SERIES = {name for metric in METRICS.values() for name in metric.series()}


def samples(text: str | bytes) -> Samples:
    """Every sample by name and labels. Fails on a sample that is declared nowhere, or has other labels."""
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode() if isinstance(text, bytes) else text):
        for sample in family.samples:
            assert sample.name in _SERIES, f"{sample.name} is not declared"
            metric = METRICS.get(sample.name) or METRICS[sample.name.rsplit("_", 1)[0]]
            assert set(sample.labels) - {"le"} == set(metric.labels), sample
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, f"{sample} comes twice"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    """One sample's value."""
    return found[name, tuple(sorted(labels.items()))]
