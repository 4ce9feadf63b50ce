"""`trajlake show`: one run, step by step, with its rewards and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, print_json
from trajlake.cli.progress import working
from trajlake.reading.text import clean

TEXT_CHARS = 200


def register(app: typer.Typer) -> None:
    """Add `show`."""
    app.command("show")(show)


def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Run, as `trajlake runs` lists it.")],
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Tenant, where several have it.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Texts at full length.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: what it decided and saw, who graded it, what is missing, whether it is published and why.

    Reads the restricted zone.

    Example: trajlake show run-17 --root ./lake
    """
    from trajlake.reading.runview import run_in_full
    from trajlake.reading.tables import open_lake

    try:
        with working(f"looking for {run_id}"):
            found = run_in_full(open_lake(root), run_id, tenant)
    except LookupError as error:
        fail(str(error.args[0]))
    if as_json:
        print_json(found, indent=True)
        return
    for line in _lines(found, None if full else TEXT_CHARS):
        print(line)


def _lines(found: dict[str, Any], chars: int | None) -> Iterator[str]:
    run = found["run"]
    if run is None:
        yield f"run {clean(found['steps'][0]['run_id'])} is open: {len(found['steps'])} steps so far"
    else:
        yield from _head(run, chars)
    yield from _verdicts(found)
    yield ""
    for step in found["steps"]:
        yield from _step(step, chars)
    yield from _rewards(found["rewards"], chars)


def _head(run: dict[str, Any], chars: int | None) -> Iterator[str]:
    yield f"run {clean(run['run_id'])} of {clean(run['tenant_id'])}"
    facts = {
        "skill": _named(run, "skill"),
        "agent": _named(run, "agent"),
        "model": " ".join(clean(run[n]) for n in ("model_name", "model_tier") if run[n]),
        "task": " ".join(f"{n} {clean(run[f'{n}_id'])}" for n in ("task", "group", "attempt") if run[f"{n}_id"]),
        "spawned by": clean(run["parent_run_id"]),
        "forked from": clean(run["forked_from_id"]),
        "time": f"{run['started_at']} to {run['ended_at']}" if run["started_at"] else "",
        "end": f"{run['end_state']}{' (inferred: no end event came)' if run['end_inferred'] else ''}",
        "outcome": f"{run['outcome_class']}{': ' + run['failure_kind'] if run['failure_kind'] else ''}"
        f" (rule {run['failure_basis']})",
        "size": f"{run['step_count']} steps, {run['tool_call_count']} tool calls, {run['tool_error_count']} errors",
        "gaps": _gaps(run["gaps"]),
        "redactions": _redactions(run["redactions"]),
        "input": _text(run["input"], chars),
        "output": _text(run["output"], chars),
    }
    for name, value in facts.items():
        if value:
            yield f"  {name:<12} {value}"


def _verdicts(found: dict[str, Any]) -> Iterator[str]:
    verdicts = found["verdicts"]
    if not verdicts:
        yield "  verdict      not judged yet; `trajlake curate` judges closed runs"
        return
    state = "in the training zone" if found["published"] else "not in the training zone"
    yield f"  verdict      {verdicts[-1]['verdict']}; {state}"
    for row in verdicts:
        yield (
            f"    publication {row['publication']}: {row['verdict']} ({row['cause']}, by {clean(row['decided_by'])}, "
            f"{row['decided_at']:%Y-%m-%d %H:%M:%S}, policies {row['policy_revision']})"
        )
        for reason in row["reasons"] or ():
            detail = f": {clean(reason['detail'])}" if reason["detail"] else ""
            yield f"      {reason['code']} by {clean(reason['rule'])}{detail}"
        for finding in row["scan_findings"] or ():
            kind, score = clean(finding["entity_type"]), f"{finding['score']:g}"
            yield f"      {kind} × {finding['count']} in {finding['path']} (score {score})"


def _step(step: dict[str, Any], chars: int | None) -> Iterator[str]:
    marks = [
        step["source"] if step["source"] != "agent" else "",
        "copied" if step["is_copied_context"] else "",
        f"segment {step['context_segment']}" if step["context_segment"] else "",
        "late" if step["late"] else "",
        step["outcome_class"] if step["outcome_class"] != "success" else "",
        step["failure_kind"] or "",
    ]
    yield f"step {step['step_index']} {' '.join(f'[{clean(mark)}]' for mark in marks if mark)}".rstrip()
    for message in step["input_messages"] or ():
        yield f"  {clean(message['role'])}: {_text(message['content'], chars)}"
    if step["reasoning_content"]:
        yield f"  reasoning: {_text(step['reasoning_content'], chars)}"
    if step["message"]:
        yield f"  says: {_text(step['message'], chars)}"
    calls, results = step["tool_calls"] or (), list(step["observations"] or ())
    for place, call in enumerate(calls):
        yield f"  calls {clean(call['function_name'])} {_text(call['arguments'], chars)}"
        own = [result for result in results if result["source_call_id"] == call["tool_call_id"]]
        if any(later["tool_call_id"] == call["tool_call_id"] for later in calls[place + 1 :]):
            own = own[:1]
        for result in own or (None,):
            yield f"    {_result(result, chars)}"
        for result in own:
            results.remove(result)
    for result in results:
        yield f"  result without a call: {_result(result, chars)}"
    for name, value in (("gaps", _gaps(step["gaps"])), ("redactions", _redactions(step["redactions"]))):
        if value:
            yield f"  {name}: {value}"


def _result(result: dict[str, Any] | None, chars: int | None) -> str:
    if result is None:
        return "no result came"
    kind = "error" if result["is_error"] else "result"
    facts = [str(result[n]) for n in ("error_type", "http_status", "exit_code", "exit_signal") if result[n] is not None]
    about = f" ({clean(', '.join(facts))})" if facts else ""
    return f"{kind}{about}: {_text(result['content'] or result['error_message'], chars)}"


def _rewards(rewards: list[dict[str, Any]], chars: int | None) -> Iterator[str]:
    if rewards:
        yield "rewards"
    superseded = {reward["supersedes"] for reward in rewards}
    for reward in rewards:
        score = "no score" if reward["score"] is None else f"{reward['score']:g}"
        by = " ".join(
            clean(reward[n]) for n in ("annotator_kind", "annotator_id", "annotator_version") if reward[n] is not None
        )
        marks = [
            f"step {clean(reward['step_id'])}" if reward["step_id"] else "",
            "late" if reward["late"] else "",
            "superseded" if reward["reward_id"] in superseded else "",
        ]
        why = f": {_text(reward['explanation'], chars)}" if reward["explanation"] else ""
        about = "".join(f" [{mark}]" for mark in marks if mark)
        yield f"  {clean(reward['name'])} {score} by {by}{about}{why}"


def _named(run: dict[str, Any], what: str) -> str:
    return " ".join(clean(run[f"{what}_{part}"]) for part in ("name", "version") if run[f"{what}_{part}"])


def _gaps(gaps: list[dict[str, Any]] | None) -> str:
    return ", ".join(
        gap["code"] if gap["detail"] is None else f"{gap['code']} ({clean(gap['detail'])})" for gap in gaps or ()
    )


def _redactions(cuts: list[dict[str, Any]] | None) -> str:
    return ", ".join(f"{clean(cut['rule'])} × {cut['count']}" for cut in cuts or ())


def _text(value: str | None, chars: int | None) -> str:
    text = " ".join(clean(value).split())
    return text if chars is None or len(text) <= chars else text[: chars - 1] + "…"
