"""`trajlake policy`: check policy files, explain a run, compare two sets on what is stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress, working

if TYPE_CHECKING:
    from trajlake.expectations.policies import PolicySet, Purpose
    from trajlake.governing.diff import Difference
    from trajlake.governing.explain import Explained

WRONG = 1
PoliciesOption = Annotated[
    str | None, typer.Option("--policies", metavar="FILE|DIR", help="Policies to judge by [setting: policies].")
]
PurposeOption = Annotated[
    str | None,
    typer.Option("--purpose", metavar="NAME", help="train, evaluate, statistics or audit; all if not given."),
]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="Judge as of a time (RFC 3339); now if not given.")
]


def register(app: typer.Typer) -> None:
    """Add `policy` with its actions."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("check")(check)
    group.command("explain", short_help="Say what a run may serve, and which rules decide.")(explain)
    group.command("diff", short_help="Show what other policies would change.")(diff)
    app.add_typer(group, name="policy", help="Check policies, explain what they decide, compare two sets.")


def check(
    place: Annotated[
        str | None, typer.Argument(metavar="FILE|DIR", help="What to check [setting: policies].", show_default=False)
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a policy file instead.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check policy files. Says every problem with file, line and field; exits 1 when there is one.

    Example: trajlake policy check policies/
    """
    from trajlake.expectations.policies import PolicyError, policy_schema
    from trajlake.governing.advice import advice
    from trajlake.streams.policies import load_policies
    from trajlake.streams.settings import load_settings

    if schema:
        print_json(policy_schema(), indent=True)
        return
    place = load_settings().policies if place is None else place
    try:
        policies = load_policies(place)
    except PolicyError as error:
        if as_json:
            print_json({"ok": False, "problems": [problem._asdict() for problem in error.problems]}, indent=True)
        else:
            for problem in error.problems:
                note(str(problem))
        raise SystemExit(WRONG) from None
    hints = advice(policies)
    if as_json:
        print_json(
            {
                "ok": True, "revision": policies.revision, "policies": len(policies.policies),
                "deny_rules": len(policies.deny), "advice": hints,
            },
            indent=True,
        )  # fmt: skip
        return
    print(f"ok: revision {policies.revision}, {len(policies.policies)} policies, {len(policies.deny)} deny rules")
    for hint in hints:
        note(f"note: {hint}")


def explain(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Run to explain.")],
    tenant: Annotated[str | None, typer.Option("--tenant", help="Its tenant, where several have such a run.")] = None,
    purpose: PurposeOption = None,
    at: AtOption = None,
    policies: PoliciesOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say for each purpose whether a run may serve it, which rules decided, where they stand, and on which evidence.

    Also lists the decisions that were stored about the run: of a blocked run nothing else is here.

    Example: trajlake policy explain run-17 --purpose train
    """
    from trajlake.governing.explain import as_json as shown
    from trajlake.governing.explain import explain as find
    from trajlake.reading.tables import open_lake
    from trajlake.streams.policies import training_place
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root, policies=policies)
    judged_by = _load(settings.policies)
    lake = open_lake(settings.root, storage_options=settings.storage_options)
    with working(f"looking for {run_id}"):
        found = find(
            lake, judged_by, run_id, _micros(at), tenant_id=tenant, purposes=_purposes(purpose),
            place=training_place(settings),
        )  # fmt: skip
    if not found:
        fail(f"no run {run_id} in {lake.root}, and no decision about one")
    if as_json:
        print_json([shown(each, judged_by) for each in found], indent=True)
        return
    for each in found:
        _show(each, judged_by)


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="File or folder; `defaults` for none.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, to compare with.")],
    purpose: PurposeOption = None,
    at: AtOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would change on the stored runs if policies B held in the place of A: by tenant, skill and purpose.

    Example: trajlake policy diff policies/ proposed/
    """
    from trajlake.governing.diff import compare
    from trajlake.reading.tables import open_lake
    from trajlake.streams.policies import training_place
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    before, after = (_load("" if place == "defaults" else place) for place in (a, b))
    lake = open_lake(settings.root, storage_options=settings.storage_options)
    with progress() as shown:
        found = compare(lake, before, after, _micros(at), _purposes(purpose), training_place(settings), shown)
    if as_json:
        print_json(_difference(found), indent=True)
        return
    print(f"{found.judged:,} runs judged; {found.revision_a} -> {found.revision_b}")
    summary = [(name, found.allowed_a[name], found.allowed_b[name]) for name in found.allowed_a]
    print_table(summary, ["purpose", "allowed by A", "allowed by B"])
    if found.changes:
        columns = ["tenant", "skill", "purpose", "newly allowed", "newly denied", "other terms", "for example"]
        print_table(_changes(found), columns)
    else:
        note("no run is judged otherwise")


def _load(place: str) -> PolicySet:
    from trajlake.expectations.policies import PolicyError
    from trajlake.streams.policies import load_policies

    try:
        return load_policies(place)
    except PolicyError as error:
        fail(str(error))


def _purposes(name: str | None) -> tuple[Purpose, ...]:
    from trajlake.expectations.policies import PURPOSES

    if name is None:
        return PURPOSES
    chosen = tuple(purpose for purpose in PURPOSES if purpose == name)
    if not chosen:
        fail(f"there is no purpose {name}; there are {', '.join(PURPOSES)}")
    return chosen


def _micros(at: str | None) -> int:
    from trajlake.transforms.decode.timestamps import BadTime, micros, normalise_time

    if at is None:
        return time.time_ns() // 1000
    try:
        return micros(normalise_time(at)[0])
    except BadTime as error:
        fail(f"--at: {error}; write it as 2026-03-01T10:00:00Z")


def _show(explained: Explained, policies: PolicySet) -> None:
    from trajlake.governing.explain import rule_place

    facts = explained.facts
    if facts is None:
        print("the run has no row here: what came of it was refused")
    else:
        place = f"{facts.topic}/{facts.partition} offset {facts.offset}"
        print(f"run {facts.tenant_id}/{facts.run_id}, skill {facts.skill_name or '-'}, closed at {place}")
        print(f"landed under policies {explained.landed_under or '-'}, judged by {policies.revision}")
    rows: list[tuple[Any, ...]] = []
    for verdict in explained.verdicts:
        if verdict.allowed:
            rows += [(verdict.purpose, "allow", rule, rule_place(policies, rule), None, None) for rule in verdict.rules]
        else:
            rows += [
                (verdict.purpose, "deny", found.rule_id, rule_place(policies, found.rule_id), found.code, found.detail)
                for found in verdict.reasons
            ]
    if rows:
        print_table(rows, ["purpose", "verdict", "rule", "where it stands", "code", "evidence"])
    stored = [
        (row["at"].isoformat(" ", "milliseconds"), row["stage"], row["purpose"], row["verdict"],
         f"{row['topic']}/{row['partition']} offset {row['offset']}", ", ".join(row["rules"] or ()),
         row["policy_revision"])
        for row in explained.decisions
    ]  # fmt: skip
    if stored:
        columns = ["at", "stage", "purpose", "verdict", "place", "rules", "policies"]
        print_table(stored, columns, title="stored decisions")


def _changes(found: Difference) -> list[tuple[Any, ...]]:
    return [
        (*scope, change.newly_allowed, change.newly_denied, change.other_terms,
         "; ".join(f"{run} ({codes})" if codes else run for run, codes in change.examples))
        for scope, change in sorted(found.changes.items(), key=lambda item: tuple(str(part) for part in item[0]))
    ]  # fmt: skip


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "a": found.revision_a,
        "b": found.revision_b,
        "judged": found.judged,
        "allowed": {name: {"a": found.allowed_a[name], "b": found.allowed_b[name]} for name in found.allowed_a},
        "changes": [
            {
                **scope._asdict(), "newly_allowed": change.newly_allowed, "newly_denied": change.newly_denied,
                "other_terms": change.other_terms,
                "examples": [{"run_id": run, "codes": codes} for run, codes in change.examples],
            }
            for scope, change in sorted(found.changes.items(), key=lambda item: tuple(str(part) for part in item[0]))
        ],
    }  # fmt: skip
