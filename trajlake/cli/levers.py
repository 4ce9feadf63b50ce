"""`trajlake levers`: what can be advised, and a team's own tier file taken in and given back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table

if TYPE_CHECKING:
    from trajlake.sinks.lake import Lake
    from trajlake.transforms.levers.tierfile import TierFile

TenantOption = Annotated[str, typer.Option("--tenant", metavar="T", help="Tenant whose skills the file is about.")]


def register(app: typer.Typer) -> None:
    """Add `levers`."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("show")(show)
    group.command("import", short_help="Take in a team's tier file.")(import_file)
    group.command("export", short_help="Give a team's tier file back.")(export_file)
    app.add_typer(
        group, name="levers", help="The levers that can be advised; take in and give back a team's own tier file."
    )


def show(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A lever table of your own, to check; none shows the one in use."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the lever table in use, or check another. Exit code 1 where the file is wrong.

    Example: trajlake levers show
    """
    import msgspec

    from trajlake.expectations.levers import LeverError
    from trajlake.streams.levers import read_lever_file
    from trajlake.streams.settings import load_settings

    try:
        table = read_lever_file(load_settings().levers_file if file is None else str(file))
    except LeverError as error:
        fail(str(error))
    if as_json:
        print_json({"revision": table.revision, **msgspec.to_builtins(table)}, indent=True)
        return
    columns = ["lever", "for", "title", "when", "chance", "hours", "usd", "spent after"]
    rows = [
        (
            str(each.lever), each.subject, each.title, "; ".join(_condition(one) for one in each.when),
            f"{each.chance[0]:g} of {each.chance[1]:g}", each.cost.hours, each.cost.usd,
            f"{each.spent.after_runs} runs, gain < {each.spent.least_gain:g}",
        )
        for each in table.levers
    ]  # fmt: skip
    print_table(rows, columns, title=f"levers, revision {table.revision}")


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Such as skill_model_policy.json.")],
    tenant: TenantOption,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take in a team's tier file: pinned skills get no tier advice, and advice is shown beside what the file says.

    Example: trajlake levers import skill_model_policy.json --tenant acme
    """
    from trajlake.reading.tiers import beside
    from trajlake.sinks.tierfiles import save_tier_file
    from trajlake.transforms.levers.tierfile import TierFileError, read_tier_file

    try:
        text = file.read_bytes()
        taken = read_tier_file(text)
    except OSError as error:
        fail(f"{file}: {error.strerror or error}")
    except TierFileError as error:
        fail(f"{file}: {error}")
    lake = _lake(root)
    save_tier_file(lake, tenant, text)
    rows = beside(lake, tenant, taken)
    if as_json:
        print_json({"tenant": tenant, "skills": rows}, indent=True)
        return
    if rows:
        print_table(rows, list(rows[0]), title=f"{len(rows)} skills of {tenant}")
    pinned = sum(each.pinned for each in taken.entries.values())
    note(f"taken in: {len(taken.entries)} skills of {tenant}, {pinned} pinned")


def export_file(
    tenant: TenantOption,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Where to write; none prints it.")] = None,
    root: RootOption = None,
) -> None:
    """Give a team's tier file back with the tiers that were pulled since (`agent.lever.applied`); all else as it
    came.

    Example: trajlake levers export --tenant acme
    """
    from trajlake.reading.tiers import changes_since
    from trajlake.sinks.tierfiles import load_tier_file
    from trajlake.transforms.levers.tierfile import read_tier_file, write_tier_file

    lake = _lake(root)
    text = load_tier_file(lake, tenant)
    if text is None:
        fail(f"no tier file of {tenant} was taken in; `trajlake levers import FILE --tenant {tenant}` does that")
    taken: TierFile = read_tier_file(text)
    changes = changes_since(lake, tenant, taken)
    written = write_tier_file(taken, changes)
    if file is None:
        sys.stdout.buffer.write(written)
        return
    try:
        file.write_bytes(written)
    except OSError as error:
        fail(f"{file}: {error.strerror or error}")
    note(f"wrote {file}: {len(changes)} of {len(taken.entries)} skills changed")


def _lake(root: str | None) -> Lake:
    from trajlake.sinks.lake import Lake
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    return Lake(settings.root, settings.storage_options)


def _condition(condition: Any) -> str:
    if condition.equals is not None:
        return f"{condition.fact} is {str(condition.equals).lower()}"
    if condition.one_of is not None:
        return f"{condition.fact} one of {', '.join(condition.one_of)}"
    if condition.at_least is not None:
        return f"{condition.fact} at least {condition.at_least:g}"
    if condition.lacks is not None:
        return f"{condition.fact} lacks {', '.join(condition.lacks)}"
    return f"{condition.fact} holds {', '.join(condition.holds or ())}"
