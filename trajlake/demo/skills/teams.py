"""orchestrate: hand two parts of a job to agents of their own, and put their answers together."""

from __future__ import annotations

import json
from random import Random

from trajlake.demo.skills.base import GaveUp, Grade, Policy, Skill, Task, ask, say

PARTS = 2


class Orchestrate(Skill):
    """The parts are runs of their own, spawned by the call that hands them over. It succeeds when both do."""

    name = "orchestrate"
    tools = ("delegate", "write_file")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        task.prompt = (
            f"The job has {PARTS} parts. Have each done by an agent of its own; collect their answers in report.json."
        )
        task.keep(parts=PARTS)

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        answers = yield say("Two can work at once.", *(ask("delegate", part=part) for part in range(PARTS)))
        if any(answer.is_error for answer in answers):
            raise GaveUp("a part was not done")
        report = [answer.content for answer in answers]
        yield say("Together.", ask("write_file", path="report.json", text=json.dumps(report)))
        return f"{len(report)} parts done."

    def grade(self, task: Task, answer: str) -> Grade:
        report = json.loads((task.folder / "report.json").read_text(encoding="utf-8"))
        bad = [part["skill"] for part in report if not part["passed"]]
        return Grade(not bad, f"not done right: {', '.join(bad)}" if bad else "every part is done right")
