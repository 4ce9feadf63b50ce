"""`trajlake doctor`: what is wrong here, and the next step."""

from __future__ import annotations

from typing import Annotated

import typer

from trajlake.cli.options import BootstrapOption, JsonOption, RootOption
from trajlake.cli.output import USAGE, fail, note, print_json, print_table
from trajlake.cli.progress import progress


def register(app: typer.Typer) -> None:
    """Add `doctor`."""
    app.command("doctor")(doctor)


def doctor(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="This check alone; may be repeated.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as failures.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, help="For one question to Kafka or a worker.")
    ] = 5.0,
    root: RootOption = None,
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
) -> None:
    """Examine this machine, the settings, Kafka, the lake and the workers, and say the next step for all that is wrong.

    ok: nothing to do. warning: it works, and somebody should know. failed: something does not work. Nothing is changed;
    one small object is written below the root and removed again.

    Exits 0 when nothing failed (with --strict: no warning either), 1 when something did, 2 when an option is wrong.

    Example: trajlake doctor --root ./lake
    """
    from trajlake.doctor.checks import CHECKS, examine
    from trajlake.doctor.finding import Finding, Level, Patient, failed
    from trajlake.streams.settings import SettingError, load_settings

    unknown = [name for name in only or () if name not in CHECKS]
    if unknown:
        fail(f"no check named {unknown[0]}; there are {', '.join(CHECKS)}", USAGE)
    found: list[tuple[str, Finding]] = []
    try:
        settings = load_settings(root=root, bootstrap_servers=bootstrap_servers)
    except SettingError as error:
        found.append(("settings", failed(str(error), "mend it first: `trajlake config` tells what each setting takes")))
    else:
        with progress() as shown:
            shown.stage("examining", len(only or CHECKS), "checks")
            for each in examine(Patient(settings, timeout_s=timeout_s), only):
                found.append(each)
                shown.advance()
    counts = {level: sum(finding.level is level for _, finding in found) for level in Level}
    bad = bool(counts[Level.FAILED] or (strict and counts[Level.WARNING]))
    rows = [
        {"level": finding.level.value, "check": name, "says": finding.says, "next": finding.next_step}
        for name, finding in found
    ]
    if as_json:
        print_json({"ok": not bad, "counts": counts, "checks": rows}, indent=True)
    else:
        print_table(rows, ["level", "check", "says", "next"])
        note(", ".join(f"{count} {level.value}" for level, count in counts.items()))
    raise typer.Exit(1 if bad else 0)
