"""Writes the metrics as a Markdown page: docs/metrics.md, by `trajlake contract metrics --markdown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajlake.expectations.metrics import METRICS, PROCESSES, Metric

_INTRO: Final = """# Metrics

Printed from `expectations/metrics.py` by `trajlake contract metrics --markdown`; change it there.

Every long-running process answers `/metrics` in Prometheus' text format, on loopback unless a setting says otherwise.
Alerts on them are in `deploy/prometheus/rules.yml`, each with a page in [runbooks](runbooks/README.md); dashboards for
Grafana in `deploy/grafana`. Nothing is sent anywhere: Prometheus comes and asks.

- A `_timestamp_seconds` is a moment in Unix time; its age is `time() - metric`.
- A series with a label of few values (reasons, codes, tables) is there from the start with 0, so that `increase()` sees
  the first one.
- Counters of `trajlake land` outlive its workers: they begin anew with the command, not with a worker. A worker that is
  killed takes what it counted in its last second with it.
- No label holds anything that an event said; `trajlake_skill_*` alone name tenants and skills.
"""


def metrics_page() -> str:
    """The whole page."""
    return "\n".join([_INTRO, *_sections()])


def _sections() -> Iterator[str]:
    for process, where in PROCESSES.items():
        yield f"## {process}\n"
        yield f"{where[0].upper()}{where[1:]}.\n"
        yield "| metric | kind | labels | what it says |"
        yield "| --- | --- | --- | --- |"
        for metric in METRICS.values():
            if metric.process == process:
                yield f"| `{metric.name}` | {metric.kind} | {_labels(metric)} | {metric.help} |"
        yield ""


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels)
