"""A worker's list of skills leaves the loop its turns, and advice waits for the tenant's tier file."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

from trajlake.expectations.outcomes import ClosedRun, OutcomeBatch, RunOutcome
from trajlake.sinks.lake import Lake
from trajlake.sinks.tierfiles import save_tier_file
from trajlake.streams.roll.advisor import Advisor
from trajlake.streams.roll.app import RollApp
from trajlake.streams.roll.lakefacts import LakeFacts
from trajlake.streams.roll.views import own_skills
from trajlake.streams.settings import load_settings
from trajlake.transforms.rolling.readings import Detectors, skill_stats
from trajlake.transforms.rolling.state import SkillState

TIERS = b'{"mail": {"tier": "cheap", "pinned": true}}'


def _batch(skill: str) -> OutcomeBatch:
    run = RunOutcome(1, "r", time.time_ns() // 1000, "success")
    return OutcomeBatch("acme", skill, "events", 0, [ClosedRun(1, run)])


def test_the_loop_turns_between_two_skills_of_the_list() -> None:
    roll = RollApp(load_settings(root="unused", events_topic="events"), 8799)
    for number in range(20):
        roll.book.apply(0, msgspec.json.encode(_batch(f"skill-{number:02}")))

    async def listed() -> tuple[int, list[str]]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                if turns == 3:
                    # A partition goes to another worker meanwhile.
                    del roll.book.skills["acme", "skill-19"]
                await asyncio.sleep(0)

        working = asyncio.ensure_future(other())
        rows = await own_skills(roll, "24h")
        working.cancel()
        return turns, [row["skill"] for row in rows]

    turns, skills = asyncio.run(listed())
    assert turns >= 19
    assert skills == [f"skill-{number:02}" for number in range(19)]


def _noted(root: Path) -> Advisor:
    advisor = Advisor(LakeFacts(Lake(str(root)), load_settings(root=str(root))))
    state = SkillState("acme", "mail")
    state.apply(_batch("mail"))
    advisor.note(0, Advisor.encode(skill_stats(state, Detectors(), emitted_us=0, code_revision="x")))
    return advisor


def test_nothing_is_decided_before_the_tier_file_of_the_tenant_is_known(tmp_path: Path) -> None:
    advisor = _noted(tmp_path)
    for tenant_text in (b"no tier file", TIERS):
        save_tier_file(advisor.facts.lake, "acme", tenant_text)
        assert advisor.decide(0, "acme", 0).messages == []
        assert not advisor.standings, "not looked at"
        assert advisor.pending == {"acme": {"mail"}}, "but not forgotten"
        advisor.facts._due = 0.0
        asyncio.run(advisor.facts.refresh(["acme"]))
    advisor.decide(0, "acme", 0)
    entry = advisor.facts.tier_entry("acme", "mail")
    assert entry is not None
    assert entry.pinned
    assert list(advisor.standings) == [("acme", "mail")]
    assert not advisor.pending


def test_a_tenant_without_a_tier_file_is_advised(tmp_path: Path) -> None:
    advisor = _noted(tmp_path)
    asyncio.run(advisor.facts.refresh(["acme"]))
    advisor.decide(0, "acme", 0)
    assert list(advisor.standings) == [("acme", "mail")]


def test_a_file_that_cannot_be_read_is_not_asked_for_at_every_turn(tmp_path: Path) -> None:
    facts = _noted(tmp_path).facts
    save_tier_file(facts.lake, "acme", b"no tier file")
    asyncio.run(facts.refresh(["acme"]))
    save_tier_file(facts.lake, "acme", TIERS)
    asyncio.run(facts.refresh(["acme"]))
    assert not facts.knows("acme")
