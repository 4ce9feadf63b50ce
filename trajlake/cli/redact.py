"""`trajlake redact`: take secrets and people out of JSON lines, by the rules that the landing workers use."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from trajlake.cli.options import JsonOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.expectations.progress import Progress
    from trajlake.transforms.records import Redaction
    from trajlake.transforms.redact.redactor import Redactor


LEFT_OUT = b'"[redacted:line]"'
"""Stands for a line that may not be shown, so that lines in and out can be counted off against each other."""


def register(app: typer.Typer) -> None:
    """Add `redact`."""
    app.command("redact")(redact)


def redact(
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", help="YAML or JSON that maps rule ids or kinds to marker, pseudonym or keep."
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="T", help="Tenant of the lines: pseudonyms are its own."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say on stderr, as JSON, what was found in which line, never the value.")
    ] = False,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and read nothing.")] = False,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --rules: the documentation page.")] = False,
) -> None:
    """Read one JSON value a line from stdin; write each, redacted, to stdout, in order.

    In place of a line that is no JSON, or that could not be proved clean, stands "[redacted:line]", and stderr says
    why; the rest goes on, and the exit code is 1. Pseudonyms need the setting redaction_key_file or redaction_key_env.

    Example: trajlake redact --explain < events.jsonl > clean.jsonl
    """
    if rules:
        _list_rules(as_json=as_json, markdown=markdown)
        return
    redactor = _redactor(policy, tenant)
    if sys.stdin.isatty():
        note("trajlake redact reads JSON lines from stdin; Ctrl-D ends them")
    # In a terminal the lines themselves are what is to be seen.
    with progress(quiet=sys.stdout.isatty()) as told:
        told.stage("redacting", _size(sys.stdin.fileno()), "bytes")
        whole = _redact_lines(redactor, sys.stdin.buffer, sys.stdout.buffer, tenant, told, explain=explain)
    if not whole:
        raise typer.Exit(1)


def _size(number: int) -> int | None:
    """Bytes of an open file; None of a pipe or terminal, whose end nobody knows."""
    found = os.fstat(number)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _redactor(policy: Path | None, tenant: str | None) -> Redactor:
    from trajlake.streams.redaction import pseudonym_key
    from trajlake.streams.settings import load_settings
    from trajlake.transforms.redact.actions import read_actions
    from trajlake.transforms.redact.errors import RedactionError
    from trajlake.transforms.redact.redactor import Redactor

    settings = load_settings()
    key = pseudonym_key(settings) if tenant else None
    try:
        asked = read_actions(_read_policy(policy)) if policy else {}
        return Redactor(key=key, actions={**settings.redaction_actions, **asked})
    except RedactionError as error:
        hint = "" if tenant else " (pseudonyms also need --tenant)"
        fail(f"{error}{hint if 'key' in str(error) else ''}", 2)


def _read_policy(path: Path) -> Any:
    """The actions in a file; where it holds more than that, those under `redaction`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"cannot read the policy: {error.strerror}: {path}", 2)
    except (YAMLError, ValueError):
        fail(f"the policy {path} is no YAML or JSON", 2)
    return values.get("redaction", values) if isinstance(values, dict) else values


def _redact_lines(
    redactor: Redactor, lines: BinaryIO, out: BinaryIO, tenant: str | None, told: Progress, *, explain: bool
) -> bool:
    """Redact lines one by one; False where any could not be."""
    from trajlake.transforms.redact.errors import RedactionError

    whole = True
    for number, line in enumerate(lines, start=1):
        told.advance(len(line))
        text = line.strip()
        if not text:
            continue
        try:
            clean, found = redactor.redact_json(text, tenant)
            if not found:
                _check_json(text)
        except (RedactionError, NotJson) as error:
            note(f"trajlake: line {number}: {error}")
            clean, found = LEFT_OUT, []
            whole = False
        out.write(clean + b"\n")
        out.flush()
        if explain and found:
            _explain(number, found)
    return whole


class NotJson(ValueError):
    """A line holds no JSON value."""


def _check_json(text: bytes) -> None:
    import msgspec

    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        # Not the parser's message: it may quote the line.
        raise NotJson("no JSON value; give each line one, text in quotes") from None


def _explain(number: int, found: list[Redaction]) -> None:
    import orjson

    note(orjson.dumps({"line": number, "redactions": [entry._asdict() for entry in found]}).decode())


def _list_rules(*, as_json: bool, markdown: bool) -> None:
    from trajlake.transforms.redact.rules import DEFAULT_RULES
    from trajlake.transforms.redact.rules_page import rules_page

    if markdown:
        sys.stdout.write(rules_page())
        return
    columns = ["id", "kind", "severity", "action", "finds"]
    rows = [(rule.id, str(rule.kind), str(rule.severity), str(rule.action), rule.finds) for rule in DEFAULT_RULES]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows], indent=True)
    else:
        print_table(rows, columns)
