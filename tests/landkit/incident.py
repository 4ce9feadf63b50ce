"""A seeded incident as the program itself sees it: a quota runs out for five skills on the night that another one gets
worse. Three weeks of events, landed, counted and judged in the order of the log; only Kafka is left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from tests.docs.lake import DONE, NO_QUOTA, WRONG, Maker, append_told
from tests.landkit.events import Sent, event
from tests.landkit.stretches import TOPIC
from trajlake.expectations.outcomes import Decision, SkillStats
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.rebuild import outcomes_of_lake
from trajlake.transforms.rolling.fleet import Facts, Fleet, judge
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.rows import decision_batch, stats_batch
from trajlake.transforms.rolling.state import SkillState

REGRESSED: Final = "refund"
NIGHTLY: Final = tuple(f"nightly-{name}" for name in ("books", "fraud", "stock", "tax", "tills"))
STEADY: Final = {"triage": 0.93, "sum-report": 0.88, "match-invoice": 0.96, "draft-reply": 0.84, "tidy-files": 0.91}
DAYS: Final = 21
EVERY: Final = timedelta(minutes=72)
SLICE: Final = timedelta(hours=6)
"""Statistics are told so often; a worker tells them every few seconds."""
WORSE_FOR: Final = timedelta(hours=20)
STORM_FOR: Final = timedelta(hours=9)
PULLED_BEFORE: Final = timedelta(days=6)
"""When somebody changed the prompt of `triage`, which helped."""


class Incident:
    """The lake at `root`, up to `now`. `regressed_since`: when version 33 of `refund` came."""

    def __init__(self, root: Path, now: datetime | None = None) -> None:
        self.now = (now or datetime.now(UTC)).replace(second=0, microsecond=0)
        self.root = root
        self.regressed_since = self.now - WORSE_FOR
        self._chance = Random(33)
        self._made = Maker(root)
        self._skills: dict[tuple[str, str], SkillState] = {}
        ends = self._land()
        self._made.ledger.close()
        self._tell(ends)

    def _land(self) -> list[tuple[datetime, int]]:
        """Land slice by slice. Returns the end of each and the last offset in it."""
        begin = self.now - timedelta(days=DAYS)
        slices = int(timedelta(days=DAYS) / SLICE)
        ends = []
        for number in range(slices):
            start, end = begin + number * SLICE, begin + (number + 1) * SLICE
            self._made.land(list(self._events(start, end)))
            ends.append((end, self._made.owned.next_offset - 1))
        return ends

    def _events(self, start: datetime, end: datetime) -> Iterator[Sent]:
        names = (REGRESSED, *NIGHTLY, *STEADY)
        pulled_at = self.now - PULLED_BEFORE
        if start <= pulled_at < end:
            data = {
                "lever": "prompt", "skill": {"name": "triage"}, "change_from": "mail-4", "change_to": "mail-5",
                "applied_by": "kim",
            }  # fmt: skip
            yield event("lever.applied", None, None, data, id="lever-1", time=pulled_at.isoformat())
        at = start
        while at < end:
            for place, skill in enumerate(names):
                self._made.now = at + place * timedelta(minutes=5)
                yield from self._run(skill, at)
            at += EVERY

    def _run(self, skill: str, at: datetime) -> list[Sent]:
        run = self._made.run
        if skill in NIGHTLY:
            spent = at >= self.now - STORM_FOR
            return run(skill, NO_QUOTA if spent else self._end(0.95), steps=int(not spent))
        if skill == REGRESSED and at >= self.regressed_since:
            good = self._chance.random() < 0.2
            more: dict[str, Any] = {} if good else {"tool_error": "ArgumentError", "arguments": '{"order": 17'}
            return run(skill, DONE if good else WRONG, version="33", score=float(good), **more)
        if skill == REGRESSED:
            return run(skill, self._end(0.91), version="32")
        better = 0.0 if skill != "triage" or at >= self.now - PULLED_BEFORE else -0.25
        return run(skill, self._end(STEADY[skill] + better))

    def _end(self, chance: float) -> dict[str, Any]:
        return DONE if self._chance.random() < chance else WRONG

    def _tell(self, ends: list[tuple[datetime, int]]) -> None:
        """What `trajlake roll` would have told at the end of each slice, and on which advice."""
        made = self._made
        batches = [batch for batch in outcomes_of_lake(made.settings) if batch.topic == TOPIC]
        facts = Facts(table=LakeFacts(made.lake, made.settings).table)
        fleet, floor = Fleet("acme"), -1
        detectors: dict[str, Detectors] = {}
        stats: list[SkillStats] = []
        decisions: list[Decision] = []
        for end, last in ends:
            end_us = int(end.timestamp() * 1e6)
            changed: set[str] = set()
            for batch in batches:
                runs = [run for run in batch.runs if floor < run.offset <= last]
                levers = [pull for pull in batch.levers if floor < pull.offset <= last]
                if not runs and not levers:
                    continue
                key = (batch.tenant_id, batch.skill_name)
                state = self._skills.setdefault(key, SkillState(*key))
                state.apply(replace(batch, runs=runs, levers=levers))
                changed.add(batch.skill_name)
            for name in sorted(changed):
                told = skill_stats(
                    self._skills["acme", name], detectors.setdefault(name, Detectors()), emitted_us=end_us,
                    code_revision="1",
                )  # fmt: skip
                stats.append(told)
                fleet.skills[name] = told
            floor = last
            if self.now - end > timedelta(days=2):
                continue
            found = judge(fleet, facts, changed)
            fleet.causes = found.causes
            for subject, decision in found.decisions:
                fleet.decisions[subject] = replace(decision, made_us=end_us)
                decisions.append(fleet.decisions[subject])
        append_told(made, "skill_stats", made.settings.stats_topic, stats_batch, stats)
        append_told(made, "decisions", made.settings.decisions_topic, decision_batch, decisions)
