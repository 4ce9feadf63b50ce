"""Processes that end, are killed and fork: what was recorded arrives, once, and ends are prompt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trajlake.expectations.events import RunEndedEvent, RunStartedEvent

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

PREAMBLE = """
import os, sys, time, threading, signal
from trajlake import Recorder
servers, topic, spool = sys.argv[1:4]
recorder = Recorder("acme", bootstrap_servers=servers, topic=topic, spool=spool)
"""

StartProgram = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def topic(make_topic: Any) -> str:
    return str(make_topic(3))


@pytest.fixture
def start(broker: str, topic: str, spool: Path) -> Any:
    """`start(program)`: run a program that records with `recorder`, in a process of its own."""
    running: list[subprocess.Popen[str]] = []

    def begin(program: str, servers: str = broker) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(program), servers, topic, str(spool)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str], code: int = 0, timeout: float = 60) -> str:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == code, err
    return out


def sequences(landed: list[Any]) -> dict[str, list[int]]:
    """Run id -> sequence numbers in the order of arrival, repeated event ids dropped."""
    by_run: dict[str, list[int]] = defaultdict(list)
    seen: set[str] = set()
    for record in landed:
        if record.event.id not in seen:
            seen.add(record.event.id)
            by_run[record.event.runid].append(record.event.sequence)
    return by_run


def drain(make_recorder: Any, topic: str) -> None:
    """What the next process does: start with the same spool, and send what is in it."""
    assert make_recorder(topic).flush(60) == 0


def test_a_program_that_ends_at_once_delivers_everything(start: StartProgram, topic: str, read_topic: Any) -> None:
    finish(start("with recorder.run() as run: run.step(message='hi').respond()"))
    assert list(sequences(read_topic(topic)).values()) == [[1, 2, 3]]


def test_an_uncaught_exception_is_recorded_and_delivered(start: StartProgram, topic: str, read_topic: Any) -> None:
    finish(start("with recorder.run(): raise LookupError('gone')"), code=1)
    ended = read_topic(topic)[-1].event
    assert isinstance(ended, RunEndedEvent)
    assert (ended.data.end_state, ended.data.error_type) == ("failed", "LookupError")


def test_ctrl_c_is_recorded_as_cancelled(start: StartProgram, topic: str, read_topic: Any) -> None:
    process = start("with recorder.run(): print('ready', flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    ended = read_topic(topic)[-1].event
    assert isinstance(ended, RunEndedEvent)
    assert ended.data.end_state == "cancelled"


def test_the_end_is_prompt_while_kafka_is_away_and_the_next_process_delivers(
    start: StartProgram, topic: str, nobody: str, read_topic: Any, spool: Path, broker: str
) -> None:
    began = time.monotonic()
    finish(start("with recorder.run() as run: run.step(message='hi').respond()", nobody))
    assert time.monotonic() - began < 10
    # The leftovers are those of Kafka at that address; here it moves to where the broker is.
    (left,) = (spool / topic).iterdir()
    finish(start("recorder.flush(1)"))
    (ours,) = [folder for folder in (spool / topic).iterdir() if folder != left]
    next(left.glob("*-*")).rename(ours / next(left.glob("*-*")).name)
    finish(start("assert recorder.flush(30) == 0"))
    assert list(sequences(read_topic(topic)).values()) == [[1, 2, 3]]


ENDLESS = """
run = recorder.run(run_id="endless").start()
recorder.flush(30)
count = 1
while True:
    for _ in range(20):
        run.step(message="x" * 300).respond()
        count += 1
    time.sleep(0.15)
    print(count, flush=True)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_loses_at_most_its_last_moments(
    start: StartProgram, topic: str, read_topic: Any, make_recorder: Any, sign: signal.Signals
) -> None:
    process = start(ENDLESS)
    assert process.stdout is not None
    count = 0
    while count < 300:
        count = int(process.stdout.readline())
    process.send_signal(sign)
    out, _ = process.communicate(timeout=60)
    count = max(count, *(int(line) for line in out.split()), 0) if out.split() else count
    assert process.returncode == -sign
    drain(make_recorder, topic)
    (arrived,) = sequences(read_topic(topic)).values()
    assert arrived == list(range(1, len(arrived) + 1))
    assert len(arrived) >= count


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_killed_during_an_outage_leaves_its_events_to_the_next(
    start: StartProgram, topic: str, nobody: str, spool: Path, sign: signal.Signals
) -> None:
    from trajlake.streams.publish.spoolfolder import SpoolFolder

    process = start(ENDLESS.replace("recorder.flush(30)", ""), nobody)
    assert process.stdout is not None
    count = 0
    while count < 300:
        count = int(process.stdout.readline())
    process.send_signal(sign)
    process.communicate(timeout=60)
    _, (orphan,) = SpoolFolder(spool, topic, nobody).open()
    assert orphan.count_unread() >= count


def test_os_exit_leaves_what_had_a_moment(start: StartProgram, topic: str, read_topic: Any, make_recorder: Any) -> None:
    finish(start("run = recorder.run().start(); time.sleep(0.5); os._exit(0)"))
    drain(make_recorder, topic)
    assert list(sequences(read_topic(topic)).values()) == [[1]]


def test_a_forked_child_goes_on_in_a_run_of_its_own(start: StartProgram, topic: str, read_topic: Any) -> None:
    out = finish(
        start("""
        with recorder.run(skill="parent") as run:
            run.step(message="before").respond()
            pid = os.fork()
            if pid == 0:
                run.step(message="in the child").respond()
                run.end()
                print(run.id, flush=True)
                sys.exit(0)
            os.waitpid(pid, 0)
            run.step(message="after").respond()
        print(run.id)
        """)
    )
    child, parent = out.split()
    landed = read_topic(topic)
    assert sequences(landed) == {parent: [1, 2, 3, 4], child: [1, 2, 3]}
    assert len({record.event.id for record in landed}) == len(landed)
    starts = {record.event.runid: record.event for record in landed if isinstance(record.event, RunStartedEvent)}
    assert starts[child].parentrunid == parent
    assert starts[child].data.forked_from_id == parent
    assert starts[child].data.skill == starts[parent].data.skill


def test_forking_under_load_neither_hangs_nor_doubles(start: StartProgram, topic: str, read_topic: Any) -> None:
    out = finish(
        start("""
        def busy():
            while not done.is_set():
                with recorder.run(skill="busy") as run:
                    run.step(message="x" * 500).respond()
        def share():
            while not done.is_set():
                shared.step(message="y" * 500).respond()
        done = threading.Event()
        shared = recorder.run(run_id="shared").start()
        threads = [threading.Thread(target=work) for work in (busy, busy, share)]
        for thread in threads: thread.start()
        children = []
        for number in range(10):
            time.sleep(0.03)
            pid = os.fork()
            if pid == 0:
                with recorder.run(run_id=f"child-{number}") as run:
                    run.step(message="mine").respond()
                shared.step(message="mine now").respond()
                shared.end()
                sys.exit(0 if recorder.close(30) == 0 else 1)
            children.append(pid)
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        done.set()
        for thread in threads: thread.join()
        print(codes, recorder.flush(30))
        """),
        timeout=120,
    )
    assert out == f"{[0] * 10} 0\n"
    landed = read_topic(topic)
    by_run = sequences(landed)
    assert {run for run in by_run if run.startswith("child-")} == {f"child-{number}" for number in range(10)}
    together = by_run.pop("shared")
    assert together == list(range(1, len(together) + 1))
    assert all(arrived == [1, 2, 3] for arrived in by_run.values())
    forked = [
        record.event for record in landed if isinstance(record.event, RunStartedEvent) and record.event.parentrunid
    ]
    assert [event.parentrunid for event in forked] == ["shared"] * 10
    assert len({record.event.id for record in landed}) == len(landed)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_deliver_before_they_end(
    tmp_path: Path, broker: str, topic: str, spool: Path, read_topic: Any, method: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import multiprocessing, sys
        from trajlake import Recorder

        recorder = Recorder("acme", bootstrap_servers=sys.argv[1], topic=sys.argv[2], spool=sys.argv[3])

        def work(number):
            with recorder.run(run_id=f"child-{number}") as run:
                run.step(message="mine").respond()

        if __name__ == "__main__":
            with recorder.run(run_id="parent") as run:
                context = multiprocessing.get_context(sys.argv[4])
                children = [context.Process(target=work, args=(number,)) for number in range(3)]
                for child in children: child.start()
                for child in children: child.join()
                assert [child.exitcode for child in children] == [0, 0, 0]
            assert recorder.flush(30) == 0
        """)
    )
    done = subprocess.run(
        [sys.executable, str(program), broker, topic, str(spool), method],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = {"parent": [1, 2], **{f"child-{number}": [1, 2, 3] for number in range(3)}}
    assert sequences(read_topic(topic)) == expected, done.stderr
    assert not list(spool.rglob("*.log"))


def test_processes_share_a_spool_folder_without_touching_each_others_events(
    start: StartProgram, topic: str, read_topic: Any
) -> None:
    program = """
    for _ in range(20):
        with recorder.run() as run:
            run.step(message="x").respond()
        time.sleep(0.01)
    """
    for process in [start(program) for _ in range(4)]:
        finish(process)
    landed = read_topic(topic)
    assert len(landed) == 4 * 20 * 3
    assert all(arrived == [1, 2, 3] for arrived in sequences(landed).values())


def test_threads_that_record_while_the_interpreter_ends_do_no_harm(
    start: StartProgram, topic: str, read_topic: Any
) -> None:
    process = start("""
    def forever():
        while True:
            with recorder.run(): pass
    for _ in range(3): threading.Thread(target=forever, daemon=True).start()
    with recorder.run(run_id="main"): pass
    time.sleep(0.3)
    """)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert sequences(read_topic(topic))["main"] == [1, 2]


def test_a_disk_that_refuses_to_write_stops_nothing_while_kafka_is_there(
    start: StartProgram, topic: str, read_topic: Any
) -> None:
    process = start("""
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    with recorder.run() as run:
        for _ in range(200): run.step(message="x" * 1_000).respond()
    assert recorder.flush(30) == 0
    assert recorder.counts.unspooled > 0 and recorder.counts.dropped == 0, recorder.counts
    """)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "takes no events" in err
    (arrived,) = sequences(read_topic(topic)).values()
    assert arrived == list(range(1, 203))


def test_the_kafka_client_is_imported_before_a_fork_could_cut_that_in_half(start: StartProgram) -> None:
    assert finish(start("print('confluent_kafka.cimpl' in sys.modules)")) == "True\n"


def test_importing_and_recording_starts_no_thread_before_the_first_event(start: StartProgram) -> None:
    out = finish(
        start("""
    before = threading.active_count()
    run = recorder.run()
    print(before, threading.active_count())
    """)
    )
    assert out == "1 1\n"


def test_the_example_runs(broker: str, topic: str, spool: Path, repo: Path, read_topic: Any) -> None:
    environment = {**os.environ, "TRAJLAKE_EVENTS_TOPIC": topic, "TRAJLAKE_SPOOL": str(spool)}
    done = subprocess.run(
        [sys.executable, "examples/record_a_run.py", broker],
        capture_output=True, text=True, timeout=60, cwd=repo, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "8 events delivered, 0 waiting" in done.stdout
    (arrived,) = sequences(read_topic(topic)).values()
    assert arrived == list(range(1, 9))
