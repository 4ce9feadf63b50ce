"""Wrong words on the command line, told in one line with what to do; and help that names what is to be typed."""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from typer import BadParameter

from trajlake.cli.output import USAGE, fail

USAGE_ERROR: Final[type[Exception]] = BadParameter.__bases__[0]
"""Typer's error for words that it cannot take; it exports one kind of it alone."""
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_WORDS: Final = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT", "path": "PATH"}
"""How help shows what an option takes that does not say so itself."""


def refuse(error: Any) -> NoReturn:
    """End the command for a usage error: what is wrong, and where help is. A group without an action shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    context = error.ctx
    command = context.command_path if context is not None else "trajlake"
    said = _said(error)
    fail(f"{said}{'' if said.endswith('?') else ';'} `{command} --help` shows what it takes", USAGE)


def _said(error: Any) -> str:
    if (option := getattr(error, "option_name", None)) and type(error).__name__ == "NoSuchOption":
        near = getattr(error, "possibilities", None)
        return f"there is no option {option}" + (f", did you mean {' or '.join(near)}?" if near else "")
    if type(error).__name__ == "MissingParameter" and error.param is not None:
        return f"{_named(error.param)} is missing"
    if isinstance(error, BadParameter) and error.param is not None:
        return f"{_named(error.param)}: {_why(error)}"
    said = str(error.format_message())
    said = re.sub(r"^No such command ('.*?')\.", r"there is no command \1", said)
    said = re.sub(r" Did you mean (.*)\?$", r", did you mean \1?", said)
    said = re.sub(r"^Got unexpected extra argument.* \((.*)\)$", r"it takes fewer words: what is \1?", said)
    return said.rstrip(".")


def _named(param: Any) -> str:
    return str(param.opts[0] if param.param_type_name == "option" else param.metavar or param.name)


def _why(error: BadParameter) -> str:
    """What is wrong with a value: by what the check says it is, not by its words, which are a programmer's."""
    found: Any = error.__cause__
    if not hasattr(found, "errors"):
        return str(error.message).rstrip(".")
    first = found.errors()[0]
    kind, given = first["type"], first["input"]
    if kind.startswith("int_"):
        return f"{given!r} is no whole number"
    if kind.startswith("float_"):
        return f"{given!r} is no number"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{given} is not possible: {words} {first['ctx'][name]}"
    return str(first["msg"]).removeprefix("Value error, ").rstrip(".")


def name_plainly(command: Any) -> None:
    """Show what a command and those below it take as people type it: `SQL`, `[FILE]`, `--limit N`, and not
    `{SQL} <str>`, `--limit <int range>`."""
    for param in command.params:
        if param.param_type_name == "argument":
            name = param.metavar or param.name.upper()
            shown = name if param.required else f"[{name}]"
            param.display_type_rich = _nothing
            param._usage_display_name = (f"{shown}..." if param.nargs != 1 else shown).__str__
        elif param.metavar is None and (told := _WORDS.get(param.bare_type().strip("<>"))):
            param.metavar = told
    for below in (getattr(command, "commands", None) or {}).values():
        name_plainly(below)


def _nothing(ctx: Any) -> None:
    return None
