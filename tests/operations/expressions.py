"""Metric names in PromQL, as far as tests need them: every one has to be declared."""

from __future__ import annotations

import re

from trajlake.expectations.metrics import METRICS

BUILT_IN = {"up"}
LABELS_OF_PROMETHEUS = {"job", "instance", "le"}


def declared_series() -> set[str]:
    """Names under which samples of the declared metrics are found."""
    return {name for metric in METRICS.values() for name in metric.series()}


def metric_names(expression: str) -> set[str]:
    """Names of series in an expression: words before `{`, `[`, an operator or the end that are no functions, labels,
    keywords or strings."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\$\w+|\$\{\w+\}", "", bare)
    words = re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", bare)
    return set(words) - {"and", "or", "unless", "bool", "offset", "inf", "nan"}


def labels_used(expression: str) -> set[str]:
    """Labels that an expression selects or groups by."""
    chosen = set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!=|=~|!~)", expression))
    for group in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", expression):
        chosen |= {label.strip() for label in group.split(",") if label.strip()}
    return chosen


def known_labels() -> set[str]:
    """Labels that any metric has."""
    return {label for metric in METRICS.values() for label in metric.labels} | LABELS_OF_PROMETHEUS
