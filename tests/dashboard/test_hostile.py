"""Hostile text in every field that takes text: it is text, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tests.dashboard.browser import WITH_CHROMIUM, Serve, Watch
from tests.dashboard.conftest import HOSTILE, NOW, decision, stats_row, write
from tests.looking.conftest import Rows, append
from trajlake.expectations.tables import TABLES
from trajlake.sinks.lake import Lake

pytestmark = WITH_CHROMIUM

CODES = frozenset(
    "topic window_name outcome_class state state_code lever target_kind failure_kind reason_code stage verdict cause "
    "event_type type action zone purpose scope code old_rule flag payload_encoding".split()
)
"""Columns whose words are ours."""
TENANT = HOSTILE.replace("/", "")
"""A tenant's name holds no slash."""


def with_hostile_text(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with hostile text in every column and every field of it that takes text and whose words are not ours."""
    made = dict(row)
    for field in TABLES[table].schema:
        if field.name in CODES or field.name.endswith("sha256"):
            continue
        if field.name == "tenant_id":
            made[field.name] = TENANT
        else:
            made[field.name] = hostile_value(field.type, made.get(field.name))
    return made


def hostile_value(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return HOSTILE
    if pa.types.is_list(kind):
        item = kind.value_type
        values = value or [{} if pa.types.is_struct(item) else None]
        return [hostile_value(item, each) for each in values]
    if pa.types.is_struct(kind):
        known = value or {}
        return {
            field.name: known.get(field.name) or "odd"
            if field.name in CODES
            else hostile_value(field.type, known.get(field.name))
            for field in kind
        }
    return value


def test_hostile_text_in_every_field_is_text_and_nothing_else(tmp_path: Path, serve: Serve, watched: Watch) -> None:
    made = Rows()
    made.whole_run(0, HOSTILE, steps=2)
    made.refuse(0)
    for name in ("runs", "steps", "rewards", "quarantine"):
        made.tables[name] = [with_hostile_text(name, row) for row in made[name]]
    for row in made["runs"]:
        row.update(output="z" * 1_000_000, outcome_class="quality_failure")
    cause = {"outcome_class": "quota", "failure_kind": "quota_exhausted", "count": 80}
    stats = with_hostile_text("skill_stats", stats_row(1, HOSTILE, {"success": 5, "quota": 80}, causes=[cause]))
    advice = with_hostile_text("decisions", decision(1, HOSTILE, "tool")) | {"inputs": "{}"}
    write(tmp_path, [stats], [advice], made)
    for table in ("curation", "publications", "policy_decisions", "consents", "erasures"):
        lake = Lake(str(tmp_path))
        base: dict[str, Any] = {
            field.name: NOW if pa.types.is_timestamp(field.type) else 1 if pa.types.is_integer(field.type) else None
            for field in TABLES[table].schema
        } | dict.fromkeys(CODES & set(TABLES[table].schema.names), "x")
        row = with_hostile_text(table, base | {"verdict": "published", "fragment": False})
        append(lake, table, [{name: row.get(name) for name in TABLES[table].schema.names}], {})
    tenant, name = quote(TENANT, safe=""), quote(HOSTILE, safe="")
    pages = (
        "", "skills", f"skills/{tenant}/{name}", "runs", f"runs/{tenant}/{name}", f"runs/{tenant}/{name}/steps/1",
        "levers", "causes", "pipeline", "governance",
    )  # fmt: skip
    served = serve(tmp_path)
    for options in ({"viewport": {"width": 390, "height": 800}}, {"viewport": {"width": 1280, "height": 800}}):
        tab = watched(**options)
        for path in pages:
            answer = tab.page.goto(served.url + path, wait_until="load")
            assert answer.status == 200, path
            assert tab.page.title() != "owned"
            assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            body = tab.page.content()
            assert "<img src=x" not in body, path
            assert "\x1b" not in body, path
            assert "\u202e" not in tab.page.inner_text("body"), path
        tab.assert_quiet(served.url)
