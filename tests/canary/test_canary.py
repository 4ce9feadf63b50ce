"""Nothing that was marked is found behind landing: no table, payload, snapshot, log, report, status or message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ahocorasick
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.canary.flock import RUNS, TENANT, Flock, events
from tests.conftest import MakeTopic
from tests.landkit.events import Sent
from tests.landkit.kafka import log_of, produce
from tests.landkit.processes import WorkerProcess
from tests.landkit.running import plan

pytestmark = pytest.mark.integration

COMMANDS = (
    ["tables", "--json"],
    ["verify", "--json", "--deep", "--integrity"],
    ["query", "select * from quarantine", "--format", "csv"],
    ["query", "select nothing from events"],
)


def log_with_canaries(flock: Flock) -> list[Sent]:
    """Whole runs, records that are refused for every kind of reason, records over the inline limit, binary mode."""
    sent = [Sent(f"{TENANT}/{run}".encode(), orjson.dumps(body)) for run in RUNS for body in events(flock, run)]
    whole = sent[1].value or b""
    again = json.loads(whole)
    large = dict(again, id="large", sequence=40)
    large["data"] = {"message": "words and " * 30_000 + flock.secret("large message")}
    wrong_key = f"{TENANT}/{flock.secret('Kafka key')}".encode()
    refused = [
        Sent(b"canary/r1", whole),
        Sent(b"canary/r1", whole[:-40] + flock.secret("malformed").encode()),
        Sent(b"canary/r1", b"\xff\xfe" + flock.secret("not UTF-8").encode()),
        Sent(b"canary/r1", f'{{"a":"{flock.secret("twice")}","a":"{flock.secret("twice")}"}}'.encode()),
        Sent(b"canary/r1", orjson.dumps([flock.secret("no event")])),
        Sent(b"canary/r1", orjson.dumps(dict(again, id="late", sequence=2, time=flock.secret("bad time")))),
        Sent(b"canary/r1", orjson.dumps(dict(again, id="typed", sequence=flock.secret("wrong type")))),
        Sent(b"canary/r1", orjson.dumps(dict(again, id="kind", sequence=41, type=flock.secret("unknown type")))),
        Sent(wrong_key, orjson.dumps(dict(again, id="key", sequence=42))),
        Sent(b"canary/r1", orjson.dumps(dict(again, id="run", runid=flock.secret("run id"), sequence=1))),
        Sent(b"canary/r1", orjson.dumps(dict(again, id="tenant", tenantid=flock.secret("tenant id"), sequence=1))),
        Sent(b"canary/r2", b'{"broken":"' + b"words and " * 40_000 + flock.secret("large refused").encode()),
        Sent(b"canary/r1", orjson.dumps(large)),
        Sent(b"canary/open", orjson.dumps(dict(again, id="open", runid="open", sequence=7))),
    ]
    return sent + refused


def test_no_canary_is_found_anywhere_behind_landing(broker: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic, outcomes = make_topic(1), make_topic(1)
    flock = Flock()
    produce(broker, topic, log_with_canaries(flock))
    assert len(flock.canaries) >= 200
    root = tmp_path / "lake"
    settings = plan(broker, topic, root, outcomes_topic=outcomes, log_level="debug")
    with WorkerProcess(settings, until_end=True) as worker:
        assert worker.end(180) == 0, worker.tail()
    said = {"worker log": "\n".join(worker.log), "worker status": json.dumps(worker.told)}
    for words in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "trajlake", *words, "--root", str(root)],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        said[f"trajlake {' '.join(words)}"] = done.stdout + done.stderr
    records, _, _ = log_of(broker, outcomes)
    said["outcomes topic"] = b"\n".join(value or b"" for value in records.values()).decode("utf-8", "replace")
    said |= dict(stored(root))
    assert sum(place.startswith("lake/restricted/events") for place in said) > 0
    assert any("_payloads" in place for place in said)
    assert any("snapshot" in place for place in said)
    assert sightings(said, flock) == []
    rows = pq.read_table(root / "restricted" / "events").to_pylist()
    assert len(rows) >= len(RUNS) * 11
    assert any(row["redactions"] for row in rows)


def sightings(said: dict[str, str], flock: Flock) -> list[tuple[str, str, str]]:
    """Kind and place of each canary that is somewhere, and where; every text is read once."""
    cores = ahocorasick.Automaton()
    for canary in flock.canaries:
        for core in canary.cores:
            cores.add_word(core, canary)
    cores.make_automaton()
    return sorted(
        {(canary.kind, canary.place, place) for place, text in said.items() for _, canary in cores.iter(text)}
    )


def stored(root: Path) -> Iterator[tuple[str, str]]:
    """Every file of the lake by name, as text: as it lies there, and unpacked where it is packed."""
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        name = f"lake/{path.relative_to(root)}"
        raw = path.read_bytes()
        yield name, name + raw.decode("latin-1")
        yield f"{name} (UTF-8)", raw.decode("utf-8", "replace")
        if path.suffix == ".parquet":
            yield f"{name} (rows)", json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False, default=str)
        elif path.name.endswith(".msgpack.zst"):
            # 32 bytes of digest, 8 of size (sinks/snapshots.py).
            size = int.from_bytes(raw[32:40], "big")
            unpacked = pa.Codec("zstd").decompress(raw[40:], size, asbytes=True)
            yield f"{name} (snapshot)", unpacked.decode("utf-8", "replace")


def test_the_search_itself_finds_what_is_there(tmp_path: Path) -> None:
    """Else the test above would pass for nothing."""
    flock = Flock()
    secret, person = flock.secret("here"), flock.person("there", digits=False)
    key = flock.key("key")
    (tmp_path / "a").write_text(f"x {secret} y")
    (tmp_path / "b").write_text(json.dumps({"k": key}))
    pq.write_table(pa.table({"t": [person], "u": [[{"v": secret}]]}), tmp_path / "c.parquet", compression="zstd")
    said = dict(stored(tmp_path))
    assert {place for _, place, _ in sightings(said, flock)} == {"here", "there", "key"}


def test_every_text_of_every_type_has_its_canary() -> None:
    flock = Flock()
    made: list[Any] = list(events(flock, "r1"))
    assert len(made) == 11
    assert len(flock.canaries) > 200
    assert len({core for canary in flock.canaries for core in canary.cores}) >= len(flock.canaries)
