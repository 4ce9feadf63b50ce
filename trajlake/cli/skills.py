"""`trajlake skills`: the current statistics of skills."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import working


def register(app: typer.Typer) -> None:
    """Add `skills`."""
    app.command("skills")(skills)


def skills(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Skills of this tenant only.")] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="W", help="1h, 24h, 7d, 30d, or version: runs of the newest versions.")
    ] = "24h",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each skill's runs by outcome, its rate with an interval that holds whenever looked at, streak and advice.

    The numbers are those that `trajlake roll` told last, as of each skill's newest run. With --json: a list with one
    object a skill.

    Example: trajlake skills --window 7d
    """
    from trajlake.expectations.outcomes import WINDOWS
    from trajlake.reading.skills import current_statistics, skill_object, standing_advice
    from trajlake.reading.tables import LakeTables
    from trajlake.streams.settings import load_settings

    if window not in WINDOWS:
        fail(f"no window {window!r}; known: {', '.join(WINDOWS)}", code=2)
    lake = LakeTables(load_settings(root=root).lake())
    with working("reading the statistics"):
        rows = current_statistics(lake, tenant=tenant, window=window)
        advice = standing_advice(lake, datetime.now(UTC), tenant=tenant)
    found = [skill_object(row, advice.get((row["tenant_id"], row["skill_name"]))) for row in rows.iter_rows(named=True)]
    if as_json:
        print_json(found, indent=True)
        return
    if not found:
        whose = "" if tenant is None else f" of tenant {tenant}"
        note(f"no statistics{whose} in {lake.root}: `trajlake roll` makes them from what `trajlake land` lands")
        return
    shown = [_shown(each) for each in found]
    print_table(shown, list(shown[0]), title=f"skills, {window} up to each one's newest run")


def _shown(skill: dict[str, Any]) -> dict[str, Any]:
    from trajlake.transforms.stats.assessment import percent, percent_range

    interval, advice = skill["interval"], skill["advice"]
    others = ", ".join(
        f"{name} {count}"
        for name, count in sorted(skill["counts"].items(), key=lambda each: -each[1])
        if name != "success"
    )
    return {
        "tenant": skill["tenant"],
        "skill": skill["skill"] or "(none named)",
        "runs": skill["runs"],
        "success": skill["counts"].get("success", 0),
        "other outcomes": others,
        "rate": None if skill["rate"] is None else percent(skill["rate"]),
        "between": None if interval is None else percent_range(interval["low"], interval["high"]),
        "streak": skill["streak"],
        "state": skill["state"],
        "advice": None if advice is None or advice["lever"] == "none" else f"{advice['lever']}: {advice['target']}",
    }
