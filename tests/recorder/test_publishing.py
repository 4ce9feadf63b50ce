"""From the recorder to a real Kafka: what arrives, and what happens to what Kafka does not take."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.landkit.tree import REPO
from trajlake import Recorder
from trajlake.expectations.events import RunEndedEvent, kafka_key
from trajlake.streams.publish.parked import read_parked
from trajlake.streams.settings import SettingError

pytestmark = pytest.mark.integration


def record_run(recorder: Recorder, steps: int = 2, **fields: Any) -> str:
    with recorder.run(**fields) as run:
        for number in range(steps):
            with run.step() as step:
                step.respond(message=f"step {number}")
                with step.tool("echo", {"n": number}) as call:
                    call.result(number)
    return run.id


def test_events_arrive_in_order_with_key_and_content_type(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic(4)
    recorder = make_recorder(topic)
    runs = [record_run(recorder) for _ in range(20)]
    assert recorder.flush(30) == 0
    landed = read_topic(topic)
    by_run = defaultdict(list)
    for record in landed:
        by_run[record.event.runid].append(record)
        assert record.key == kafka_key("acme", record.event.runid)
        assert record.headers == [("content-type", b"application/cloudevents+json")]
    assert set(by_run) == set(runs)
    for records in by_run.values():
        assert [record.event.sequence for record in records] == list(range(1, 9))
        assert len({record.partition for record in records}) == 1
    assert recorder.counts.delivered == recorder.counts.accepted == 160


def test_a_run_goes_to_the_partition_that_java_clients_choose(
    make_topic: Any, make_recorder: Any, read_topic: Any
) -> None:
    topic = make_topic(8)
    recorder = make_recorder(topic)
    for number in range(20):
        recorder.run(run_id=f"run-{number}").start()
    assert recorder.flush(30) == 0
    for record in read_topic(topic):
        assert record.partition == (murmur2(record.key) & 0x7FFFFFFF) % 8


def test_many_threads_share_a_recorder_and_a_run(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic(4)
    recorder = make_recorder(topic)
    shared = recorder.run(skill="shared").start()

    def work() -> None:
        for _ in range(10):
            record_run(recorder)
            for _ in range(10):
                shared.step(message="one of many").respond()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush(30) == 0
    by_run = defaultdict(list)
    for record in read_topic(topic):
        by_run[record.event.runid].append(record.event.sequence)
    assert len(by_run) == 81
    assert all(sequences == list(range(1, len(sequences) + 1)) for sequences in by_run.values())
    assert len(by_run[shared.id]) == 801


def test_the_event_loop_is_not_held_up_by_flushing(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic()

    async def main() -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.001)
                beats += 1

        async with make_recorder(topic) as recorder:
            beating = asyncio.create_task(beat())
            async with recorder.arun() as run:
                run.step(message="x").respond()
            assert await recorder.aflush(30) == 0
            beating.cancel()
        return beats

    assert asyncio.run(main()) > 3
    assert len(read_topic(topic)) == 3


def test_a_topic_that_is_missing_holds_events_until_it_is_made(
    broker: str, make_recorder: Any, read_topic: Any, caplog: pytest.LogCaptureFixture, eventually: Any
) -> None:
    from trajlake.streams.topics import ensure_topics

    caplog.set_level(logging.INFO, "trajlake.recording.recorder")
    topic = f"late-{os.getpid()}-{time.time_ns()}"
    recorder = make_recorder(topic, kafka_options={"topic.metadata.propagation.max.ms": 500})
    run = record_run(recorder, steps=5)
    eventually(lambda: "UNKNOWN_TOPIC" in caplog.text, 30, "the log names the trouble")
    assert recorder.flush(0.5) == 17
    ensure_topics(broker, {topic: 2})
    assert recorder.flush(30) == 0
    assert [(record.event.runid, record.event.sequence) for record in read_topic(topic)] == [
        (run, number) for number in range(1, 18)
    ]
    assert recorder.counts.parked == recorder.counts.dropped == 0


def test_an_event_that_kafka_refuses_is_parked_and_the_others_arrive(
    make_topic: Any, make_recorder: Any, read_topic: Any, spool: Path, broker: str
) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    topic = make_topic(1, {"max.message.bytes": "20000"})
    recorder = make_recorder(topic, kafka_options={"compression.type": "none"})
    with recorder.run() as run:
        run.step(message="before").respond()
        run.step(message="x" * 50_000).respond()
        run.step(message="after").respond()
    assert recorder.flush(30) == 0
    assert sorted(record.event.sequence for record in read_topic(topic)) == [1, 2, 4, 5]
    assert (recorder.counts.delivered, recorder.counts.parked, recorder.counts.dropped) == (4, 1, 0)
    (file,) = spool.rglob("parked/*.jsonl")
    (parked,) = read_parked(file)
    assert parked.reason == "MSG_SIZE_TOO_LARGE"
    assert b"x" * 50_000 in parked.event

    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": broker})
    admin.incremental_alter_configs([resource])[resource].result()
    assert recorder.retry_parked(file) == 1
    assert recorder.flush(30) == 0
    assert sorted(record.event.sequence for record in read_topic(topic)) == [1, 2, 3, 4, 5]


def test_an_event_beyond_every_limit_is_parked(
    make_topic: Any, make_recorder: Any, read_topic: Any, spool: Path
) -> None:
    topic = make_topic()
    recorder = make_recorder(topic)
    with recorder.run() as run:
        run.step(message="x" * (70 * 2**20)).respond()
    assert recorder.flush(60) == 0
    assert [record.event.sequence for record in read_topic(topic)] == [1, 3]
    assert recorder.counts.parked == 1
    assert next(spool.rglob("parked/*.jsonl")).stat().st_size > 70 * 2**20


def test_T12_a_large_event_arrives_whole(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic()
    recorder = make_recorder(topic)
    image = "aGVsbG8=" * (3 * 2**20)
    with recorder.run() as run, run.step() as step, step.tool("screenshot") as call:
        call.result(image)
    assert recorder.flush(60) == 0
    events = [record.event for record in read_topic(topic)]
    assert len(events) == 5
    assert events[3].data.content == image


def test_without_a_disk_events_still_arrive(
    make_topic: Any, make_recorder: Any, read_topic: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    blocked = tmp_path / "a file"
    blocked.write_text("and no folder")
    recorder = make_recorder(topic, spool=blocked / "spool")
    record_run(recorder)
    assert recorder.flush(30) == 0
    assert len(read_topic(topic)) == 8
    assert recorder.counts.unspooled == 8
    assert "Not a directory" in caplog.text


def test_a_removed_spool_folder_is_made_again(
    make_topic: Any, make_recorder: Any, read_topic: Any, spool: Path
) -> None:
    import shutil

    topic = make_topic()
    recorder = make_recorder(topic)
    record_run(recorder)
    assert recorder.flush(30) == 0
    shutil.rmtree(spool)
    for _ in range(3):
        record_run(recorder)
        assert recorder.flush(30) == 0
    assert len(read_topic(topic)) == 32


def test_recording_after_close_starts_again(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic()
    recorder = make_recorder(topic)
    for _ in range(3):
        record_run(recorder)
        assert recorder.close(30) == 0
    assert len(read_topic(topic)) == 24
    assert recorder.counts.delivered == 24


def test_a_recorder_that_is_let_go_still_delivers_and_ends_its_thread(
    make_topic: Any, broker: str, spool: Path, read_topic: Any, eventually: Any
) -> None:
    topic = make_topic()
    before = {thread.ident for thread in threading.enumerate()}
    record_run(Recorder("acme", bootstrap_servers=broker, topic=topic, spool=spool))
    gc.collect()
    eventually(lambda: {thread.ident for thread in threading.enumerate()} <= before, 30, "the thread ends")
    assert len(read_topic(topic)) == 8


def test_flushing_an_idle_recorder_returns_at_once(make_topic: Any, make_recorder: Any) -> None:
    recorder = make_recorder(make_topic())
    assert recorder.flush(30) == 0
    assert recorder.close(30) == 0


BACKLOG = """
import sys
import psutil
from trajlake import Recorder

recorder = Recorder("acme", topic="nowhere", bootstrap_servers=sys.argv[1], spool=sys.argv[2])
with recorder.run() as run:
    run.step(message="first").respond()
before = psutil.Process().memory_info().rss
text = "x" * 50_000
with recorder.run() as run:
    for _ in range(6_000):
        run.step(message=text).respond()
print(psutil.Process().memory_info().rss - before, recorder.counts.dropped, recorder.close(0))
"""


def test_a_long_backlog_is_not_held_in_memory(nobody: str, tmp_path: Path) -> None:
    """In a process of its own: what other tests left behind is not its memory."""
    done = subprocess.run(
        [sys.executable, "-c", BACKLOG, nobody, str(tmp_path)], cwd=REPO, capture_output=True, text=True, check=True
    )
    grown, dropped, left = map(int, done.stdout.split())
    assert dropped == 0
    assert left > 6_000
    assert grown < 200 * 2**20, "300 MB were recorded"


def test_when_neither_disk_nor_kafka_has_room_the_loss_is_counted_and_said(
    make_recorder: Any, nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = make_recorder(
        bootstrap_servers=nobody, spool_limit_bytes=2 * 2**20, queue_bytes=4 * 2**20, exit_timeout_s=0.5
    )
    text = "x" * 10_000
    longest = 0.0
    with recorder.run() as run:
        for _ in range(6_000):
            start = time.perf_counter()
            run.step(message=text).respond()
            longest = max(longest, time.perf_counter() - start)
    counts = recorder.counts
    assert counts.accepted + counts.dropped == 6_002
    assert counts.dropped > 1_000
    assert longest < 3.0
    lost = [line for line in caplog.messages if "LOST" in line]
    assert len(lost) == 1
    assert not any("x" * 100 in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": " "}, "tenant"),
        ({"tenant": "x" * 129}, "tenant"),
        ({"source": "x" * 1025}, "source"),
        ({"bootstrap_servers": "nowhere"}, "bootstrap_servers"),
        ({"topic": "no topic"}, "events_topic"),
        ({"kafka_options": {"no.such.option": "1"}}, "kafka_options"),
        ({"kafka_options": {"linger.ms": "soon"}}, "kafka_options"),
        ({"kafka_options": {"bootstrap.servers": "x:1"}}, "kafka_options"),
    ],
)
def test_a_wrong_setting_stops_the_program_with_its_name(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingError) as raised:
        Recorder(**arguments)
    assert raised.value.name == name


def test_defaults_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAJLAKE_TENANT", "from-env")
    monkeypatch.setenv("TRAJLAKE_SOURCE", "urn:from:env")
    monkeypatch.setenv("TRAJLAKE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("TRAJLAKE_BOOTSTRAP_SERVERS", "kafka:1234")
    monkeypatch.setenv("TRAJLAKE_EVENTS_TOPIC", "audit")
    recorder = Recorder()
    assert (recorder.tenant, recorder.source) == ("from-env", "urn:from:env")
    assert repr(recorder) == "<Recorder of from-env to audit at kafka:1234>"


def test_secrets_are_in_no_log_and_no_repr(
    broker: str, make_topic: Any, make_recorder: Any, caplog: pytest.LogCaptureFixture, spool: Path
) -> None:
    secret = "".join(["hun", "ter2-", "verylongsecret"])
    content = "".join(["pay", "load-", "thatistold"])
    caplog.set_level(logging.DEBUG)
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "agent"}
    recorder = make_recorder(make_topic(), kafka_options={**options, "sasl.password": secret})
    with recorder.run(input=content) as run:
        run.step(message=content, logprobs=content, http_status=content, cost_usd=content).respond()
        run.step(message={object(): content}).respond()
    recorder.flush(1)
    with pytest.raises(SettingError) as raised:
        Recorder(
            kafka_options={**options, "sasl.password": secret, "sasl.mechanism": secret, "compression.type": secret}
        )
    with pytest.raises(SettingError) as other:
        Recorder(kafka_options={"ssl.key.pem": secret, "security.protocol": "SSL"})
    recorder.close(0)
    said = [caplog.text, repr(recorder), repr(vars(recorder)), str(raised.value), str(other.value), repr(run)]
    assert not any(secret in text or content in text for text in said)
    assert not any(secret in str(path.read_bytes()) for path in spool.rglob("*") if path.is_file())


def test_no_log_line_is_repeated_while_kafka_is_away(
    make_recorder: Any, nobody: str, caplog: pytest.LogCaptureFixture, eventually: Any
) -> None:
    recorder = make_recorder(bootstrap_servers=nobody)
    record_run(recorder)
    eventually(lambda: "takes no events" in caplog.text, 10)
    assert recorder.flush(3) == 8
    assert Counter(caplog.messages).most_common(1)[0][1] == 1


def test_the_end_of_a_run_is_what_the_agent_saw(make_topic: Any, make_recorder: Any, read_topic: Any) -> None:
    topic = make_topic()
    recorder = make_recorder(topic)
    with recorder.run() as run:
        run.end(success=True, output={"answer": 42}, stop_condition="done")
    recorder.flush(30)
    ended = read_topic(topic)[-1].event
    assert isinstance(ended, RunEndedEvent)
    assert (ended.data.success, ended.data.output, ended.data.stop_condition) == (True, {"answer": 42}, "done")


def murmur2(data: bytes) -> int:
    """The hash of Kafka's own partitioner (org.apache.kafka.common.utils.Utils.murmur2)."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for place in range(0, whole, 4):
        k = int.from_bytes(data[place : place + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
