"""Command lines in files, held against the real command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from ruamel.yaml import YAML

from trajlake.cli import COMMANDS, load


def parse(words: Sequence[str]) -> dict[str, Any]:
    """What the program makes of the words behind `trajlake`: parameter -> value. Fails where it would refuse them."""
    name: str | None
    name, *rest = words
    assert name in COMMANDS, f"there is no command {name!r}"
    command = load(name)
    while True:
        context = command.make_context(name, list(rest))
        if not isinstance(command, click.Group) or not context.protected_args:
            return dict(context.params)
        name, command, rest = command.resolve_command(context, [*context.protected_args, *context.args])
        assert command is not None


def shell_lines(page: Path) -> Iterator[list[str]]:
    """Words of each line in the page's ```shell blocks."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```shell"
        elif inside and line.strip() and not line.startswith("#"):
            yield shlex.split(line)


def yaml_of(path: Path) -> Any:
    """The one document of a YAML file."""
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def yaml_documents(path: Path) -> list[Any]:
    """All documents of a YAML file."""
    return [each for each in YAML(typ="safe").load_all(path.read_text(encoding="utf-8")) if each is not None]
