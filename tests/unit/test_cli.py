"""The command line answers quickly, says errors in one line, and keeps data apart from talk."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.landkit.terminal import shown_in_terminal
from trajlake import __version__
from trajlake.cli import COMMANDS, load, output

TRAJLAKE = [sys.executable, "-m", "trajlake"]


def run(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRAJLAKE, *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def test_help_lists_every_command_without_importing_what_they_need() -> None:
    code = (
        "import sys; sys.argv = ['trajlake', '--help']\n"
        "import trajlake.cli\n"
        "try: trajlake.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'polars', 'pyarrow', 'deltalake', 'duckdb', 'faust', 'confluent_kafka', 'pydantic', 'rich'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "HEAVY []" in done.stdout
    for name, entry in COMMANDS.items():
        if (Path(output.__file__).parent / f"{entry.module}.py").exists():
            assert re.search(rf"^  {name} +{re.escape(entry.help[:20])}", done.stdout, re.MULTILINE), name


def test_help_answers_within_a_third_of_a_second() -> None:
    # Processor time, not the clock on the wall: other work on the machine is not this command's.
    assert min(_processor_s("--help") for _ in range(3)) < 0.3


def _processor_s(*args: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_every_module_with_commands_is_listed() -> None:
    modules = {path.stem for path in Path(output.__file__).parent.glob("*.py") if "def register(" in path.read_text()}
    assert modules - {entry.module for entry in COMMANDS.values()} == {"__init__"} & modules


def test_every_listed_command_loads_and_explains_itself() -> None:
    for name, entry in COMMANDS.items():
        if (Path(output.__file__).parent / f"{entry.module}.py").exists():
            assert load(name).help, name


def test_version() -> None:
    assert run("--version").stdout == f"trajlake {__version__}\n"


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    done = run("brokr")
    assert done.returncode == 2
    assert "there is no command 'brokr', did you mean 'broker'? `trajlake --help`" in done.stderr


def test_an_error_is_one_line_and_a_traceback_only_with_debug() -> None:
    done = run("config", TRAJLAKE_BATCH_MAX_ROWS="x")
    assert done.returncode == 2
    assert re.fullmatch(r"trajlake: setting batch_max_rows [^\n]*\n", done.stderr)
    assert done.stdout == ""
    assert "Traceback" in run("--debug", "config", TRAJLAKE_BATCH_MAX_ROWS="x").stderr


def test_config_shows_where_a_value_comes_from() -> None:
    rows = {row["setting"]: row for row in json.loads(run("config", "--json", TRAJLAKE_BATCH_MAX_ROWS="7").stdout)}
    assert (rows["batch_max_rows"]["value"], rows["batch_max_rows"]["from"]) == (7, "TRAJLAKE_BATCH_MAX_ROWS")
    assert rows["group_id"]["from"] == "default"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen([*TRAJLAKE, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


def test_ctrl_c_ends_with_one_word_and_the_shells_exit_code() -> None:
    # The command's own module sends the signal, in the middle of its work.
    code = (
        "import os, signal, sys, types, typer\n"
        "slow = types.ModuleType('trajlake.cli.config')\n"
        "def config(): os.kill(os.getpid(), signal.SIGINT)\n"
        "slow.register = lambda app: app.command('config')(config)\n"
        "sys.modules['trajlake.cli.config'] = slow\n"
        "slow.__spec__ = __import__('importlib.machinery').machinery.ModuleSpec('trajlake.cli.config', None)\n"
        "sys.argv = ['trajlake', 'config']\n"
        "from trajlake.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == "\ntrajlake: stopped\n"


def test_tables_are_tab_separated_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([{"a": 1, "b": "x\ny"}, {"a": None}], ["a", "b"])
    assert capsys.readouterr().out == "a\tb\n1\tx y\n\t\n"


def test_tables_fit_the_terminal() -> None:
    code = "from trajlake.cli.output import print_table; print_table([['w' * 200, 1234567]], ['text', 'number'])"
    shown = shown_in_terminal([sys.executable, "-c", code], 60)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 60
    assert "1,234,567" in "".join(lines)


def test_json_is_one_line_and_writes_what_json_has_no_form_for_as_text(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    output.print_json({"path": Path("/x"), "bytes": b"\xff", "set": {1}, 1: None})
    assert json.loads(capfdbinary.readouterr().out) == {"path": "/x", "bytes": "\ufffd", "set": [1], "1": None}


def test_an_error_without_words_is_shown_by_its_type() -> None:
    assert output.one_line(KeyError("x")) == "KeyError: 'x'"
    assert output.one_line(TimeoutError()) == "TimeoutError"
    assert output.one_line(ValueError("a\n  b")) == "a b"
    assert len(output.one_line("x" * 10_000)) == output.MAX_ERROR_CHARS
