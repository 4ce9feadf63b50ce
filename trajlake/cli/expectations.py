"""`trajlake expectations`: the quality rules, what they say and whether they can be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption
from trajlake.cli.output import fail, print_json, print_table
from trajlake.cli.progress import working

if TYPE_CHECKING:
    from trajlake.expectations.suites.suite import Suite, SuiteError

SuitesOption = Annotated[
    str | None,
    typer.Option("--suites", metavar="DIR", help="Folder of suites that replace the shipped ones [setting: suites]."),
]


def register(app: typer.Typer) -> None:
    """Add `expectations` with `list` and `check`."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list", short_help="List every quality rule.")(list_rules)
    group.command("check")(check)
    app.add_typer(group, name="expectations", help="Quality rules: list them, check a suite.")


def list_rules(suites: SuitesOption = None, as_json: JsonOption = False) -> None:
    """List every quality rule: its suite, how grave a failure is, and what it says.

    Example: trajlake expectations list
    """
    found = _suites(suites)
    if as_json:
        print_json({"suites": [_as_json(suite) for suite in found.values()]}, indent=True)
        return
    rows = [
        (suite.name, rule.rule_id, rule.severity.value, rule.description or f"{rule.type}: {', '.join(rule.columns)}")
        for suite in found.values()
        for rule in suite.expectations
    ]
    print_table(rows, ["suite", "rule", "severity", "what it says"])


def check(
    file: Annotated[Path | None, typer.Argument(help="One suite; without it, all in use.", metavar="FILE")] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Table or `publication` that FILE is for, where its name does not say so."),
    ] = None,
    suites: SuitesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that every rule can be used where its suite is used.

    Suites of tables have to judge rows as they land, so each of their rules must compile; `publication` is given to
    Great Expectations. Exits 1 and names each rule that cannot be used, with the reason.

    Example: trajlake expectations check my-suites/steps.json
    """
    from trajlake.expectations.suites.suite import SUITES, SuiteError, load_suite

    try:
        chosen = _suites(suites) if file is None else {"": load_suite(file)}
    except SuiteError as error:
        fail(str(error))
    found = []
    for suite in chosen.values():
        place = table or suite.name
        if place not in SUITES:
            fail(f"suite {suite.name} is for none of {', '.join(SUITES)}; say which one with --table", 2)
        with working(f"trying the rules of {suite.name}"):
            found.append((suite, _problems(suite, place)))
    problems = [problem for _, each in found for problem in each]
    if as_json:
        print_json({"ok": not problems, "suites": [_as_json(*each) for each in found]}, indent=True)
    else:
        rows = [
            (suite.name, suite.revision, len(suite.expectations), len(suite.expectations) - len(each))
            for suite, each in found
        ]
        print_table(rows, ["suite", "revision", "rules", "usable"])
        for problem in problems:
            print(problem)
    if problems:
        raise typer.Exit(1)


def _suites(folder: str | None) -> dict[str, Suite]:
    from trajlake.expectations.suites.suite import SuiteError, load_suites
    from trajlake.streams.settings import load_settings

    place = load_settings(suites=folder).suites
    try:
        return load_suites(Path(place) if place else None)
    except SuiteError as error:
        fail(str(error))


def _problems(suite: Suite, place: str) -> list[SuiteError]:
    from trajlake.expectations.suites.suite import PUBLICATION
    from trajlake.streams.checkpoints.checkpoint import suite_problems
    from trajlake.transforms.gate.rowgate import compile_rules

    return suite_problems(suite) if place == PUBLICATION else compile_rules(suite, place)[1]


def _as_json(suite: Suite, problems: list[SuiteError] | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": suite.name, "revision": suite.revision}
    if problems is not None:
        return {
            **shown,
            "rules": len(suite.expectations),
            "problems": [{"rule": problem.rule, "problem": problem.problem} for problem in problems],
        }
    rules = [
        {
            "rule": rule.rule_id,
            "type": rule.type,
            "columns": list(rule.columns),
            "severity": rule.severity.value,
            "description": rule.description,
        }
        for rule in suite.expectations
    ]
    return {**shown, "rules": rules}
