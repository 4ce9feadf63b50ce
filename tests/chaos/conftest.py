"""Chaos runs take minutes and are asked for by name: `make chaos`, or `pytest -m chaos`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out of a run that does not ask for them."""
    if "chaos" in (config.getoption("markexpr") or ""):
        return
    unasked = [item for item in items if item.get_closest_marker("chaos")]
    if unasked:
        config.hook.pytest_deselected(items=unasked)
        items[:] = [item for item in items if item not in unasked]
