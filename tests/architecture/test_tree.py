"""What must not be in any tracked file: where packages came from, and where on some machine the project lay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.landkit.tree import REPO, tracked

# Put together here, so that this file does not hold what it looks for.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("repo", "maven", "apache", "org"),
        ("repo1", "maven", "org"),
        ("registry", "npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
    )
]
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:" + "|".join(("work" + "/", "root" + "/", "tmp/v" + "/", "home/" + r"\w+/\.")) + ")"
)


def project_files() -> list[Path]:
    """Files of the project; skips where git does not tell them."""
    return tracked() or pytest.skip("not a git work tree")


def found(pattern: re.Pattern[str]) -> list[str]:
    hits = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "ignore")
        hits += [
            f"{path.relative_to(REPO)}:{number}"
            for number, line in enumerate(text.splitlines(), start=1)
            if pattern.search(line)
        ]
    return hits


def test_no_tracked_file_names_a_package_registry() -> None:
    assert found(re.compile("|".join(map(re.escape, HOSTS)), re.IGNORECASE)) == []


def test_no_tracked_file_names_a_path_of_the_machine_it_was_made_on() -> None:
    assert found(MACHINE_PATHS) == []


def test_pins_are_versions_and_nothing_else() -> None:
    lines = [line for line in (REPO / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.+!]+", line)] == []
    assert lines == sorted(lines)


def test_no_built_or_installed_file_is_tracked() -> None:
    wrong = {".pyc", ".whl", ".jar", ".parquet", ".so", ".log"}
    assert [str(path) for path in tracked() if path.suffix in wrong or "egg-info" in str(path)] == []
