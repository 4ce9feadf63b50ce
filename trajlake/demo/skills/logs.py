"""triage-log: count errors in a log and its compressed predecessor."""

from __future__ import annotations

import gzip
import re
from random import Random

from trajlake.demo.skills.base import GaveUp, Grade, Policy, Skill, Task, ask, same, say
from trajlake.demo.tools import READ_CHARS

_PARTS = ("payments", "search", "mail", "login")
_LEVELS = ("INFO",) * 8 + ("WARN", "ERROR")


class TriageLog(Skill):
    """Slips: `one-log` (forgets the compressed log), `no-key` (the grader's own file is gone: grading fails)."""

    name = "triage-log"
    tools = ("list_files", "read_file", "search_lines")
    slips = ("one-log", "no-key")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        part = rng.choice(_PARTS)
        old, new = _lines(rng, 3_000), [*_lines(rng, 150), f"09:00:00 ERROR {part}: no answer"]
        old.append(f"08:00:00 ERROR {part}: no answer")
        (task.folder / "app.log.1.gz").write_bytes(gzip.compress("\n".join(old).encode(), 1))
        (task.folder / "app.log").write_text("\n".join(new), encoding="utf-8")
        task.prompt = f"How many errors did {part} log, in app.log and app.log.1.gz together? Answer with the number."
        task.keep(errors=sum(f"ERROR {part}:" in line for line in old + new))
        if slip == "no-key":
            task.key.unlink()

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        part = (re.search(r"did (\w+) log", prompt) or [""])[1]
        yield say("Which logs are there?", ask("list_files"))
        start = 0
        while True:
            (page,) = yield say("How does a line look?", ask("read_file", path="app.log", start=start))
            start += len(page.content)
            if page.is_error or len(page.content) < READ_CHARS:
                break
        logs = ["app.log"] if slip == "one-log" else ["app.log.1.gz", "app.log"]
        pattern = rf"\bERROR {part}:"
        counts = yield say(
            "Both at once." if len(logs) > 1 else "Count them.",
            *(ask("search_lines", pattern=pattern, path=log) for log in logs),
        )
        if any(count.is_error for count in counts):
            raise GaveUp("a log cannot be read")
        return str(sum(count.content["lines"] for count in counts))

    def grade(self, task: Task, answer: str) -> Grade:
        return same(answer, str(task.facts()["errors"]), "the number of errors")


def _lines(rng: Random, count: int) -> list[str]:
    return [
        f"{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02} {rng.choice(_LEVELS)} {rng.choice(_PARTS)}: request {n}"
        for n in range(count)
    ]
