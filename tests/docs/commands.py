"""The real command line, asked whether it takes some words, and run in this process."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from trajlake.cli import build
from trajlake.streams.settings import NOT_SETTINGS, describe

COMMENT = re.compile(r"""(?P<kept>"[^"]*"|'[^'\n]*')|(?:(?<=\s)|^)#[^\n]*""", re.MULTILINE)
"""A quoted text, which stays, or a comment."""
SETTINGS = {setting.env for setting in describe()} | NOT_SETTINGS | {"TRAJLAKE_DASHBOARD_TOKEN"}
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell text, each as its words; comments and redirections are left out."""
    lexer = shlex.shlex(COMMENT.sub(r"\g<kept>", text.replace("\\\n", " ")), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    skip = False
    for word in lexer:
        if set(word) <= set("\n();<>|&"):
            skip = word.strip("\n") in ("<", ">", ">>")
            if words and not skip:
                yield words
                words = []
        elif not skip:
            words.append(word)
        else:
            skip = False
    if words:
        yield words


def settings_and_words(command: list[str]) -> tuple[dict[str, str], list[str]]:
    """Variables that a command sets in front of it, or exports, and the words behind."""
    given: dict[str, str] = {}
    rest = command[1:] if command[0] == "export" else list(command)
    while rest and (found := ASSIGNMENT.fullmatch(rest[0])):
        given[found.group(1)] = found.group(2)
        rest = rest[1:]
    return given, rest


def refusal(command: list[str]) -> str | None:
    """What the command line has against a command; None where it is taken, or is none of ours."""
    given, words = settings_and_words(command)
    for name in given:
        if name.startswith("TRAJLAKE_") and name not in SETTINGS:
            return f"{name} is no setting"
    if not words or words[0].removeprefix(".venv/bin/") != "trajlake":
        return None
    current: Any = typer.main.get_command(build())
    name, rest, parent = "trajlake", words[1:], None
    try:
        while True:
            context = current.make_context(name, rest, parent=parent)
            rest = [*getattr(context, "_protected_args", ()), *context.args]
            if not hasattr(current, "resolve_command"):
                return None
            if not rest:
                return None if current.invoke_without_command else f"{name} wants a command"
            name, current, rest = current.resolve_command(context, rest)
            parent = context
    except SystemExit:
        return None
    except Exception as error:
        if type(error).__name__ == "Exit":  # --help and --version end the parsing
            return None
        return f"{' '.join(words)}: {getattr(error, 'message', error)}"


def run(words: list[str]) -> tuple[int, str]:
    """Run a command in this process: exit code, and all that it wrote."""
    done = CliRunner().invoke(build(), words)
    told = "" if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    return done.exit_code, done.output + told
