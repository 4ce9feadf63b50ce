"""One lake a session, and for each test that wants one a folder that holds a copy of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.lake import make_lake


@pytest.fixture(scope="session")
def first_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of `tests/docs/lake.py`; only read it."""
    root = tmp_path_factory.mktemp("docs") / "lake"
    make_lake(root)
    return root


@pytest.fixture
def beside_lake(first_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of a reader: ./lake, and ./policies as the pages have them."""
    shutil.copytree(first_lake.parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = dict(os.environ)
    yield tmp_path
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
