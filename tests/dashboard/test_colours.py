"""Colours of outcomes: seen on both grounds, the same in tables and charts, each with its word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trajlake.dashboard
from trajlake.dashboard.charts import COLOURS
from trajlake.dashboard.display import CLASS_ORDER, STATE_MARKS, STATE_WORDS, mix_bar
from trajlake.expectations.taxonomy import OutcomeClass

CSS = (Path(trajlake.dashboard.__file__).parent / "static" / "board.css").read_text()
LIGHT, DARK = (re.findall(r"--bg: (#[0-9a-f]{6})", CSS)[place] for place in (0, 1))


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio, WCAG 2.2."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("outcome", [member.value for member in OutcomeClass])
def test_each_outcome_is_told_from_the_ground_in_both_themes_and_is_one_colour_everywhere(outcome: str) -> None:
    [bar] = re.findall(rf"rect\.c-{outcome} {{ fill: (#[0-9a-f]{{6}})", CSS)
    [key] = re.findall(rf"\.key\.c-{outcome} {{ background: (#[0-9a-f]{{6}})", CSS)
    assert bar == key == COLOURS[outcome]
    assert contrast(bar, LIGHT) >= 3
    assert contrast(bar, DARK) >= 3


def test_colours_never_stand_alone() -> None:
    """A bar says its numbers with their words; a state has a mark of its own and a word."""
    bar = str(mix_bar({"success": 90, "quota": 10}))
    assert 'aria-label="90 success, 10 quota"' in bar
    assert len(set(STATE_MARKS.values())) == len(STATE_MARKS) == len(STATE_WORDS)


def test_quality_comes_first_in_bars_and_legends() -> None:
    assert [member.value for member in CLASS_ORDER][:3] == ["quality_failure", "agent_action", "success"]
    assert set(CLASS_ORDER) == set(OutcomeClass)
