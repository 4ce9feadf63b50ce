"""SQL over the tables: what it answers, what it refuses, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.landkit.told import Told
from trajlake.reading.query import MEMORY_LIMIT, NAMES, QueryError, run_query
from trajlake.reading.tables import LakeTables
from trajlake.reading.versions import VersionError
from trajlake.sinks.lake import Lake


def ask(root: Path, sql: str, at: Any = None) -> list[dict[str, Any]]:
    with run_query(LakeTables(Lake(str(root)), at), sql) as reader:
        return list(reader.read_all().to_pylist())


@pytest.fixture
def root(rows: Any, tmp_path: Path) -> Path:
    rows.write(tmp_path / "lake")
    return tmp_path / "lake"


def test_every_table_and_view_can_be_asked(root: Path, rows: Any) -> None:
    for name in NAMES:
        expected = len(rows[name.removeprefix("current_")])
        assert ask(root, f"SELECT count(*) AS n FROM {name}") == [{"n": expected}], name


@pytest.mark.parametrize(
    ("sql", "scanned"),
    [
        ("SELECT count(*) FROM events", ["events"]),
        ("SELECT step_id FROM steps WHERE run_id = 'run-b'", ["steps"]),
        ("SELECT * FROM runs JOIN rewards USING (tenant_id, run_id) ORDER BY ALL", ["runs", "rewards"]),
        ("SELECT count(*) FROM quarantine, gaps", ["quarantine", "gaps"]),
    ],
)
def test_a_query_tells_how_many_rows_it_has_been_through_and_answers_the_same(
    rows: Any, tmp_path: Path, sql: str, scanned: list[str]
) -> None:
    for partition in range(3):
        rows.write(tmp_path)
        rows.refuse(partition)
    told = Told()
    with run_query(LakeTables(Lake(str(tmp_path))), sql, told) as reader:
        answer = reader.read_all().to_pylist()
    assert answer == ask(tmp_path, sql)
    reading = told["running the query"]
    lake = LakeTables(Lake(str(tmp_path)))
    assert reading.total == sum(lake.describe(name).rows or 0 for name in scanned)
    assert reading.done == reading.total


def test_tables_that_do_not_exist_yet_are_empty_with_the_contracts_columns(tmp_path: Path) -> None:
    assert ask(tmp_path, "SELECT count(*) AS n, sum(input_tokens) AS tokens FROM current_steps") == [
        {"n": 0, "tokens": None}
    ]
    assert ask(tmp_path, "SELECT tool_calls[1].function_name, started_at FROM steps") == []


def test_current_views_agree_with_the_readers(rows: Any, tmp_path: Path) -> None:
    run, step = rows.first("runs", run_id="run-a"), rows.first("steps", run_id="run-a", step_index=1)
    late = rows.event(0, "agent.tool.returned", "run-a", 8)
    rows["steps"].append(step | {"revision": 1, "offset": late})
    rows["runs"].append(run | {"revision": 1, "offset": late})
    rows.step(0, "run-a", 3, late + 1, late + 2, last=False)
    rows.step(0, "run-b", 1, late + 3, late + 4, last=True)
    rows.run_row(0, "run-b", late + 3, late + 4, events=1, steps=1, has_start=False)
    rows.step(1, "run-open", 1, 7, 7, last=False)
    rows.take(0, 5)
    rows.write(tmp_path)
    reader = LakeTables(Lake(str(tmp_path)))
    for view, frame in (("current_runs", reader.current_runs()), ("current_steps", reader.current_steps())):
        key = "run_id, first_offset, revision"
        found = [tuple(row.values()) for row in ask(tmp_path, f"SELECT {key} FROM {view} ORDER BY ALL")]
        assert found == sorted(frame.select("run_id", "first_offset", "revision").collect().rows())
        assert len(found) == {"current_runs": 3, "current_steps": 7}[view]


def test_nested_columns_times_and_joins_work(root: Path) -> None:
    found = ask(
        root,
        """
        SELECT r.run_id, date_trunc('day', r.closed_at) AS day,
            list_transform(s.tool_calls, lambda c: c.function_name) AS tools
        FROM current_steps AS s JOIN current_runs AS r USING (tenant_id, run_id) WHERE s.is_first ORDER BY 1 LIMIT 1
        """,
    )
    assert found[0]["run_id"] == "run-a"
    assert found[0]["tools"] == ["ls"]
    assert found[0]["day"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_a_query_reads_the_version_that_is_asked_for(root: Path, rows: Any, append_rows: Any) -> None:
    append_rows(Lake(str(root)), "runs", rows["runs"][:2], {})
    count = "SELECT count(*) AS n FROM runs"
    assert [ask(root, count, at)[0]["n"] for at in (None, 0, 1, {"runs": 0})] == [5, 3, 5, 3]
    with pytest.raises(VersionError, match="runs has no version 9; it has 0 to 1"):
        ask(root, count, 9)
    # A bare number is the version of the tables that the query names, and of no other.
    assert ask(root, count, 1)[0]["n"] == 5


@pytest.mark.parametrize(
    "sql",
    [
        "DESCRIBE steps",
        "SHOW TABLES",
        "SUMMARIZE SELECT step_index FROM steps",
        "EXPLAIN SELECT * FROM steps",
        "FROM steps LIMIT 1",
        "WITH x AS (SELECT run_id FROM runs) SELECT * FROM x",
        "PIVOT (SELECT run_id, type FROM events) ON type USING count(*)",
        'SELECT "partition" FROM "events" LIMIT 1;',
        "VALUES (1)",
    ],
)
def test_statements_that_read_are_answered(root: Path, sql: str) -> None:
    assert ask(root, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE x AS SELECT 1",
        "DROP VIEW steps",
        "INSERT INTO runs SELECT * FROM runs",
        "DELETE FROM runs",
        "UPDATE runs SET revision = 9",
        "COPY runs TO 'out.parquet'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
    ],
)
def test_statements_that_do_not_read_are_refused(root: Path, sql: str, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    with pytest.raises(QueryError):
        ask(root, sql)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_parquet('{root}/restricted/runs/*.parquet')",
        "SELECT * FROM glob('{root}/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM read_text('http://127.0.0.1:1/x')",
        "SELECT * FROM delta_scan('{root}/restricted/runs')",
        "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT getenv('HOME')",
        "PIVOT (SELECT * FROM read_text('{file}')) ON content USING count(*)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/out.csv'",
    ],
)
def test_sql_reaches_no_file_no_network_and_no_secret(root: Path, sql: str) -> None:
    secret = root / "private.txt"
    secret.write_text("a,b\nhidden,1\n")
    with pytest.raises(QueryError) as refused:
        ask(root, sql.format(file=secret, root=root))
    assert "hidden" not in str(refused.value)
    assert not (root / "out.csv").exists()


def test_a_variable_of_the_program_is_no_table(root: Path) -> None:
    columns = {"a": [1]}
    with pytest.raises(QueryError, match="no table columns"):
        ask(root, "SELECT * FROM columns")
    assert columns


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM stepz", "there is no table stepz; there are events, steps, runs"),
        ("SELECT tokens FROM runs", 'column "tokens" not found.*runs has tenant_id, run_id'),
        ("SELECT r.nothing FROM runs AS r", "runs has tenant_id"),
        ("SELEC 1", "syntax error"),
        ("SELECT CAST(run_id AS INTEGER) FROM runs", "Could not convert"),
    ],
)
def test_a_wrong_query_is_answered_with_what_there_is(root: Path, sql: str, said: str) -> None:
    with pytest.raises(QueryError, match=said) as wrong:
        ask(root, sql)
    assert "\n" not in str(wrong.value)


# The command


def test_the_command_writes_json_csv_and_tab_separated_text(root: Path, trajlake: Any) -> None:
    sql = "SELECT run_id, step_count, sum(step_count) OVER () AS total, closed_at, tool_versions FROM runs ORDER BY 1"
    words = ("query", sql, "--root", str(root))
    rows = json.loads(trajlake(*words, "--json").stdout)
    assert rows[0] == {
        "run_id": "run-a", "step_count": 2, "total": 6, "closed_at": "2026-01-01T00:00:00+00:00", "tool_versions": None,
    }  # fmt: skip
    assert json.loads(trajlake(*words, "--format", "json").stdout) == rows
    table = list(csv.DictReader(io.StringIO(trajlake(*words, "--format", "csv").stdout)))
    assert table[1] == {
        "run_id": "run-b", "step_count": "3", "total": "6", "closed_at": "2026-01-01T00:00:00+00:00",
        "tool_versions": "",
    }  # fmt: skip
    lines = trajlake(*words).stdout.splitlines()
    assert lines[0].split("\t") == ["run_id", "step_count", "total", "closed_at", "tool_versions"]
    assert lines[2].split("\t")[:2] == ["run-b", "3"]


def test_nested_values_and_columns_of_one_name_survive_every_format(root: Path, trajlake: Any) -> None:
    sql = """SELECT tool_calls, 1 AS a, 2 AS a, sum(0.5) AS half, 'x,"y' AS text
        FROM steps WHERE is_first GROUP BY ALL ORDER BY ALL LIMIT 1"""
    row = json.loads(trajlake("query", sql, "--root", str(root), "--json").stdout)[0]
    assert row["tool_calls"][0]["function_name"] == "ls"
    assert (row["a"], row["a_2"], row["half"], row["text"]) == (1, 2, 0.5, 'x,"y')
    found = list(csv.DictReader(io.StringIO(trajlake("query", sql, "--root", str(root), "--format", "csv").stdout)))
    assert json.loads(found[0]["tool_calls"]) == row["tool_calls"]
    assert found[0]["text"] == 'x,"y'


def test_no_rows_are_an_empty_array_and_a_header(root: Path, trajlake: Any) -> None:
    words = ("query", "SELECT run_id FROM runs WHERE false", "--root", str(root))
    assert json.loads(trajlake(*words, "--json").stdout) == []
    assert trajlake(*words, "--format", "csv").stdout == "run_id\n"


def test_limit_cuts_and_the_query_may_come_from_stdin(root: Path, trajlake: Any) -> None:
    done = trajlake("query", "-", "--root", str(root), "--json", "--limit", "2", stdin='SELECT "offset" FROM events')
    assert len(json.loads(done.stdout)) == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["SELECT * FROM stepz"], 2, "there is no table stepz"),
        (["SELECT * FROM runs", "--at", "99"], 2, "runs has no version 99"),
        (["SELECT * FROM runs", "--at", "yesterday"], 2, "no version"),
        (["SELECT * FROM read_text('x')"], 2, "reads the lake's tables and nothing else"),
        (["DROP VIEW runs"], 2, "only statements that read"),
        (["SELECT 1", "--root", "nothing-here"], 2, "trajlake land"),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    root: Path, trajlake: Any, words: list[str], code: int, said: str
) -> None:
    done = trajlake("query", *words[:1], "--root", str(root), *words[1:])
    assert done.returncode == code
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("function", ["read_csv", "read_parquet", "read_json_auto"])
@pytest.mark.parametrize(
    "statement", ["SELECT * FROM {}", "SELECT r.* FROM runs AS r, {}", "DESCRIBE SELECT * FROM {}"]
)
def test_a_query_of_a_pipe_that_nobody_writes_to_is_refused_at_once(
    root: Path, tmp_path: Path, function: str, statement: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(root), statement.format(f"{function}('{pipe}')")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "SQL here reads the lake's tables and nothing else: no files, no network, no extensions\n"


REFUSED = """
import sys
from trajlake.reading.query import QueryError, run_query
from trajlake.sinks.lake import Lake
from trajlake.reading.tables import LakeTables
try:
    with run_query(LakeTables(Lake(sys.argv[1])), sys.argv[2]) as reader:
        reader.read_all()
except QueryError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_the_command_opens_no_file_to_learn_which_tables_a_query_names(
    root: Path, tmp_path: Path, trajlake: Any, kind: str
) -> None:
    path = tmp_path / "pipe"
    if kind == "file":
        path = next((root / "restricted" / "runs").rglob("*.parquet"))
    else:
        os.mkfifo(path)
    os.utime(path, ns=(0, time.time_ns()))
    done = trajlake("query", f"SELECT count(*) FROM read_parquet('{path}')", "--root", str(root))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "reads the lake's tables and nothing else" in done.stderr
    assert path.stat().st_atime_ns == 0


def test_a_terminal_is_shown_a_ruled_table_cut_with_a_word(root: Path) -> None:
    parent, child = pty.openpty()
    sql = "SELECT i AS number, repeat('wide ', 100) AS text FROM range(150) AS t(i)"
    with subprocess.Popen(
        [sys.executable, "-m", "trajlake", "query", sql, "--root", str(root)],
        stdout=child, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(child)
        shown = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.stderr is not None
        assert b"the first 100 rows" in process.stderr.read()
    os.close(parent)
    assert b"number" in shown
    assert b"\xe2\x80\xa6" in shown


def test_ctrl_c_ends_a_long_query_at_once_and_cleanly(root: Path, tmp_path: Path, eventually: Any) -> None:
    sql = "SELECT count(*) FROM range(10000000000) AS a(x) WHERE hash(x) % 7 = 3"
    process = subprocess.Popen(
        [sys.executable, "-m", "trajlake", "query", sql, "--root", str(root)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        # The spill folder is made just before the query runs.
        eventually(lambda: list(tmp_path.glob("trajlake-query-*")), 20, "the query runs")
        eventually(lambda: _busy(process.pid), 20, "the query keeps a core busy")
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert list(tmp_path.glob("trajlake-query-*")) == []


def _busy(pid: int) -> bool:
    import psutil

    return psutil.Process(pid).cpu_times().user > 1.5


def test_a_reader_that_goes_away_ends_the_query(root: Path) -> None:
    command = (
        f"{sys.executable} -m trajlake query 'SELECT * FROM range(100000000)' --format csv --root {root} | head -2"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "range\n0\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_a_result_larger_than_the_memory_limit_takes_little_more_than_the_limit(
    tmp_path: Path, make_rows: Any, append_rows: Any
) -> None:
    made = make_rows()
    lake = Lake(str(tmp_path))
    text = "x" * 20_000
    for _ in range(60):
        batch = make_rows(next_offset=made.next_offset)
        for number in range(1000):
            batch.event(0, "agent.model.responded", f"run-{number}", 1)
            batch["events"][-1]["event"] = f'{{"{batch["events"][-1]["offset"]}":"{text}"}}'
        append_rows(lake, "events", batch["events"], made.last_offsets())
    code = (
        "import resource, sys\nfrom trajlake.cli import main\n"
        f"sys.argv = ['trajlake', 'query', 'SELECT * FROM events', '--json', '--root', {str(tmp_path)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=True)
    assert MEMORY_LIMIT == "1GiB"
    assert len(done.stdout) >> 20 > 1100
    # The program itself, and the batches on their way out, come on top.
    assert int(done.stderr.split()[-1]) < 1024 + 900
