"""Each check finds what it is there for: a machine, a lake or a Kafka with one thing wrong, and what is said."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tests.conftest import MakeTopic
from tests.looking.conftest import Rows
from trajlake.doctor import rules
from trajlake.doctor.checks import CHECKS, examine
from trajlake.doctor.finding import Finding, Level, Patient
from trajlake.expectations.tables import EVENTS, TABLES
from trajlake.sinks.lake import transaction_app
from trajlake.streams.broker import free_port
from trajlake.streams.health import HealthServer
from trajlake.streams.roll.topics import changelog_topics
from trajlake.streams.settings import Settings, load_settings
from trajlake.streams.topics import ensure_topics

NOBODY = "127.0.0.1:1"
WORKERS = ("land", "roll", "curate", "maintain")

Make = Callable[[Path, pytest.MonkeyPatch], Patient]


def patient(folder: Path, **settings: Any) -> Patient:
    """A machine on which nothing runs, with a root of its own."""
    ports = {f"{name}_port": free_port() for name in ("health", "roll", "curate", "maintain")}
    chosen = {"root": str(folder / "lake"), "bootstrap_servers": NOBODY, **ports, **settings}
    return Patient(load_settings(**chosen), environ={}, timeout_s=1.0)


def embedding(folder: Path, **changes: Any) -> Patient:
    """The same where no Kafka is named."""
    return Patient(load_settings(root=str(folder / "lake"), **changes), environ={}, timeout_s=1.0)


def with_lake(folder: Path, **settings: Any) -> Patient:
    rows = Rows()
    rows.whole_run(0, "run-1")
    rows.write(folder / "lake")
    return patient(folder, **settings)


def old_python(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), python="3.10.4")


def old_package(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), requirements=["rich>=999", "no-such-package-here>=1", 'x>=1; extra == "dev"'])


def no_jars(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return embedding(folder)


def odd_variable(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), environ={"TRAJLAKE_BATCH_ROWS": "1", "TRAJLAKE_ROOT": "/x", "HOME": "/"})


def unscanned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    (folder / "p.yaml").write_text("version: 1\npolicies: [{id: a, purposes: {train: {deep_scan: hold}}}]\n")
    monkeypatch.setattr(rules, "find_spec", lambda name: None)
    return patient(folder, policies=str(folder / "p.yaml"))


def wrong_policy(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    (folder / "p.yaml").write_text("version: 1\npolicies: [{id: a, zone: NOT A ZONE}]\n")
    return patient(folder, policies=str(folder / "p.yaml"))


def wrong_suite(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    (folder / "steps.json").write_text("{")
    return patient(folder, suites=str(folder))


def no_levers(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return patient(folder, levers_file=str(folder / "absent.yaml"))


def no_redaction(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return patient(folder, redaction="off")


def no_redaction_key(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return patient(folder, redaction_key_file=str(folder / "absent.key"))


def wrong_seal(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return patient(folder, seal_public_key="not a key")


def short_token(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), environ={"TRAJLAKE_DASHBOARD_TOKEN": "x" * 15})


def root_is_a_file(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    (folder / "lake").write_text("not a folder")
    return patient(folder)


def state_is_a_file(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    (folder / "lake").mkdir()
    (folder / "lake" / "_state").write_text("not a folder")
    return patient(folder)


def full_disk(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), free_bytes=lambda path: (100 * 2**30, 2**20))


def tight_disk(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return replace(patient(folder), free_bytes=lambda path: (100 * 2**30, 2**30))


def foreign_table(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    write_deltalake(str(folder / "lake" / "restricted" / "events"), pa.table({"offset": ["one"]}))
    return patient(folder)


def append_only_table(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    place = folder / "lake" / "restricted" / "events"
    write_deltalake(str(place), EVENTS.schema.empty_table(), configuration={"delta.appendOnly": "true"})
    return patient(folder)


def older_table(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    optional = next(field.name for field in EVENTS.schema if field.nullable)
    kept = [field for field in EVENTS.schema if field.name != optional]
    write_deltalake(str(folder / "lake" / "restricted" / "events"), pa.schema(kept).empty_table())
    return patient(folder)


def torn_table(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    log = folder / "lake" / "restricted" / "events" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{not json")
    return patient(folder)


def no_snapshot(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    made = with_lake(folder)
    app = transaction_app(made.settings.app_id, "agent.audit.v1", 0)
    write_deltalake(
        str(folder / "lake" / "restricted" / "events"),
        TABLES["events"].schema.empty_table(),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(app, 2_000_000)]),
    )
    return made


def nobody(folder: Path, _: pytest.MonkeyPatch) -> Patient:
    return patient(folder)


WRONG: list[tuple[str, Make, Level, str]] = [
    ("python", old_python, Level.FAILED, "Python 3.10.4"),
    ("packages", old_package, Level.FAILED, "no-such-package-here is missing"),
    ("packages", old_package, Level.FAILED, ">=999"),
    ("java", no_jars, Level.WARNING, "jars"),
    ("variables", odd_variable, Level.WARNING, "TRAJLAKE_BATCH_ROWS"),
    ("policies", wrong_policy, Level.FAILED, "p.yaml:2"),
    ("policies", unscanned, Level.FAILED, "policy a asks for deep_scan, and Presidio is not installed"),
    ("suites", wrong_suite, Level.FAILED, "steps.json"),
    ("levers", no_levers, Level.FAILED, "absent.yaml"),
    ("redaction", no_redaction, Level.WARNING, "switched off"),
    ("redaction", no_redaction_key, Level.FAILED, "redaction_key_file"),
    ("sealing", wrong_seal, Level.FAILED, "seal_public_key"),
    ("dashboard", short_token, Level.FAILED, "less than 16"),
    ("root", root_is_a_file, Level.FAILED, "no folder"),
    ("commits", state_is_a_file, Level.FAILED, "cannot be written"),
    ("disk", full_disk, Level.FAILED, "0.0 GiB free"),
    ("disk", tight_disk, Level.WARNING, "1.0 GiB free"),
    ("tables", foreign_table, Level.FAILED, "events"),
    ("tables", append_only_table, Level.FAILED, "append-only"),
    ("tables", older_table, Level.WARNING, "older version"),
    ("tables", torn_table, Level.FAILED, "events"),
    ("snapshots", no_snapshot, Level.WARNING, "agent.audit.v1/0: 2,000,001"),
    ("broker", nobody, Level.FAILED, NOBODY),
    ("topics", nobody, Level.WARNING, "not asked"),
    ("changelogs", nobody, Level.WARNING, "not asked"),
    ("lag", nobody, Level.WARNING, "not asked"),
    ("outcomes", nobody, Level.WARNING, "not asked"),
    ("clock", nobody, Level.WARNING, "not asked"),
    ("land", nobody, Level.WARNING, "does not answer"),
    ("roll", nobody, Level.WARNING, "does not answer"),
    ("curate", nobody, Level.WARNING, "does not answer"),
    ("maintain", nobody, Level.WARNING, "does not answer"),
]


@pytest.mark.parametrize(("check", "make", "level", "says"), WRONG)
def test_what_is_wrong_is_found_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, make: Make, level: Level, says: str
) -> None:
    found = CHECKS[check](make(tmp_path, monkeypatch))
    assert found.level is level, found
    assert says in found.says
    assert found.next_step


def test_every_check_has_a_case_in_which_it_finds_something() -> None:
    assert {check for check, *_ in WRONG} == set(CHECKS)


@pytest.mark.parametrize("check", [name for name in CHECKS if name not in ("broker", "disk", *WORKERS)])
def test_a_whole_lake_on_a_whole_machine_is_ok(tmp_path: Path, broker: str, check: str) -> None:
    made = with_lake(tmp_path, bootstrap_servers=broker, **names())
    found = CHECKS[check](made)
    assert found.level is (Level.WARNING if check == "topics" else Level.OK), found


@pytest.mark.parametrize("check", WORKERS)
@pytest.mark.parametrize(("problems", "level"), [([], Level.OK), (["the disk is full"], Level.FAILED)])
def test_a_worker_that_answers_is_ok_and_one_that_is_not_well_is_not(
    tmp_path: Path, check: str, problems: list[str], level: Level
) -> None:
    server = HealthServer("127.0.0.1", 0, lambda: {"ready": not problems, "problems": problems}, lambda: b"")
    server.start()
    try:
        port = int(server.address.rpartition(":")[2])
        found = CHECKS[check](patient(tmp_path, **{"health_port" if check == "land" else f"{check}_port": port}))
    finally:
        server.stop()
    assert found.level is level, found
    assert all(problem in found.says for problem in problems)


@pytest.mark.integration
def test_the_state_of_topics_is_told(tmp_path: Path, broker: str, make_topic: MakeTopic) -> None:
    own = names()
    made = patient(tmp_path, bootstrap_servers=broker, events_partitions=3, **own)
    assert CHECKS["broker"](made).level is Level.OK
    assert "not there yet" in CHECKS["topics"](made).says
    others = dict.fromkeys((own["outcomes_topic"], own["stats_topic"], own["decisions_topic"]), 4)
    ensure_topics(broker, {own["events_topic"]: 2, **others})
    assert_says(CHECKS["topics"](patient(tmp_path, **told(made))), Level.WARNING, "has 2 partitions, not 3")
    settings = told(made) | {"events_partitions": 2}
    assert CHECKS["topics"](patient(tmp_path, **settings)).level is Level.OK
    compacted = make_topic(2, {"cleanup.policy": "compact"})
    found = CHECKS["topics"](patient(tmp_path, **settings | {"events_topic": compacted}))
    assert_says(found, Level.FAILED, "compacts")
    short = make_topic(2, {"retention.ms": "60000"})
    found = CHECKS["topics"](patient(tmp_path, **settings | {"events_topic": short}))
    assert_says(found, Level.FAILED, "for 0.0 h")


@pytest.mark.integration
def test_a_changelog_that_forgets_and_partitions_that_differ_are_found(
    tmp_path: Path, broker: str, eventually: Any
) -> None:
    own = names()
    made = patient(tmp_path, bootstrap_servers=broker, **own)
    ensure_topics(broker, dict.fromkeys(changelog_topics(made.settings), 4), config={"cleanup.policy": "delete"})
    assert_says(CHECKS["changelogs"](patient(tmp_path, **told(made))), Level.FAILED, "cleanup.policy delete")
    ensure_topics(broker, {own["outcomes_topic"]: 3})

    def asked() -> Finding | None:
        """Brokers learn of a new topic one after the other, and until then there is none to compare with."""
        found = CHECKS["changelogs"](patient(tmp_path, **told(made)))
        return found if "partitions differ" in found.says else None

    assert_says(eventually(asked, 30, "the new topic is known"), Level.FAILED, "partitions differ")


@pytest.mark.integration
def test_lag_a_foreign_log_and_a_wrong_clock_are_found(tmp_path: Path, broker: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1, {"message.timestamp.type": "CreateTime"})
    made = patient(tmp_path, bootstrap_servers=broker, **names() | {"events_topic": topic})
    send(broker, topic, int((time.time() - 3600) * 1000))
    assert_says(CHECKS["lag"](made), Level.WARNING, "1 records behind")
    assert CHECKS["clock"](made).level is Level.OK
    assert_says(CHECKS["clock"](replace(made, now=lambda: time.time() - 7200)), Level.FAILED, "in the future")
    rows = Rows(topic=topic)
    rows.whole_run(0, "run-1")
    rows.write(tmp_path / "lake")
    assert_says(CHECKS["lag"](patient(tmp_path, **told(made))), Level.FAILED, "offsets that the log has not")


@pytest.mark.integration
def test_outcomes_that_nobody_counts_are_found(tmp_path: Path, broker: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    made = patient(tmp_path, bootstrap_servers=broker, **names() | {"outcomes_topic": topic})
    send(broker, topic, count=1_001)
    assert_says(CHECKS["outcomes"](made), Level.WARNING, "1,001 outcome messages are not counted")


def test_a_check_that_breaks_off_is_a_finding_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Patient) -> Finding:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr("trajlake.doctor.checks.CHECKS", {"python": broken, "variables": CHECKS["variables"]})
    found = dict(examine(patient(tmp_path)))
    assert found["python"].level is Level.FAILED
    assert "ZeroDivisionError: by nought" in found["python"].says
    assert found["variables"].level is Level.OK


def test_nothing_is_made_where_there_is_no_lake_and_nothing_is_left_where_there_is_one(tmp_path: Path) -> None:
    made = patient(tmp_path)
    list(examine(made))
    assert list(tmp_path.iterdir()) == []
    made = with_lake(tmp_path)
    before = {path for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    list(examine(made))
    assert {path for path in (tmp_path / "lake").rglob("*") if path.is_file()} == before


def send(broker: str, topic: str, at_ms: int = 0, count: int = 1) -> None:
    """Records of a time, 0 for now."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker})
    for _ in range(count):
        producer.produce(topic, b"{}", timestamp=at_ms)
    assert producer.flush(20) == 0


def names() -> dict[str, str]:
    """Topics and groups that nobody else has."""
    own = uuid.uuid4().hex[:8]
    return {f"{name}_topic": f"{name}-{own}" for name in ("events", "outcomes", "stats", "decisions")} | {
        "roll_id": f"roll-{own}"
    }


def told(made: Patient) -> dict[str, Any]:
    """The settings of another patient: what Kafka said to that one is kept by it."""
    settings: Settings = made.settings
    return {name: getattr(settings, name) for name in settings.model_fields_set}


def assert_says(found: Finding, level: Level, words: str) -> None:
    assert found.level is level, found
    assert words in found.says, found
    assert found.next_step
