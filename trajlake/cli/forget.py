"""`trajlake forget`: erase a subject or run everywhere, and prove it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trajlake.cli.options import JsonOption, RootOption
from trajlake.cli.output import fail, note, print_json, print_table
from trajlake.cli.progress import progress

if TYPE_CHECKING:
    from trajlake.sinks.lake import Lake
    from trajlake.streams.keeping.forget import Forgotten
    from trajlake.streams.keeping.proof import Proof

SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add `forget`."""
    app.command("forget")(forget)


def forget(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Tenant that it concerns.")] = None,
    subject: Annotated[
        list[str] | None, typer.Option("--subject", metavar="ID", help="Data subject, as in runs.subject_id.")
    ] = None,
    run: Annotated[list[str] | None, typer.Option("--run", metavar="ID", help="Run, with the runs it led to.")] = None,
    needle: Annotated[
        list[str] | None, typer.Option("--needle", metavar="TEXT", help="Also prove that this text is nowhere.")
    ] = None,
    needles_file: Annotated[
        Path | None, typer.Option("--needles-file", metavar="FILE", help="The same, one a line.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who asks for it, for the erasure ledger.")] = None,
    why: Annotated[str | None, typer.Option("--note", help="Why; a case number rather than a name.")] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="S", min=0, help="How long a batch on its way is waited for.")
    ] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Finish erasures that were begun and stopped.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Erase a data subject or a run from every table, file, snapshot and old version, while workers land.

    First comes an entry in the erasure ledger, which holds digests and no names. What arrives of them later lands as
    an empty row. At the end every file of the lake is read, to prove that neither the subject nor its runs are there.

    Exits 0 when nothing is left, 1 when something was found. Killed at any moment, --resume or the same call goes on.
    Kafka's own log is not touched: it forgets by its retention.

    Example: trajlake forget --tenant acme --subject u-381 --note case-17
    """
    from trajlake.streams.keeping import forget as erasure
    from trajlake.streams.keeping.proof import prove_absence
    from trajlake.streams.keeping.subjects import forms_of
    from trajlake.streams.settings import load_settings

    settings = load_settings(root=root)
    lake = settings.lake()
    if (not tenant) if (subject or run) else not resume:
        fail("name --tenant and a --subject or --run to forget; --resume finishes what was begun", 2)
    if lake.is_local and not Path(lake.uri).is_dir():
        fail(f"no lake at {lake.uri}", 2)
    words = [*(subject or ()), *(run or ()), *(needle or ())]
    if needles_file is not None:
        words += [line for line in needles_file.read_text().splitlines() if line.strip()]
    # All of them before the first request: without the key of pseudonyms nobody's form can be told.
    forms = {name: forms_of(settings, str(tenant), name) for name in subject or ()}
    for name, form in forms.items():
        words += form.names[1:]
        if form.is_marked:
            note("redaction leaves no more of this id than a marker; runs that hold only that are erased by --run")
        erasure.request(lake, str(tenant), subject_id=name, forms=form.names, requested_by=by, note=why)
    for name in run or ():
        erasure.request(lake, str(tenant), run_id=name, requested_by=by, note=why)
    with progress() as shown:
        done = erasure.resume(lake, progress=shown)
        shown.stage("waiting for batches on their way")
        settled = _settle(lake, settings.app_id, wait_s)
        erasure.request_for_met(lake, shown)
        done += erasure.resume(lake, progress=shown)
        words += sorted({name for one in done for _, name in one.names})
        proof = prove_absence(lake, words, shown) if words else None
    if proof is not None:
        erasure.note_proof(lake, done, proof)
    _show(done, proof, as_json=as_json)
    if not settled:
        fail("a batch that workers have not finished may hold more: once it has landed, `trajlake forget --resume`")
    if proof is not None and not proof.absent:
        raise typer.Exit(1)


def _settle(lake: Lake, app_id: str, wait_s: float) -> bool:
    """Wait until no batch is on its way. Returns whether that came to be."""
    from trajlake.streams.keeping.forget import in_flight

    deadline = time.monotonic() + wait_s
    while in_flight(lake, app_id):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _show(done: list[Forgotten], proof: Proof | None, *, as_json: bool) -> None:
    if as_json:
        erased = [{name: value for name, value in asdict(one).items() if name != "names"} for one in done]
        print_json({"erasures": erased, "proof": _proof(proof)}, indent=True)
        return
    for one in done:
        print(
            f"erasure {one.erasure}: {one.runs:,} runs, {one.payloads:,} payloads, "
            f"{one.snapshots:,} snapshots, {sum(one.files.values()):,} old files, {one.exports:,} exports"
        )
        print_table([{"table": name, "rows": rows} for name, rows in one.rows.items()], ["table", "rows"])
    if not done:
        note("nothing was left to erase")
    if proof is None:
        return
    print(f"{proof.files:,} files, {proof.bytes:,} bytes read")
    for mention in proof.mentions[:SHOWN]:
        column = f" column {mention.column}" if mention.column else ""
        print(f"found: word {mention.needle + 1} in {mention.path}{column}")
    for path in proof.unreadable[:SHOWN]:
        print(f"could not be read: {path}")
    if proof.absent:
        print("proved: nothing of them is left")
    else:
        print(f"not proved: {proof.mention_count:,} places hold a word, {len(proof.unreadable):,} files are unreadable")
        note("rows of other runs may mention the words; --run erases such a run too")


def _proof(proof: Proof | None) -> dict[str, Any] | None:
    return None if proof is None else {**asdict(proof), "absent": proof.absent}
