"""The governance page, and what a run's page says of its verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.dashboard.conftest import NOW, write
from tests.dashboard.test_pages import client
from tests.looking.conftest import Rows, append
from trajlake.dashboard.governance import LEDGERS
from trajlake.expectations.tables import TABLES


def test_verdicts_are_counted_by_reason_and_outcome(tmp_path: Path) -> None:
    made = Rows()
    for number in range(4):
        made.whole_run(0, f"r{number}")
    lake = write(tmp_path, [], rows=made)
    verdicts = [verdict(1, "r0", "published"), verdict(1, "r1", "refused", "licence_missing", "subject_unknown")]
    append(lake, "curation", [*verdicts, verdict(1, "r2", "held"), verdict(2, "r2", "published")], {})
    with client(tmp_path) as reader:
        table = reader.get("/governance").text.split("id=verdicts")[1].split("</table>")[0]
        rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
        found = {(words(row[0]), words(row[1])): int(row[4]) for row in rows}
        assert found == {
            ("published", "—"): 2, ("refused", "licence missing"): 1, ("refused", "subject unknown"): 1,
        }  # fmt: skip
        assert "published in publication 2" in words(reader.get("/runs/acme/r2").text)
        assert "licence missing by rule-of-licence_missing" in words(reader.get("/runs/acme/r1").text)
        assert "Not judged for training yet" in reader.get("/runs/acme/r3").text


def test_ledgers_name_columns_that_their_tables_have() -> None:
    for name, ledger in LEDGERS.items():
        assert {ledger.time, *ledger.columns} <= set(TABLES[name].names), name


def verdict(publication: int, run_id: str, what: str, *codes: str) -> dict[str, Any]:
    """A row of `curation`."""
    reasons = [{"code": code, "rule": f"rule-of-{code}"} for code in codes]
    return {
        "publication": publication, "topic": "agent.audit.v1", "partition": 0, "offset": 1, "first_offset": 0,
        "tenant_id": "acme", "run_id": run_id, "run_revision": 0, "fragment": False, "reward_offset": -1,
        "verdict_id": f"{publication}{run_id}", "verdict": what, "reasons": reasons, "cause": "new",
        "classifier_revision": "f", "runs_version": 0, "steps_version": 0, "rewards_version": 0,
        "consents_version": 0, "decided_by": "curate", "decided_at": NOW, "outcome_class": "success", "step_count": 1,
        "policy_revision": "p", "suite_revision": "s", "code_revision": "c",
    }  # fmt: skip


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", html).split())
