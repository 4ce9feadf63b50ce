"""How a publication takes effect, in an order that may be broken off anywhere.

    1  curation       the verdicts, with a `txn` for how far each source was read: what is decided is decided here
    2  taken out      rows of withdrawn runs leave the newest version of `trajectories`, file by file; registered
                      manifests that hold them are marked revoked
    3  trajectories   the published rows and the tombstones, with a `txn` on the publication's number
    4  reports        what was left out, in numbers, and what the batch rules said: restricted and training zone
    5  publications   the summary, with a `txn` on the number

    killed before   left behind                         at the next start
    1               nothing, or a file nobody refers to the same runs are judged anew
    2, 3            verdicts without their effect       steps 2 to 5 are done from the rows of `curation`, which hold
                                                        all that a published row is a function of
    4, 5            no report                           likewise; what is there already is recognised by its `txn`

Readers of the training zone see a publication at step 3 and not before; a withdrawn run is gone at step 2.

Steps 1 and 3 say up to which erasure their rows obey (`sinks/erasures.py`): a publication that an erasure came upon is
refused at its next commit and begun anew from what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from trajlake.expectations.reasons import Publication
from trajlake.expectations.tables import CURATION, PUBLICATIONS, TRAJECTORIES
from trajlake.sinks.actions import add_actions
from trajlake.sinks.datafiles import remove_data_file, write_data_file
from trajlake.sinks.deltalog import Advance, DeltaLog
from trajlake.sinks.errors import Fenced, SinkUnavailable, StaleWriter
from trajlake.sinks.lake import Lake
from trajlake.sinks.reports import write_restricted, write_training
from trajlake.sinks.rewriting import rewrite_files
from trajlake.streams.checkpoints.pages import pages_of
from trajlake.streams.curate.revocation import revoke_manifests
from trajlake.streams.curate.rules import read_checkpoint
from trajlake.streams.curate.source import Source
from trajlake.transforms.curate.bias import bias_markdown, bias_report
from trajlake.transforms.curate.trajectories import tombstones

APP: Final = "trajlake-curate"
"""Delta application id: its version is the number of the last publication, in each of the three tables."""
RUNS_VERSION: Final = f"{APP}/version/runs"
REWARDS_VERSION: Final = f"{APP}/version/rewards"
CONSENTS_VERSION: Final = f"{APP}/version/consents"


def offsets_app(table: str, topic: str, partition: int) -> str:
    """Application id of how far a table's rows of one partition have been judged."""
    return f"{APP}/{table}/{topic}/{partition}"


class Effects:
    """The three tables that curation writes. `on_step` is told each step just before it is taken.

    `obeys`: number of the newest erasure that what is written obeys; commits raise `Fenced` where there is a newer one.
    """

    def __init__(self, lake: Lake, on_step: Callable[[str], None] = lambda step: None) -> None:
        self.lake = lake
        self.obeys = 0
        self._on_step = on_step
        self.curation = DeltaLog(lake, CURATION)
        self.trajectories = DeltaLog(lake, TRAJECTORIES)
        self.publications = DeltaLog(lake, PUBLICATIONS)

    def open(self) -> None:
        """Make or open the tables. Raises `SinkUnavailable` or `TableMismatch`."""
        for log in (self.curation, self.trajectories, self.publications):
            log.open()

    def decided(self) -> int:
        """Number of the last publication that was decided, read anew; 0 before the first."""
        return max(0, self.curation.landed(APP))

    def undone(self) -> int | None:
        """Number of the publication that was decided and has not wholly taken effect; None where there is none."""
        last = self.decided()
        # `publications` is written last; one that lets nothing in leaves `trajectories` as it was.
        return None if last == 0 or self.publications.landed(APP) >= last else last

    def read_positions(self, apps: list[str]) -> dict[str, int]:
        """How far each application id has come in `curation`; -1 where it has not begun."""
        for app in apps:
            self.curation.transactions.setdefault(app, -1)
        self.curation.landed(APP)
        return {app: self.curation.at(app) for app in apps}

    def decide(self, verdicts: pa.Table, number: int, advances: list[Advance]) -> None:
        """Step 1. Raises `StaleWriter` when somebody else was faster: a number that is taken is another's, whatever the
        log would say of a batch that comes twice."""
        self._on_step("1 curation")
        before = self.curation.at(APP)
        moves = [Advance(APP, before, number), *advances] if verdicts.num_rows else advances
        if not self._commit(self.curation, verdicts, moves) and verdicts.num_rows:
            raise StaleWriter(CURATION.name, APP, before, self.curation.at(APP))

    def take_effect(self, verdicts: pa.Table, published: pa.Table, number: int) -> None:
        """Steps 2 to 5. `verdicts`: all rows of the publication; `published`: rows of `trajectories` made from them.

        Of a publication whose runs were all erased since it was decided only the number is left.
        """
        if not verdicts.num_rows:
            self.publications.commit([], [Advance(APP, self.publications.landed(APP), number)])
            return
        gone = verdicts.filter(pc.equal(verdicts.column("verdict"), Publication.WITHDRAWN.value))
        if gone.num_rows:
            self._on_step("2 taken out")
            self._take_out(gone, number)
            names = pl.DataFrame(pl.from_arrow(gone.select(["tenant_id", "run_id"])))
            revoke_manifests(self.lake, names, number)
        self._on_step("3 trajectories")
        rows = pa.concat_tables([published, tombstones(gone)])
        before = self.trajectories.landed(APP)
        if before < number and rows.num_rows:
            self._commit(self.trajectories, rows, [Advance(APP, before, number)])
        self._on_step("4 reports")
        report = bias_report(verdicts)
        self._write_reports(verdicts, report, number)
        self._on_step("5 publications")
        before = self.publications.landed(APP)
        if before < number:
            row = self._summary(verdicts, published, report, number)
            self.publications.commit(
                [write_data_file(self.lake, PUBLICATIONS, row.to_batches())], [Advance(APP, before, number)]
            )

    def _commit(self, log: DeltaLog, rows: pa.Table, moves: list[Advance]) -> bool:
        """Commit rows that can be erased. The file of rows that a fence refuses is taken away again."""
        files = [write_data_file(self.lake, log.table, rows.to_batches())] if rows.num_rows else []
        try:
            return log.commit(files, moves, obeys=self.obeys)
        except Fenced:
            for file in files:
                with suppress(SinkUnavailable):
                    remove_data_file(self.lake, log.table.name, file.path)
            raise

    def _take_out(self, gone: pa.Table, number: int) -> None:
        """Remove the runs' rows of earlier publications from the newest version of `trajectories`, tombstones too.

        Those of later ones stay: they are there where another curator has completed this one meanwhile, and gone on."""
        names = pl.DataFrame(pl.from_arrow(gone.select(["tenant_id", "run_id"]))).unique()

        def without(rows: pa.Table) -> pa.Table | None:
            keys = pl.DataFrame(pl.from_arrow(rows.select(["tenant_id", "run_id", "publication"]))).with_row_index(
                "row"
            )
            leaving = keys.filter(pl.col("publication") < number).join(names, on=["tenant_id", "run_id"], how="semi")
            kept = keys.join(leaving, on="row", how="anti")["row"]
            return None if len(kept) == rows.num_rows else rows.take(kept.sort().to_arrow())

        clear = _holding_none(self.lake, names)
        for _ in rewrite_files(
            self.lake, TRAJECTORIES.name, without, operation="WITHDRAW", maybe=lambda file: file.path not in clear,
            on_step=lambda step: self._on_step(f"2 taken out: {step}"),
        ):  # fmt: skip
            pass

    def _write_reports(self, verdicts: pa.Table, report: dict[str, Any], number: int) -> None:
        pages = pages_of(f"Publication {number}", read_checkpoint(self.lake, number, decided_us(verdicts)), report)
        write_restricted(self.lake, number, "bias.json", orjson.dumps(report, option=orjson.OPT_INDENT_2))
        for name, text in pages.items():
            write_restricted(self.lake, number, name, text.encode())
        if report["published"]:
            shown = bias_report(verdicts, published_names_only=True)
            text = f"# Publication {number}\n\n{bias_markdown(shown)}\n"
            write_training(self.lake, number, "bias.json", orjson.dumps(shown, option=orjson.OPT_INDENT_2))
            write_training(self.lake, number, "bias.md", text.encode())

    def _summary(self, verdicts: pa.Table, published: pa.Table, report: dict[str, Any], number: int) -> pa.Table:
        first = verdicts.slice(0, 1).to_pylist()[0]
        steps = pc.sum(pc.list_value_length(published.column("steps"))).as_py() or 0
        row = {
            "publication": number,
            "runs": report["runs"],
            **{verdict.value: report[verdict.value] for verdict in Publication},
            "steps": steps,
            "trajectories_version": self.trajectories.version,
            "bias": orjson.dumps(report).decode(),
            "detector_revision": next(iter(verdicts.column("detector_revision").drop_null().to_pylist()), None),
        }
        return pa.Table.from_pylist(
            [{**{n: first[n] for n in PUBLICATIONS.names if n in first}, **row}], PUBLICATIONS.schema
        )


def decided_us(verdicts: pa.Table) -> int:
    """When the verdicts of a publication were decided, µs since the Unix epoch."""
    return int(verdicts.column("decided_at")[0].value)


def _holding_none(lake: Lake, names: pl.DataFrame) -> set[str]:
    """Paths of files of `trajectories` that surely hold no row of some runs: those of publications that let none of
    them in. A file that is not there yet is not among them: it may be one that compaction makes of others."""
    verdicts = Source(lake, CURATION.name)
    verdicts.files.refresh()
    runs = names.with_columns(key=pl.concat_str("tenant_id", pl.lit("\0"), "run_id"))["key"].implode()
    let_in = verdicts.rows_where(
        ("tenant_id", "run_id", "publication", "verdict"),
        (pl.col("verdict") == Publication.PUBLISHED.value)
        & pl.concat_str("tenant_id", pl.lit("\0"), "run_id").is_in(runs),
    )
    numbers = let_in["publication"].unique()
    actions = pl.DataFrame(pl.from_arrow(add_actions(lake.open(TRAJECTORIES.name))))
    if not {"min.publication", "max.publication"} <= set(actions.columns):
        return set()
    return {
        path
        for path, low, high in actions.select("path", "min.publication", "max.publication").iter_rows()
        if low is not None and high is not None and not numbers.is_between(low, high).any()
    }
