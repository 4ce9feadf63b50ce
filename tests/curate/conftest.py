"""Labs for the tests of curation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.curate.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lake of its own, an open policy, and a suite that lets every batch pass."""
    return Lab(tmp_path / "lake")
