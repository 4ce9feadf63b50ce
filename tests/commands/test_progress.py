"""Progress in a terminal: what long commands show while they work, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.lake import make_lake
from tests.landkit.terminal import Terminal, seen_at_last
from trajlake.cli.progress import Line, fitted

TRAJLAKE = [sys.executable, "-P", "-m", "trajlake"]
ONE_AFTER_THE_OTHER = """
import json, sys
from trajlake.cli import main, progress

class Now:
    daemon = True
    def __init__(self, after_s, work): self.start = work
    def cancel(self): pass
    def join(self): pass

def drawn(tell):
    def told(line, *given):
        tell(line, *given)
        if line._live is not None:
            line._live.refresh()
    return told

progress.Timer = Now
for name in ("stage", "name", "advance", "reach"):
    setattr(progress.Line, name, drawn(getattr(progress.Line, name)))
for number, words in enumerate(json.loads(sys.argv[1])):
    print(f"=={number}==", flush=True)
    sys.argv = ["trajlake", *words]
    try:
        main()
    except SystemExit:
        pass
"""
"""Commands with the progress of a small lake made visible: it is shown from the start, and drawn at each change."""

COUNTED = [
    ("verify --deep --integrity", ["reading events .* of [\\d,]+ rows", "hashing the ledger .* of [\\d,]+ rows"]),
    ("query SELECT~count(*)~FROM~current_steps", ["running the query .* of [\\d,]+ rows"]),
    ("retro --week 2026-W48", ["judging skills .* of \\d+ skills", "looking for common causes .* of \\d+ hours"]),
    ("export chat out", ["writing .* of \\d+ runs"]),
    ("manifest check out", ["hashing the data files .* of [\\d.]+ kB"]),
    ("manifest list", ["reading manifests .* of \\d+ files"]),
    ("export --from-manifest out/manifest.json again", ["writing .* of \\d+ runs"]),
    ("policy diff defaults policies", ["judging .* of \\d+ runs"]),
    ("quarantine list", ["reading quarantine .* of \\d+ files"]),
    ("quarantine purge --reason malformed_json --yes", ["rewriting quarantine .* of \\d+ files"]),
    ("decisions replay --all", ["deciding again .* of \\d+ decisions"]),
    ("tables", ["looking at the tables .* of \\d+ tables"]),
    ("doctor --timeout 0.2", ["examining .* of \\d+ checks"]),
    (
        "forget --tenant acme --run a-1 --wait 0",
        ["rewriting steps .* of \\d+ files", "reading every file for the proof .* of [\\d.]+ [kM]B"],
    ),
    ("curate --once --policies changed.yaml", ["judging again by changed policies .* of \\d+ runs"]),
    ("maintain", ["reading events .* of \\d+ files", "runs: compact .* of \\d+ files"]),
]
"""Commands whose end is known while they work, and what has to be seen. `~` stands for a blank within a word."""

NOT_COUNTED = [
    ("attention", "reading the statistics"),
    ("skills", "reading the statistics"),
    ("runs", "reading runs and verdicts"),
    ("show a-2", "looking for a-2"),
    ("publications list", "reading the publications"),
    ("decisions list", "reading the decisions"),
    ("curate held", "reading the verdicts"),
    ("policy explain a-2", "looking for a-2"),
    ("expectations check", "trying the rules of"),
]
"""Commands that are one question to the tables: nobody knows before how long it takes."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each of the commands writes to a terminal, all on one lake and in their order."""
    root = tmp_path_factory.mktemp("progress") / "lake"
    make_lake(root)
    (root.parent / "changed.yaml").write_text("version: 1\npolicies: []\n")
    commands = [command for command, _ in [*COUNTED, *NOT_COUNTED]]
    words = json.dumps([[word.replace("~", " ") for word in command.split(" ")] for command in commands])
    settings = {"TRAJLAKE_ROOT": str(root), "TRAJLAKE_COMPACT_LEAST_FILES": "2", "PWD": str(root.parent)}
    command = ["env", "-C", str(root.parent), sys.executable, "-P", "-c", ONE_AFTER_THE_OTHER, words]
    with Terminal(command, 100, environment=settings) as terminal:
        terminal.finish(300)
        written = re.split(r"==\d+==\r\n", terminal.written)[1:]
    return dict(zip(commands, written, strict=True))


@pytest.mark.parametrize(("command", "patterns"), COUNTED, ids=[command for command, _ in COUNTED])
def test_a_long_command_says_how_far_it_is_and_leaves_nothing_of_it(
    parts: dict[str, str], command: str, patterns: list[str]
) -> None:
    for pattern in patterns:
        assert re.search(pattern, parts[command]), (pattern, parts[command][-3000:])
    assert_clean(parts[command])


@pytest.mark.parametrize(("command", "text"), NOT_COUNTED, ids=[command for command, _ in NOT_COUNTED])
def test_a_question_to_the_tables_says_that_it_works_and_for_how_long(
    parts: dict[str, str], command: str, text: str
) -> None:
    assert re.search(rf"{text}.*  \d:\d\d", parts[command]), parts[command][-2000:]
    assert_clean(parts[command])
    assert text not in seen_at_last(parts[command])


def assert_clean(written: str) -> None:
    """What is left in the terminal is what the command says, and the cursor is where it was."""
    left = seen_at_last(written)
    assert left
    assert not re.search(r"[━╌]|  \d:\d\d( left)?$", left, re.MULTILINE), left
    assert "\x1b[?25l" not in written, "a command that is killed could not show the cursor again"


# The line itself


@pytest.fixture
def now() -> list[float]:
    """The time, in its only element."""
    return [0.0]


def test_a_line_tells_how_many_of_how_many_how_fast_and_how_long_yet(now: list[float]) -> None:
    line = Line(lambda: now[0])
    line.stage("reading steps", 40_000, "rows")
    line.advance(10_000)
    now[0] = 5.0
    assert line.drawn(100) == "reading steps  ━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  10,000 of 40,000 rows  2,000/s  0:15 left"
    line.reach(40_000)
    assert line.drawn(100).endswith("40,000 of 40,000 rows  8,000/s  0:05")


def test_the_rate_is_that_of_the_last_seconds(now: list[float]) -> None:
    line = Line(lambda: now[0])
    line.stage("landing", 1_000, "runs")
    for _ in range(100):
        now[0] += 1.0
        line.advance(1)
        line.drawn(100)
    for _ in range(40):
        now[0] += 1.0
        line.advance(10)
        line.drawn(100)
    assert "10/s  0:50 left" in line.drawn(100)


def test_without_a_total_the_count_and_the_time_are_told(now: list[float]) -> None:
    line = Line(lambda: now[0])
    line.stage("redacting", None, "bytes")
    line.advance(3_200_000)
    now[0] = 64.0
    assert line.drawn(100) == "redacting  3.2 MB  50.0 kB/s  1:04"
    line.stage("starting Kafka")
    now[0] = 66.0
    assert line.drawn(100) == "starting Kafka  0:02"


def test_a_total_that_becomes_known_on_the_way_counts(now: list[float]) -> None:
    line = Line(lambda: now[0])
    line.stage("counting", None, "skills")
    line.reach(3, 12)
    assert "3 of 12 skills" in line.drawn(100)


@pytest.mark.parametrize("width", [8, 20, 30, 40, 60, 80, 200])
def test_a_line_fits_the_terminal_and_keeps_the_count_longest(now: list[float], width: int) -> None:
    line = Line(lambda: now[0])
    line.stage("importing a-file-with-a-very-long-name-indeed.jsonl.gz", 2_000_000, "bytes")
    line.advance(500_000)
    now[0] = 10.0
    drawn = line.drawn(width)
    assert len(drawn) <= width
    assert ("500 kB of 2.0 MB" in drawn) == (width >= 45)
    assert ("left" in drawn) == (width >= 60)
    assert ("━" in drawn) == (width >= 100)


def test_a_text_gives_way_at_its_end() -> None:
    assert fitted("reading the tables", [], 10) == "reading t…"


# When it is shown


SLOW = """
import sys, time
from trajlake.cli.output import note
from trajlake.cli.progress import aside, progress
with progress() as shown:
    shown.stage("counting", 100, "sheep")
    for number in range(100):
        time.sleep(0.05)
        shown.advance()
        if number == 30:
            note("one of them is black")
        if number == 60:
            with aside(shown):
                print("sixty", flush=True)
print("done")
"""


def test_what_is_printed_meanwhile_stands_above_the_line_and_stays() -> None:
    with Terminal([sys.executable, "-c", SLOW]) as terminal:
        terminal.wait_for(r"of 100 sheep  \d+/s  0:0\d left")
        assert terminal.finish() == 0
    assert seen_at_last(terminal.written) == "one of them is black\nsixty\ndone"


def test_work_of_less_than_a_second_shows_nothing() -> None:
    quick = SLOW.replace("0.05", "0.002")
    with Terminal([sys.executable, "-c", quick]) as terminal:
        terminal.finish()
    assert "sheep" not in terminal.written


def test_nothing_is_shown_without_a_terminal_or_into_a_pipe_beside_one(tmp_path: Path) -> None:
    quick = SLOW.replace("0.05", "0.015")
    plain = subprocess.run([sys.executable, "-c", quick], capture_output=True, text=True, check=True)
    assert (plain.stdout, plain.stderr) == ("sixty\ndone\n", "one of them is black\n")
    # As in `trajlake ... --json | less`: what reads the pipe writes to the terminal itself.
    with Terminal(["bash", "-c", f"{sys.executable} -c '{quick}' | cat"]) as terminal:
        terminal.finish()
    assert "sheep" not in terminal.written
    # A file takes the data, and the terminal has room for the progress.
    with (tmp_path / "out").open("w") as out, Terminal([sys.executable, "-c", quick], stdout=out) as terminal:
        terminal.finish()
    assert "of 100 sheep" in terminal.written
    assert (tmp_path / "out").read_text() == "sixty\ndone\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """JSON lines that take a while."""
    path = tmp_path / "events.jsonl"
    line = json.dumps({"text": "call me at 010-1234-5678 or mail a@b.example " * 20}) + "\n"
    path.write_text(line * 20_000)
    return path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_command_that_is_stopped_leaves_a_clean_terminal(
    tmp_path: Path, lines: Path, number: signal.Signals, code: int
) -> None:
    words = [*TRAJLAKE, "redact"]
    with (
        lines.open() as events,
        (tmp_path / "clean.jsonl").open("w") as out,
        Terminal(words, stdin=events, stdout=out) as terminal,
    ):
        terminal.wait_for(r"redacting  .*[kM]B of \d+\.\d MB")
        terminal.interrupt(number)
        assert terminal.finish() == code
    assert "Traceback" not in terminal.written
    assert "\x1b[?25l" not in terminal.written
    if number == signal.SIGINT:
        assert seen_at_last(terminal.written) == "trajlake: stopped"


def test_a_stopped_import_leaves_a_clean_terminal(tmp_path: Path) -> None:
    """One that has a spool of threads and clients below it."""
    runs = tmp_path / "runs"
    runs.mkdir()
    attempt = {
        "task_id": 1, "reward": 1.0, "trial": 0, "info": {},
        "traj": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "word " * 2000}] * 20,
    }  # fmt: skip
    for number in range(40):
        (runs / f"{number}.json").write_text(json.dumps([{**attempt, "trial": trial} for trial in range(20)]))
    words = [*TRAJLAKE, "import", str(runs), "--to-jsonl", os.devnull]
    with Terminal(words) as terminal:
        terminal.wait_for(r"(looking through the files|importing \d+\.json)  .*MB")
        terminal.interrupt()
        assert terminal.finish() == 130
    assert seen_at_last(terminal.written) == "trajlake: stopped"
