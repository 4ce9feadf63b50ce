"""A small demo from end to end on a real Kafka, and what is in the tables afterwards."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from random import Random
from typing import Any

import orjson
import polars as pl
import pytest

from tests.demo.conftest import Done, Place
from trajlake.demo.after import _behind
from trajlake.demo.site import site_folder
from trajlake.demo.skills.reports import service_password
from trajlake.reading.query import run_query
from trajlake.reading.skills import current_statistics
from trajlake.reading.tables import LakeTables, open_lake

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RUNS = 40
PASSWORD = re.compile(rb"pw(-[0-9a-f]{6}){4}")


@pytest.fixture(scope="module")
def done(shared_place: Place) -> Done:
    """One demo of 40 runs."""
    return shared_place.demo("--runs", str(RUNS), "--json")


@pytest.fixture(scope="module")
def lake(shared_place: Place, done: Done) -> LakeTables:
    """The lake of that demo, at the version that it ended with."""
    lake = open_lake(str(shared_place.root))
    lake.versions()
    return lake


def ask(lake: LakeTables, sql: str) -> list[dict[str, Any]]:
    with run_query(lake, sql) as result:
        return list(result.read_all().to_pylist())


def one(lake: LakeTables, sql: str) -> Any:
    (row,) = ask(lake, sql)
    (value,) = row.values()
    return value


def test_everything_lands_and_the_proof_holds(done: Done) -> None:
    assert done.code == 0, done.stderr
    assert done.said["ok"]
    assert done.said["verify"]["ok"]
    assert (done.said["open_runs"], done.said["not_landed"]) == (0, 0)
    assert all(part["lag"] == 0 for part in done.said["verify"]["partitions"])


def test_its_counts_are_those_of_the_tables(done: Done, lake: LakeTables) -> None:
    assert done.said["runs"] == one(lake, "SELECT count(*) FROM current_runs") == RUNS
    assert done.said["events"] == one(lake, "SELECT count(*) FROM events")
    assert done.said["steps"] == one(lake, "SELECT count(*) FROM current_steps")
    assert done.said["rewards"] == one(lake, "SELECT count(*) FROM rewards")
    counted: dict[str, dict[str, int]] = {}
    for row in ask(lake, "SELECT skill_name, outcome_class, count(*) AS runs FROM current_runs GROUP BY ALL"):
        counted.setdefault(row["skill_name"], {})[row["outcome_class"]] = row["runs"]
    assert done.said["by_skill"] == counted


@pytest.mark.parametrize(
    ("skill", "outcome_class", "failure_kind", "end_state"),
    [
        ("sum-report", "quality_failure", "wrong_answer", "completed"),
        ("tidy-files", "quality_failure", "wrong_answer", "completed"),
        ("tidy-files", "quality_failure", "step_limit", "truncated"),
        ("fix-json", "agent_action", "malformed_arguments", "failed"),
        ("fix-json", "agent_action", "unknown_tool", "failed"),
        ("sum-report", "tool_fault", "tool_error", "failed"),
        ("tidy-files", "tool_fault", "tool_error", "failed"),
        ("run-script", "tool_fault", "tool_timeout", "failed"),
        ("run-script", "unknown", "unexplained", "failed"),
        ("run-script", "timeout", "wall_clock", "timeout"),
        ("tidy-files", "policy_denied", "guardrail", "failed"),
        ("sum-report", "infra_fault", "provider_overloaded", "failed"),
        ("fix-json", "config", "model_not_found", "failed"),
        ("triage-log", "verifier_fault", "grader_error", "completed"),
        ("watch-log", "cancelled", "user_cancelled", "cancelled"),
        ("watch-log", "abandoned", "no_end", "abandoned"),
        ("watch-log", "success", None, "completed"),
    ],
)
def test_each_kind_of_end_is_there_under_its_own_class(
    lake: LakeTables, skill: str, outcome_class: str, failure_kind: str | None, end_state: str
) -> None:
    found = lake.current_runs().filter(
        pl.col("skill_name") == skill,
        pl.col("outcome_class") == outcome_class,
        pl.col("failure_kind").eq_missing(pl.lit(failure_kind)),
        pl.col("end_state") == end_state,
    )
    assert len(found.collect()) >= 1


def test_a_weekly_limit_that_runs_out_is_quota_and_hits_only_its_tenant(lake: LakeTables) -> None:
    rows = ask(
        lake,
        "SELECT tenant_id, failure_kind, http_status, provider_code FROM current_runs WHERE outcome_class = 'quota'",
    )
    assert rows
    assert {tuple(row.values()) for row in rows} == {("globex", "quota_exhausted", 429, "insufficient_quota")}
    # The week turns over, or had not run out yet.
    assert one(lake, "SELECT count(*) FROM current_runs WHERE tenant_id = 'globex' AND outcome_class = 'success'")


def test_a_graded_run_has_its_reward_and_a_failed_grader_leaves_none(lake: LakeTables) -> None:
    wrong = ask(
        lake,
        "SELECT r.success, r.reward_score, w.score, w.passed, w.annotator_kind FROM current_runs r JOIN rewards w"
        " USING (tenant_id, run_id) WHERE r.failure_kind = 'wrong_answer'",
    )
    assert {tuple(row.values()) for row in wrong} == {(False, 0.0, 0.0, False, "code")}
    ungraded = (
        "SELECT score FROM rewards JOIN current_runs USING (tenant_id, run_id) WHERE outcome_class = 'verifier_fault'"
    )
    assert [row["score"] for row in ask(lake, ungraded)] == [None]


def test_S11_an_overloaded_provider_is_asked_again_and_the_run_succeeds(lake: LakeTables) -> None:
    assert one(lake, "SELECT max(retry_count) FROM current_runs WHERE outcome_class = 'success'") == 2


def test_T1_results_that_come_in_another_order_stand_with_their_calls(lake: LakeTables) -> None:
    steps = (
        lake.current_steps().filter(pl.col("tool_calls").list.len() > 1).select("tool_calls", "observations").collect()
    )
    swapped = 0
    for calls, seen in steps.iter_rows():
        assert [call["tool_call_id"] for call in calls] == [part["source_call_id"] for part in seen]
        offsets = [part["offset"] for part in seen]
        swapped += offsets != sorted(offsets)
    assert swapped


def test_T2_a_streamed_message_is_one_step_with_its_whole_text(lake: LakeTables) -> None:
    partial = [
        event
        for text in lake.events().filter(pl.col("type") == "agent.model.responded").collect()["event"]
        if (event := orjson.loads(text))["data"].get("partial")
    ]
    assert partial
    steps = {(row["run_id"], row["step_id"]): row for row in lake.current_steps().collect().iter_rows(named=True)}
    for event in partial:
        message = steps[event["runid"], event["data"]["step_id"]]["message"]
        # Words at the edges of a piece may be withheld: they could be parts of a secret.
        assert event["data"]["message"] in message
        assert len(message) > len(event["data"]["message"])


def test_T4_a_compaction_is_recorded(lake: LakeTables) -> None:
    rows = ask(lake, "SELECT compactions[1] AS c FROM current_runs WHERE len(compactions) > 0")
    assert rows
    assert all(row["c"]["tokens_before"] > row["c"]["tokens_after"] > 0 for row in rows)
    assert one(lake, "SELECT max(context_segment) FROM current_steps") >= 1


def test_T5_sub_agents_are_runs_of_their_own_below_the_call_that_spawned_them(lake: LakeTables) -> None:
    rows = ask(
        lake,
        "SELECT p.skill_name, s.tool_calls, c.spawned_by_tool_call_id AS id FROM current_runs c"
        " JOIN current_runs p ON c.parent_run_id = p.run_id JOIN current_steps s ON s.run_id = p.run_id"
        " AND list_contains([x.tool_call_id for x in s.tool_calls], c.spawned_by_tool_call_id)",
    )
    assert len(rows) >= 2
    assert {row["skill_name"] for row in rows} == {"orchestrate"}
    assert {call["function_name"] for row in rows for call in row["tool_calls"]} == {"delegate"}


def test_T6_a_run_that_fell_silent_was_ended_by_the_logs_own_time(lake: LakeTables) -> None:
    rows = ask(lake, "SELECT end_inferred, gaps FROM current_runs WHERE outcome_class = 'abandoned'")
    assert rows
    assert all(row["end_inferred"] and row["gaps"][0]["code"] == "missing_end" for row in rows)
    assert one(lake, "SELECT count(*) FROM events WHERE type = 'trajlake.tick'") >= 1


def test_every_skill_is_counted_up_to_its_last_run(done: Done, lake: LakeTables) -> None:
    assert done.said["not_counted"] == 0
    assert _behind(lake, done.said["topic"])[0] == 0
    told = current_statistics(lake, window="30d")
    counted = {(row["tenant_id"], row["skill_name"]): row["runs"] for row in told.iter_rows(named=True)}
    runs = ask(lake, "SELECT tenant_id, skill_name, count(*) AS runs FROM current_runs GROUP BY ALL")
    assert counted == {(row["tenant_id"], row["skill_name"]): row["runs"] for row in runs}
    assert done.said["skills"] == len(counted)


def test_who_may_be_trained_on_is_published_and_nobody_else(done: Done, lake: LakeTables) -> None:
    curated = done.said["curated"]
    assert curated["published"] + curated["held"] + curated["refused"] == curated["runs"] == RUNS
    assert curated["published"] == one(lake, "SELECT count(*) FROM trajectories")
    assert {row["tenant_id"] for row in ask(lake, "SELECT DISTINCT tenant_id FROM trajectories")} == {"acme"}
    assert curated["reasons"]["purpose_not_allowed"] == one(
        lake, "SELECT count(*) FROM current_runs WHERE tenant_id = 'globex'"
    )


def test_the_guards_verdicts_stand_with_their_steps(lake: LakeTables) -> None:
    sql = "SELECT DISTINCT v.policy_id, v.verdict FROM (SELECT unnest(policy_verdicts) AS v FROM current_steps)"
    assert {tuple(row.values()) for row in ask(lake, sql)} == {("sandbox", "allow"), ("sandbox", "deny")}


def test_L10_redelivered_and_torn_records_are_in_quarantine(done: Done, lake: LakeTables) -> None:
    assert done.said["quarantine"] == {"duplicate": 3, "malformed_json": 1}
    rows = ask(lake, "SELECT DISTINCT topic, stage, reason_code FROM quarantine ORDER BY reason_code")
    assert [tuple(row.values()) for row in rows] == [
        ("agent.audit.v1", "assemble", "duplicate"),
        ("agent.audit.v1", "decode", "malformed_json"),
    ]


def test_a_denied_value_is_nowhere_in_the_lake(done: Done, shared_place: Place, lake: LakeTables) -> None:
    # The search finds such a value where there is one.
    assert PASSWORD.search(service_password(Random(1)).encode())
    assert done.said["redactions"]["data.content.password (deny.password)"] >= 3
    assert one(lake, "SELECT count(*) FROM events WHERE event LIKE '%[removed:password]%'") >= 3
    files = [path for path in shared_place.root.rglob("*") if path.is_file()]
    assert [str(path) for path in files if PASSWORD.search(path.read_bytes())] == []
    # Parquet is compressed: look at the values too.
    tables = {path.parent for path in shared_place.root.rglob("_delta_log")}
    assert len(tables) >= 5
    for path in shared_place.root.rglob("*.parquet"):
        assert not PASSWORD.search(orjson.dumps(pl.read_parquet(path).to_dicts(), default=str)), path


def test_nothing_is_left_running(done: Done, shared_place: Place) -> None:
    assert shared_place.processes() == []


def test_the_next_demo_on_the_lake_goes_on_from_it_and_imports(done: Done, shared_place: Place, tmp_path: Path) -> None:
    session = tmp_path / "0b3f7d52-8f5e-4a52-9f0e-6c2f3c3d9a10.jsonl"
    write_session(session)
    again = shared_place.demo("--runs", "4", "--import", str(session))
    assert again.code == 0, again.stderr + again.stdout
    lake = open_lake(str(shared_place.root))
    assert one(lake, "SELECT count(*) FROM current_runs WHERE origin IS NULL") == RUNS + 4
    imported = ask(
        lake, "SELECT tenant_id, skill_name, end_state, step_count FROM current_runs WHERE origin IS NOT NULL"
    )
    assert len(imported) == 1
    assert imported[0]["tenant_id"] == "default"
    assert imported[0]["step_count"] == 2
    assert one(lake, "SELECT count(DISTINCT topic) FROM events") == 1
    assert re.search(r"^all\t45\t", again.stdout, re.MULTILINE)
    assert "imported: 1 runs" in again.stdout
    assert "verify: ok" in again.stdout
    # What it says to type next works as it stands.
    commands = [line.strip() for line in again.stdout.splitlines() if line.startswith("  trajlake ")]
    names = [command.split()[1] for command in commands]
    assert names == ["attention", "dashboard", "runs", "show", "export", "tables", "verify", "query", "query", "query"]
    for command in commands:
        if command.startswith("trajlake dashboard"):
            continue
        said = shared_place.trajlake(*shlex.split(command)[1:])
        assert said.returncode in ((0, 10) if "attention" in command else (0,)), (command, said.stderr)
        assert len(said.stdout.splitlines()) > 1 or "verify" in command, command
    assert shared_place.processes() == []


def test_a_lake_whose_log_is_gone_gets_a_topic_of_another_name(done: Done, shared_place: Place) -> None:
    before = one(open_lake(str(shared_place.root)), "SELECT count(*) FROM current_runs")
    shutil.rmtree(site_folder(str(shared_place.root)))
    again = shared_place.demo("--runs", "2", "--workers", "1", "--json")
    assert again.code == 0, again.stderr
    assert "using agent.audit.v1-2" in again.stderr
    assert (again.said["topic"], again.said["runs"]) == ("agent.audit.v1-2", before + 2)
    assert again.said["verify"]["ok"]
    assert one(open_lake(str(shared_place.root)), "SELECT count(*) FROM runs WHERE topic = 'agent.audit.v1-2'") == 2


def write_session(path: Path) -> None:
    """A session of Claude Code as its own log has it: a question, a tool call with its result, an answer."""
    common = {
        "sessionId": path.stem,
        "version": "2.0.14",
        "cwd": "/srv/app",
        "userType": "external",
        "isSidechain": False,
    }
    rows: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "How many tests are there?"}},
        {
            "type": "assistant",
            "requestId": "req_1",
            "message": {
                "id": "msg_1",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "type": "message",
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 20, "output_tokens": 9},
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls tests"}}],
            },
        },
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "test_a.py\ntest_b.py"}],
            },
        },
        {
            "type": "assistant",
            "requestId": "req_2",
            "message": {
                "id": "msg_2",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "type": "message",
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 40, "output_tokens": 5},
                "content": [{"type": "text", "text": "Two files with tests."}],
            },
        },
    ]
    lines = []
    for number, row in enumerate(rows, start=1):
        row |= {
            **common,
            "uuid": f"00000000-0000-4000-8000-00000000000{number}",
            "parentUuid": f"00000000-0000-4000-8000-00000000000{number - 1}" if number > 1 else None,
            "timestamp": f"2026-01-05T10:00:0{number}.000Z",
        }
        lines.append(orjson.dumps(row))
    path.write_bytes(b"\n".join(lines) + b"\n")
