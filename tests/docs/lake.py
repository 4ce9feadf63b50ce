"""The lake that the pages' snippets are run on: a fortnight of events, folded, landed and judged by the program itself.

There is something in every table that a small lake can have: a skill that got worse, a quota storm, refused records, a
hole in the log, consent, an erasure, a purge, publications. Only Kafka is left out, which other tests have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.curate.lab import tick
from tests.docs.commands import run
from tests.landkit.events import Sent, event
from tests.landkit.stretches import TOPIC
from trajlake.expectations.outcomes import Decision, SkillStats
from trajlake.expectations.tables import TABLES
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import Advance, DeltaLog
from trajlake.sinks.lake import Lake, transaction_app
from trajlake.sinks.ledger import Ledger
from trajlake.streams.land.partitions import AssignedPartition
from trajlake.streams.land.rules import land_rules
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.rebuild import outcomes_of_lake
from trajlake.streams.settings import Settings, load_settings
from trajlake.transforms.records import Record
from trajlake.transforms.rolling.fleet import Facts, Fleet, judge
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.rows import Place, decision_batch, stats_batch
from trajlake.transforms.rolling.state import SkillState

TODAY = datetime(2026, 11, 30, 12, tzinfo=UTC)
POLICIES = """
version: 1
policies:
  - id: acme
    tenant: acme
    purposes:
      train:
        allow: true
        declared: ignored
        consent: if_subject
        consent_given: any_time
        licences: any
        annotators: [{kind: code}]
        refused_rewards: leave_out
  - id: initech
    tenant: initech
    zone: kr
"""
WRONG = {"end_state": "completed", "success": False}
NO_QUOTA = {
    "end_state": "failed", "http_status": 429, "provider_code": "insufficient_quota",
    "error_type": "RateLimitError", "error_message": "You exceeded your current quota",
}  # fmt: skip
DONE = {"end_state": "completed", "success": True, "output": "Refunded."}


class Maker:
    """A lake that is filled in the order of a log, and whose clock goes on with each run."""

    def __init__(self, root: Path) -> None:
        (root.parent / "policies").mkdir()
        (root.parent / "policies" / "acme.yaml").write_text(POLICIES)
        self.settings: Settings = load_settings(root=str(root), policies=str(root.parent / "policies"))
        self.lake = Lake(str(root))
        self.ledger = Ledger(self.lake, self.settings.app_id)
        self.ledger.open()
        self.owned = AssignedPartition.resume(self.lake, self.ledger, TOPIC, 0, land_rules(self.settings))
        self.now = TODAY - timedelta(days=14)
        self.numbers = itertools.count(1)

    def land(self, sent: list[Sent], *, hole: int = 0) -> None:
        """Land the next records of the log in one commit, behind a hole of so many offsets."""
        first = self.owned.next_offset + hole
        at_us = int(self.now.timestamp() * 1e6)
        self.owned.take([Record(first + place, at_us + place, one.key, one.value) for place, one in enumerate(sent)])
        stretch = self.owned.stretch()
        assert stretch is not None
        self.ledger.commit([stretch])
        self.owned.committed()

    def run(self, skill: str, end: dict[str, Any], *, steps: int = 1, tenant: str = "acme", version: str = "1",
            name: str = "", text: str = "I look the order up.", tool_error: str = "", score: float | None = None,
            arguments: str = '{"id":17}', **start: Any) -> list[Sent]:  # fmt: skip
        """The events of a run that ends ten seconds after it began; the clock goes on to its end."""
        name = name or f"r-{next(self.numbers)}"
        sent: list[Sent] = []

        def add(kind: str, **data: Any) -> None:
            self.now += timedelta(seconds=2)
            sent.append(event(kind, name, len(sent) + 1, data, tenant=tenant, time=self.now.isoformat()))

        model = {"name": "model-1", "tier": "cheap", "provider": "north"}
        add("run.started", skill={"name": skill, "version": version}, model=model, task_family="mail", **start)
        for number in range(steps):
            call = {"tool_call_id": f"{name}-{number}", "function_name": "find_order", "arguments": arguments}
            add("model.responded", message=text, tool_calls=[call], cost_usd=0.002,
                usage={"input_tokens": 812, "output_tokens": 21})  # fmt: skip
            bad = {"is_error": True, "error_type": tool_error} if tool_error else {}
            add("tool.returned", tool_call_id=call["tool_call_id"], content="order 17: paid twice", **bad)
        if score is not None:
            add("reward.assigned", name="tests", score=score, annotator_kind="code", annotator_id="tests")
        add("run.ended", **end)
        return sent


def make_lake(root: Path) -> None:
    """Fill a new lake at `root`; policies lie in `policies/` beside it."""
    made = Maker(root)
    for days in (range(6), range(6, 12)):
        sent = []
        for day in days:
            for number in range(14):
                bad = number % 10 == 9
                sent += made.run("refund", WRONG if bad else DONE, score=float(not bad), task_id=f"order-{number % 3}")
                made.now += timedelta(minutes=30)
            sent += made.run("triage", DONE, steps=0, input="Sort the mail of jane@example.org.")
            made.now = TODAY - timedelta(days=13 - day)
        made.land(sent)
    made.land([sent for _ in range(40) for sent in made.run("refund", WRONG, version="2", score=0.0, steps=2)], hole=3)
    made.land([sent for _ in range(30) for sent in made.run("triage", NO_QUOTA, steps=0)])
    made.land(list(_one_of_each(made)))
    made.ledger.close()
    _tell_statistics(made)
    words = ["--root", str(root)]
    for command in (
        ["curate", "--once", "--policies", made.settings.policies, *words],
        ["forget", "--tenant", "acme", "--subject", "u-381", *words],
        ["quarantine", "purge", "--reason", "malformed_json", "--yes", "--by", "ops", *words],
    ):
        code, told = run(command)
        assert code == 0, told


def _one_of_each(made: Maker) -> Iterator[Sent]:
    """What is rare: refusals, consent, a subject, a failing tool, a run without an end, a lever, large content."""
    yield Sent(b"acme/poison", b"{")
    consent = {"subject_id": "u-381", "purpose": "train", "state": "granted"}
    for subject in ("u-381", "u-7"):
        yield event("consent.changed", None, None, consent | {"subject_id": subject}, id=f"consent-{subject}",
                    time=made.now.isoformat())  # fmt: skip
    yield from made.run("refund", DONE, name="run-of-u-381", subject_id="u-381", score=1.0)
    yield from made.run("refund", DONE, name="run-17", subject_id="u-7", score=1.0, task_id="order-17")
    yield from made.run("refund", DONE, tool_error="ToolServerError", name="run-of-a-broken-tool", text="x" * 300_000)
    yield from made.run("refund", DONE, tenant="initech")
    lost = made.run("triage", DONE, steps=2, name="run-with-a-gap")
    yield from (sent for number, sent in enumerate(lost) if number != 2)
    yield from made.run("triage", DONE, name="run-without-an-end")[:-1]
    yield from made.run("triage", DONE, name="run-without-a-start")[1:]
    pulled = {"lever": "prompt", "skill": {"name": "refund"}, "change_from": "1", "change_to": "2", "by": "ops"}
    yield event("lever.applied", None, None, pulled, id="lever-1", time=made.now.isoformat())
    made.now += timedelta(hours=2)
    yield tick(idle_us=3600 * 10**6)


def _tell_statistics(made: Maker) -> None:
    """What `trajlake roll` would tell of these runs, landed as `trajlake land` would land it."""
    skills: dict[tuple[str, str], SkillState] = {}
    for batch in outcomes_of_lake(made.settings):
        skill = (batch.tenant_id, batch.skill_name)
        skills.setdefault(skill, SkillState(*skill)).apply(batch)
    now_us = int(made.now.timestamp() * 1e6)
    stats = [skill_stats(state, Detectors(), emitted_us=now_us, code_revision="1") for state in skills.values()]
    append_told(made, "skill_stats", made.settings.stats_topic, stats_batch, stats)
    fleet = Fleet("acme", {one.skill_name: one for one in stats if one.tenant_id == "acme"})
    facts = Facts(table=LakeFacts(made.lake, made.settings).table)
    found = judge(fleet, facts, set(fleet.skills)).decisions
    decisions = [replace(decision, made_us=now_us) for _, decision in found]
    append_told(made, "decisions", made.settings.decisions_topic, decision_batch, decisions)


def append_told(made: Maker, name: str, topic: str, build: Any, told: list[SkillStats] | list[Decision]) -> None:
    """Land what was told of skills, as `trajlake land` would."""
    log = DeltaLog(made.lake, TABLES[name])
    log.open()
    rows = build([(Place(topic, 0, offset), one) for offset, one in enumerate(told)])
    app = transaction_app(f"{made.settings.app_id}-told", topic, 0)
    log.commit([write_data_file(made.lake, TABLES[name], [rows])], [Advance(app, -1, len(told) - 1)])
