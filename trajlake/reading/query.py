"""SQL over the tables: DuckDB, read-only and locked in.

The tables are Arrow datasets that DuckDB scans as views; it opens no file itself (its own Delta extension would be
downloaded). SQL can read the views and nothing else: no files, no network, no extensions, no settings, and nothing that
writes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from trajlake.expectations.progress import SILENT, Progress
from trajlake.expectations.tables import TABLES
from trajlake.reading.datasets import Watch
from trajlake.reading.tables import LakeTables
from trajlake.reading.versions import VersionError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS: Final = 4096
AHEAD_BATCHES: Final = 2
MEMORY_LIMIT: Final = "1GiB"
"""What DuckDB may hold before it spills to a temporary folder of its own."""

VIEWS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "current_trajectories": (
        ("trajectories",),
        """
        SELECT t.* FROM trajectories AS t SEMI JOIN (
            SELECT tenant_id, run_id, publication, withdrawn FROM trajectories
            QUALIFY row_number() OVER (PARTITION BY tenant_id, run_id ORDER BY publication DESC) = 1
        ) AS latest ON t.tenant_id = latest.tenant_id AND t.run_id = latest.run_id
            AND t.publication = latest.publication AND NOT latest.withdrawn
        """,
    ),
    "current_runs": (
        ("runs",),
        """
        SELECT * FROM runs SEMI JOIN (
            SELECT topic, "partition", first_offset, revision FROM runs
            QUALIFY row_number() OVER (
                PARTITION BY tenant_id, run_id ORDER BY has_start DESC, revision DESC, "offset" DESC) = 1
        ) AS latest USING (topic, "partition", first_offset, revision)
        """,
    ),
    "current_steps": (
        ("steps", "runs"),
        """
        SELECT s.* FROM steps AS s
        LEFT JOIN (
            SELECT tenant_id, run_id, topic, "partition", first_offset AS low, coalesce(close_offset, "offset") AS high
            FROM runs
            QUALIFY row_number() OVER (
                PARTITION BY tenant_id, run_id ORDER BY has_start DESC, revision DESC, "offset" DESC) = 1
        ) AS life ON s.tenant_id = life.tenant_id AND s.run_id = life.run_id
        LEFT JOIN (
            SELECT topic, "partition", first_offset, max(revision) AS newest FROM steps WHERE revision > 0 GROUP BY ALL
        ) AS later
        ON s.topic = later.topic AND s."partition" = later."partition" AND s.first_offset = later.first_offset
        WHERE s.revision = coalesce(later.newest, 0) AND (life.run_id IS NULL OR (
            s.topic = life.topic AND s."partition" = life."partition"
            AND s.first_offset BETWEEN life.low AND life.high))
        """,
    ),
}
"""View -> tables that it reads, and its text. The same rules as `LakeTables.current_runs` and `current_steps`: an event
opens at most one run and one step, so (topic, partition, first_offset) names a life of a run among runs, and a step
among steps."""

NAMES: Final = (*TABLES, *VIEWS)


class QueryError(ValueError):
    """The query cannot be answered as it stands; the message is one line and says what there is."""


class QueryResourceError(RuntimeError):
    """The query needs more memory or disk than it may have."""


class Result:
    """Rows of one query as they are made: iterate for record batches of at most `BATCH_ROWS` rows, once.

    A thread of its own drives DuckDB, which does not see Ctrl-C while it works: the reader waits here, where it can be
    stopped, and `stop` then interrupts DuckDB. Raises QueryError or QueryResourceError where a row cannot be made.
    """

    def __init__(self, connection: DuckDBPyConnection, sql: str, explain: Callable[[Exception], Exception]) -> None:
        self._connection = connection
        self._sql = sql
        self._explain = explain
        self._made: Queue[pa.Schema | pa.RecordBatch | Exception | None] = Queue(maxsize=AHEAD_BATCHES)
        self._stopped = False
        self._thread = Thread(target=self._drive, name="query", daemon=True)
        self._thread.start()
        self.schema = pa.schema([])

    def open(self) -> None:
        """Wait until the query is bound and `schema` is known."""
        self.schema = self._next()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._next()) is not None:
            yield batch

    def read_all(self) -> pa.Table:
        """All rows at once."""
        return pa.Table.from_batches(self, schema=self.schema)

    def stop(self) -> None:
        """End the query, finished or not, and wait until DuckDB has let go."""
        self._stopped = True
        while self._thread.is_alive():
            self._connection.interrupt()
            with suppress(Empty):
                self._made.get(timeout=0.02)
            self._thread.join(0.02)

    def _next(self) -> Any:
        while True:
            try:
                made = self._made.get(timeout=0.5)
            except Empty:
                continue
            if isinstance(made, Exception):
                raise self._explain(made) from None
            return made

    def _drive(self) -> None:
        try:
            relation = self._connection.sql(self._sql)
            if relation is None:
                raise QueryError("the statement returns no rows")
            reader = relation.to_arrow_reader(BATCH_ROWS)
            self._made.put(reader.schema)
            for batch in reader:
                if self._stopped:
                    return
                self._made.put(batch)
            self._made.put(None)
        except Exception as error:
            self._made.put(error)


@contextmanager
def run_query(lake: LakeTables, sql: str, progress: Progress = SILENT) -> Iterator[Result]:
    """Run one reading statement over `events`, `steps`, `runs`, `rewards`, `quarantine`, `gaps` and the `current_`
    views.

    Rows are made while they are read. Times are UTC. progress: counts the rows of tables that were gone through.
    Raises QueryError for a statement that does not read or does not bind, VersionError for a version that is not there,
    QueryResourceError when it needs too much.
    """
    with tempfile.TemporaryDirectory(prefix="trajlake-query-") as spill:
        connection = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "temp_directory": spill,
                "memory_limit": MEMORY_LIMIT,
            },
        )
        try:
            _confine(connection)
            needed = _needed(connection, sql)
            progress.stage("running the query", None, "rows")
            watch = None if progress is SILENT else Watch(progress)
            for name in needed:
                connection.register(name, lake.dataset(name, watch))
            for view, (tables, text) in VIEWS.items():
                if set(tables) <= set(needed):
                    connection.execute(f"CREATE VIEW {view} AS {text}")
            connection.execute("SET lock_configuration = true")
            result = Result(connection, sql, lambda error: _explain(error, lake, needed))
            try:
                result.open()
                yield result
            finally:
                result.stop()
        finally:
            connection.close()


def _confine(connection: DuckDBPyConnection) -> None:
    """Take files, network and the program's variables away. Before anything looks at the statement: to tell which
    tables it names, DuckDB binds it, and binding opens the files of table functions."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET TimeZone = 'UTC'")


def _needed(connection: DuckDBPyConnection, sql: str) -> list[str]:
    """Tables that the statement reads, in the order to open them; all of them where that cannot be told."""
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(_first_line(error)) from None
    if len(statements) != 1:
        raise QueryError("one statement at a time" if statements else "the query is empty")
    kind = statements[0].type
    # A PIVOT whose columns come from the data is several statements to DuckDB.
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI):
        raise QueryError(f"only statements that read are allowed, not {kind.name}")
    try:
        names = {name.strip('"').lower().rpartition(".")[2] for name in connection.get_table_names(sql)}
    except duckdb.Error:
        names = set()
    if not names or not names <= set(NAMES):
        # DESCRIBE, SHOW TABLES, catalog views, and names that do not exist: what there is must be there to be shown.
        return list(TABLES)
    for view, (tables, _) in VIEWS.items():
        if view in names:
            names |= set(tables)
    return [name for name in TABLES if name in names]


def _explain(error: Exception, lake: LakeTables, names: list[str]) -> Exception:
    """An error of DuckDB or Arrow as one line that says what there is."""
    if not isinstance(error, (duckdb.Error, pa.ArrowException)):
        return error
    line = _first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryResourceError(f"the query needs more than {MEMORY_LIMIT} and its spill: {line}")
    if isinstance(error, duckdb.PermissionException):
        return QueryError("SQL here reads the lake's tables and nothing else: no files, no network, no extensions")
    if isinstance(error, duckdb.CatalogException) and (
        match := re.match(r"Table with name (\S+) does not exist", line)
    ):
        return QueryError(f"there is no table {match[1]}; there are {', '.join(NAMES)}")
    if isinstance(error, duckdb.BinderException) and "olumn" in line:
        columns = "; ".join(f"{name} has {', '.join(_columns(lake, name))}" for name in names)
        return QueryError(f"{line.rstrip('!')}: {columns}")
    return QueryError(line)


def _columns(lake: LakeTables, name: str) -> list[str]:
    try:
        return list(lake.dataset(name).schema.names)
    except VersionError:
        return list(TABLES[name].names)


def _first_line(error: BaseException) -> str:
    """DuckDB's message without its kind, its excerpt of the statement and its hints."""
    line = str(error).strip().split("\n", 1)[0]
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", line)
