"""`trajlake decisions`: what was advised, on which evidence, and whether it comes out the same when decided again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress, working

if TYPE_CHECKING:
    from trajlake.expectations.outcomes import Decision
    from trajlake.reading.tables import LakeTables

TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="T", help="Only this tenant.")]
SkillOption = Annotated[str | None, typer.Option("--skill", metavar="S", help="Only this skill.")]
_ID_CHARS = 12


def register(app: typer.Typer) -> None:
    """Add `decisions`."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list", short_help="List advice that stands, newest first.")(list_decisions)
    group.command("show", short_help="Show one decision with all its evidence.")(show)
    group.command("replay")(replay)
    app.add_typer(group, name="decisions", help="Advice on levers: list it, show its evidence, decide it again.")


def list_decisions(
    root: RootOption = None,
    tenant: TenantOption = None,
    skill: SkillOption = None,
    every: Annotated[bool, typer.Option("--all", help="Also what is superseded, expired, or advises nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List advice that stands, newest first, beside what promoting after two bad runs in a row would have done.

    Example: trajlake decisions list --root ./lake
    """
    from trajlake.reading.decisions import read_decisions, state_of

    with working("reading the decisions"):
        decisions = read_decisions(_open(root), tenant=tenant, skill=skill)
    superseded = frozenset(each.supersedes for each in decisions if each.supersedes)
    now_us = round(datetime.now(UTC).timestamp() * 1e6)
    shown = [(each, state_of(each, superseded, now_us)) for each in decisions]
    if not every:
        shown = [(each, state) for each, state in shown if state in ("standing", "restated") and each.lever != "none"]
    if as_json:
        print_json([{**_plain(each), "state": state} for each, state in shown], indent=True)
        return
    if not shown:
        note("no advice stands; --all shows what was superseded, has expired, or advised nothing")
        return
    columns = ["id", "as_of", "tenant", "subject", "lever", "target", "confidence", "old_rule", "state", "summary"]
    print_table([_line(each, state) for each, state in shown], columns)


def show(
    decision: Annotated[str, typer.Argument(metavar="ID", help="Id, or how it begins.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one decision: advice, evidence, what was rejected and why, and all that it was made from.

    Example: trajlake decisions show 3f9a2c --root ./lake
    """
    found = _find(root, decision)
    if as_json:
        print_json(_plain(found, inputs=True), indent=True)
        return
    print(found.summary)
    facts = {
        "decision_id": found.decision_id, "lever": found.lever, "target": f"{found.target_kind} {found.target}",
        "confidence": _rounded(found.confidence), "expected_gain": _gain(found),
        "expected_cost_usd": _rounded(found.expected_cost_usd), "old_rule": found.old_rule,
        "as_of": _time(found.as_of_us),
        "expires": _time(found.expires_us), "supersedes": found.supersedes, "flag": found.flag,
        "flag_detail": found.flag_detail, "policy_revision": found.policy_revision,
        "code_revision": found.code_revision,
        "table_versions": ", ".join(f"{name}={version}" for name, version in sorted(found.table_versions.items())),
    }  # fmt: skip
    print_table([(name, value) for name, value in facts.items() if value], ["fact", "value"])
    print_table([(each.name, each.value, each.detail) for each in found.evidence], ["evidence", "value", "detail"])
    print_table([(each.lever, each.reason, each.detail) for each in found.rejected], ["rejected", "reason", "detail"])


def replay(
    decision: Annotated[str | None, typer.Argument(metavar="ID", help="Id, or how it begins; none with --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Decide every decision again.")] = False,
    root: RootOption = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide again from the stored inputs. Exit code 1 where another decision comes out.

    Example: trajlake decisions replay 3f9a2c --root ./lake
    """
    from trajlake.reading.decisions import read_decisions
    from trajlake.transforms.levers.advice import replay as decide_again

    if (decision is None) == (not every):
        fail("give the id of one decision, or --all", code=2)
    if decision is None:
        with working("reading the decisions"):
            found = read_decisions(_open(root), tenant=tenant)
    else:
        found = [_find(root, decision)]
    results: list[dict[str, Any]] = []
    with progress() as shown:
        shown.stage("deciding again", len(found), "decisions")
        for each in found:
            shown.advance()
            try:
                agreement = decide_again(each)
            except ValueError as error:
                results.append({"decision_id": each.decision_id, "agrees": False, "differences": [f"inputs: {error}"]})
                continue
            results.append(
                {"decision_id": each.decision_id, "agrees": agreement.agrees, "differences": agreement.differences}
            )
    wrong = [each for each in results if not each["agrees"]]
    if as_json:
        print_json({"decisions": len(results), "agree": len(results) - len(wrong), "results": results}, indent=True)
    else:
        for result in wrong:
            print(f"{result['decision_id']}: comes out otherwise in {', '.join(result['differences'])}")
        print(f"{len(results) - len(wrong)} of {len(results)} decisions come out the same")
    if wrong:
        raise typer.Exit(1)


def _open(root: str | None) -> LakeTables:
    from trajlake.reading.tables import open_lake
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    return open_lake(settings.root, storage_options=settings.storage_options)


def _find(root: str | None, beginning: str) -> Decision:
    from trajlake.reading.decisions import DecisionNotFound, find_decision

    try:
        with working("looking for the decision"):
            return find_decision(_open(root), beginning)
    except DecisionNotFound as error:
        fail(str(error))


def _line(decision: Decision, state: str) -> dict[str, Any]:
    return {
        "id": decision.decision_id[:_ID_CHARS],
        "as_of": _time(decision.as_of_us),
        "tenant": decision.tenant_id,
        "subject": decision.skill_name or f"{len(decision.skills)} skills",
        "lever": decision.lever,
        "target": decision.target,
        "confidence": _rounded(decision.confidence),
        "old_rule": decision.old_rule,
        "state": state,
        "summary": decision.summary,
    }


def _plain(decision: Decision, *, inputs: bool = False) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(decision))
    whole: dict[str, Any] = {name: plain.get(name) for name in decision.__struct_fields__}
    if not inputs:
        del whole["inputs"]
    return whole


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _gain(decision: Decision) -> str | None:
    if decision.expected_gain is None:
        return None
    return f"{decision.expected_gain:+.3g} {decision.expected_gain_unit or ''}".rstrip()


def _time(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(" ", "seconds").replace("+00:00", "Z")
