"""Imports go one way, the centre is pure, and each package says truly what it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

# What each layer may import of the others. `trajlake` is the public face and the command line.
ALLOWED: dict[str, frozenset[str]] = {
    "expectations": frozenset(),
    "transforms": frozenset({"expectations"}),
    "sinks": frozenset({"expectations"}),
    "streams": frozenset({"expectations", "transforms", "sinks"}),
    "trajlake": frozenset({"expectations", "transforms", "sinks", "streams"}),
}

# Modules that give a clock, chance, the environment, files or the network, and so may not be in `transforms`.
IMPURE_MODULES = frozenset(
    "time random secrets os socket ssl subprocess threading multiprocessing asyncio tempfile shutil glob select "
    "signal platform getpass pathlib io logging structlog requests urllib.request http confluent_kafka deltalake "
    "duckdb faust aiohttp psutil".split()
)
IMPURE_CALLS = {
    # attribute -> the objects on which it is impure
    "now": {"datetime", "date"},
    "utcnow": {"datetime"},
    "today": {"datetime", "date"},
    "uuid1": {"uuid"},
    "uuid4": {"uuid"},
}
# Facts of the interpreter that are the same in every process; the rest of `sys` is the world outside.
PURE_SYS = frozenset({"float_info", "intern", "maxsize"})
IMPURE_BUILTINS = {
    "open": "reads files",
    "input": "reads the terminal",
    "print": "writes the terminal",
    # Text hashes differ from process to process: an order or id made from them is not the same on replay.
    "hash": "is salted per process",
}


def files(layer: str) -> list[Path]:
    return sorted(path for path in (REPO / layer).rglob("*.py") if "__pycache__" not in path.parts)


def every_file() -> list[Path]:
    return [path for layer in ALLOWED for path in files(layer)]


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(REPO)}:{getattr(node, 'lineno', 0)}"


def imports(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Every module that a file names in an import, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", node
            if node.module == "trajlake":
                for name in node.names:
                    yield f"trajlake.{name.name}", node


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_go_one_way(layer: str) -> None:
    wrong = []
    for path in files(layer):
        for module, node in imports(path):
            root, _, rest = module.partition(".")
            other = rest.split(".")[0]
            if root != "trajlake" or not rest:
                continue
            if other not in ALLOWED:  # trajlake.cli, trajlake.recording.recorder: the public face
                other = "trajlake"
            if other != layer and other not in ALLOWED[layer]:
                wrong.append(f"{place(path, node)} imports {module}")
    assert wrong == []


def test_no_file_imports_a_layer_by_a_second_name() -> None:
    # `import streams` works from the repository's root and would make every class exist twice.
    places = [*every_file(), *(path for part in ("tests", "bench", "examples") for path in files(part))]
    wrong = [
        f"{place(path, node)} imports {module}"
        for path in places
        for module, node in imports(path)
        if module.split(".")[0] in ALLOWED.keys() - {"trajlake"}
    ]
    assert wrong == []


def test_transforms_are_pure() -> None:
    wrong = []
    for path in files("transforms"):
        for module, node in imports(path):
            if module.split(".")[0] in IMPURE_MODULES or module in IMPURE_MODULES:
                wrong.append(f"{place(path, node)} imports {module}")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                if owner in IMPURE_CALLS.get(node.attr, ()) or (owner == "sys" and node.attr not in PURE_SYS):
                    wrong.append(f"{place(path, node)} uses {owner}.{node.attr}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS:
                wrong.append(f"{place(path, node)} calls {node.func.id}, which {IMPURE_BUILTINS[node.func.id]}")
    assert wrong == []


def packages() -> list[Path]:
    """The layers and the packages directly in them: a folder further down shares what its package says."""
    return [path for path in every_file() if path.name == "__init__.py" and len(path.relative_to(REPO).parts) <= 3]


@pytest.mark.parametrize("path", packages(), ids=lambda path: str(path.parent.relative_to(REPO)))
def test_each_package_says_its_stage_what_it_reads_writes_and_may_import(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    for word in ("Stage:", "Reads:", "Writes:", "May import:"):
        assert word in text, f"{path.relative_to(REPO)} does not say {word}"


@pytest.mark.parametrize("layer", sorted(ALLOWED.keys() - {"trajlake"}))
def test_a_layers_own_words_on_what_it_may_import_are_the_rule(layer: str) -> None:
    text = ast.get_docstring(ast.parse((REPO / layer / "__init__.py").read_text(encoding="utf-8"))) or ""
    sentence = text.split("May import:")[1].split(".")[0]
    assert {name for name in ALLOWED if re.search(rf"\b{name}\b(?! of)", sentence)} - {"trajlake"} == ALLOWED[layer]


def test_every_folder_with_modules_is_a_package() -> None:
    # A folder without __init__.py is not found by the build, and missing in the wheel.
    assert [str(path.parent) for path in every_file() if not (path.parent / "__init__.py").exists()] == []


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in every_file() if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert [str(path.relative_to(REPO)) for path in silent] == []
