"""run-script: write a small program, run it, and answer with what it printed."""

from __future__ import annotations

import re
from random import Random

from trajlake.demo.skills.base import GaveUp, Grade, Policy, Skill, Task, ask, same, say

_PRIMES = "found = [n for n in range(2, {limit}) if all(n % d for d in range(2, int(n ** 0.5) + 1))]\nprint({result})\n"
ENDLESS_S = 0.3
"""What the agent grants a script that never ends."""


class RunScript(Skill):
    """Slips: `off-by-one` (a wrong program that runs), `typo` (the first program dies with exit code 1, the second
    works), `stuck` (it dies again and again; gives up), `endless` (the program never ends and is killed), `slow` (the
    program ends long after the time allowed for the run).
    """

    name = "run-script"
    tools = ("write_file", "run_python")
    slips = ("off-by-one", "typo", "stuck", "endless", "slow")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        limit = rng.randint(50, 4_000)
        task.prompt = f"How many primes are there below {limit}? Find out with a Python script; answer with the number."
        sieve = [True] * limit
        for step in range(2, int(limit**0.5) + 1):
            sieve[step * step :: step] = [False] * len(range(step * step, limit, step))
        task.keep(count=sum(sieve[2:]))

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        limit = (re.search(r"below (\d+)", prompt) or ["", "0"])[1]
        right = _PRIMES.format(limit=limit, result="len(found) + 1" if slip == "off-by-one" else "len(found)")
        first = {
            "typo": right.replace("found =", "fond ="),
            "stuck": "import numpie\n" + right,
            "endless": "while True: pass\n",
            "slow": "import time; time.sleep(0.6)\n" + right,
        }.get(slip or "", right)
        timeout_s = ENDLESS_S if slip == "endless" else 10.0
        yield say("A short script does it.", ask("write_file", path="primes.py", text=first))
        (ran,) = yield say("Run it.", ask("run_python", path="primes.py", timeout_s=timeout_s))
        if ran.is_error and slip == "typo":
            again = ask("write_file", path="primes.py", text=right)
            yield say("A typo; I write it again.", again, thought=str(ran.content)[-200:])
            (ran,) = yield say("Once more.", ask("run_python", path="primes.py"))
        elif ran.is_error and slip == "stuck":
            (ran,) = yield say("Perhaps it works now.", ask("run_python", path="primes.py"))
        if ran.is_error:
            raise GaveUp("the script does not run")
        return str(ran.content["stdout"].strip())

    def grade(self, task: Task, answer: str) -> Grade:
        return same(answer, str(task.facts()["count"]), "the count")
