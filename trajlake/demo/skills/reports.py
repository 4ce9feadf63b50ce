"""sum-report: answer a question about a database of orders."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from random import Random

from trajlake.demo.skills.base import GaveUp, Grade, Policy, Skill, Task, ask, same, say

_REGIONS = ("north", "south", "east", "west")


def service_password(rng: Random) -> str:
    """A password as services have them, made when it is needed: none stands in any file of this project."""
    return "-".join(["pw", *(f"{rng.getrandbits(24):06x}" for _ in range(4))])


class SumReport(Skill):
    """Slips: `no-filter` (counts refunded orders too), `bad-column` (guesses a column, reads the error, corrects
    itself), `locked` (somebody else holds the database; gives up).
    """

    name = "sum-report"
    tools = ("read_settings", "run_sql")
    slips = ("no-filter", "bad-column", "locked")

    def lay_out(self, task: Task, rng: Random, slip: str | None) -> None:
        region = rng.choice(_REGIONS)
        rows = [
            (rng.choice(_REGIONS), rng.randint(100, 90_000), rng.choice(("paid", "paid", "refunded")))
            for _ in range(rng.randint(60, 200))
        ]
        rows += [(region, 4_200, "paid"), (region, 1_300, "refunded")]
        with closing(sqlite3.connect(task.folder / "orders.db")) as connection:
            connection.execute(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT, amount_cents INTEGER, status TEXT)"
            )
            connection.executemany("INSERT INTO orders (region, amount_cents, status) VALUES (?, ?, ?)", rows)
            connection.commit()
        settings = {"database": "orders.db", "user": "report", "password": service_password(rng)}
        (task.folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        task.prompt = (
            f"How much did the region {region} take in paid orders, in cents? The database is named in settings.json. "
            "Answer with the number alone."
        )
        task.keep(total=sum(cents for place, cents, status in rows if (place, status) == (region, "paid")))
        if slip == "locked":
            other = sqlite3.connect(task.folder / "orders.db", check_same_thread=False, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
            task.close.append(other.close)

    def policy(self, prompt: str, rng: Random, slip: str | None) -> Policy:
        (settings,) = yield say("Where is the database?", ask("read_settings", path="settings.json"))
        database = settings.content["database"]
        region = (re.search(r"region (\w+)", prompt) or [""])[1]
        where = f"WHERE region = '{region}'" + ("" if slip == "no-filter" else " AND status = 'paid'")
        column = "amount_cents"
        if slip == "bad-column":
            sql = f"SELECT sum(total_cents) FROM orders {where}"
            (guess,) = yield say("I know such tables.", ask("run_sql", database=database, sql=sql))
            if not guess.is_error:
                column = "total_cents"
        (schema,) = yield say(
            "Its tables first.", ask("run_sql", database=database, sql="SELECT sql FROM sqlite_master")
        )
        if schema.is_error:
            raise GaveUp("the database does not open")
        (total,) = yield say(
            "Now the sum.",
            ask("run_sql", database=database, sql=f"SELECT sum({column}) FROM orders {where}"),
            thought=f"The table is {schema.content[0][0][:60]}.",
        )
        return str(total.content[0][0])

    def grade(self, task: Task, answer: str) -> Grade:
        return same(answer, str(task.facts()["total"]), "the total")
