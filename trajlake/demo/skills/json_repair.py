"""fix-json: repair a JSON file that somebody wrote by hand."""

from __future__ import annotations

import json
import re
from random import Random

from trajlake.demo.skills.base import Ask, GaveUp, Grade, Policy, Skill, Task, ask, same, say


class FixJson(Skill):
    """Slips: `cut` (loses the last record), `half-call` (its arguments stop in the middle of the JSON), `no-such-tool`
    (calls a tool that it was not offered).
    """

    name = "fix-json"
    tools = ("read_file", "write_file", "parse_json")
    slips = ("cut", "half-call", "no-such-tool")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        records = [
            {"id": number, "name": rng.choice(("Ada", "Grace", "Edsger", "Barbara")), "points": rng.randint(0, 99)}
            for number in range(1, rng.randint(4, 12))
        ]
        text = json.dumps(records, indent=1)
        comma_too_many, wrong_quotes = re.sub(r"\n \}", ",\n }", text), text.replace('"', "'")
        text = rng.choice((comma_too_many, wrong_quotes))
        (task.folder / "records.json").write_text(text.removesuffix("]"), encoding="utf-8")
        task.prompt = "records.json does not parse. Write it again, repaired, as fixed.json, with every record in it."
        task.keep(records=records)

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        (broken,) = yield say("What is wrong with it?", ask("parse_json", path="records.json"))
        (text,) = yield say("Let me look.", ask("read_file", path="records.json"), thought=str(broken.content)[:200])
        fixed = text.content.replace("'", '"').rstrip() + "]"
        fixed = re.sub(r",(\s*[}\]])", r"\1", fixed)
        if slip == "cut":
            fixed = fixed[: fixed.rindex("{")].rstrip().rstrip(",") + "]"
        writing = ask("write_file", path="fixed.json", text=fixed)
        if slip == "half-call":
            writing = Ask(writing.tool, writing.arguments[: len(writing.arguments) // 2])
        elif slip == "no-such-tool":
            writing = ask("repair_json", path="records.json", to="fixed.json")
        (written,) = yield say("Quotes, commas and the bracket at the end.", writing)
        if written.is_error:
            raise GaveUp("the repaired file could not be written")
        (parsed,) = yield say("Does it parse?", ask("parse_json", path="fixed.json"))
        if parsed.is_error:
            raise GaveUp("it still does not parse")
        return f"fixed.json holds {parsed.content['length']} records."

    def grade(self, task: Task, answer: str) -> Grade:
        found = json.loads((task.folder / "fixed.json").read_text(encoding="utf-8"))
        return same(found, task.facts()["records"], "fixed.json")
