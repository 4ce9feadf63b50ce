"""S1-S4, S11: what a run's events say it came to, through the whole fold."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from tests.fold.story import Landed, Log, Run
from trajlake.expectations.taxonomy import SCORABLE


def outcome(landed: Landed, run: str = "r1") -> tuple[str, str | None]:
    row = landed.last_run(run)
    return row["outcome_class"], row["failure_kind"]


def test_S1_a_rate_limit_behind_a_claimed_success_is_quota() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(
        "Error: 429 Too Many Requests",
        http_status=429,
        usage={"input_tokens": 9, "output_tokens": 0},
        finish_reason="stop",
    )
    run.ends(success=True)
    landed = log.land()
    assert outcome(landed)[0] == "quota"
    assert landed.one("runs")["attributed_step_id"] == landed.steps()[0]["step_id"]


def test_S1_the_error_text_alone_says_quota_when_no_token_was_written() -> None:
    text = '{"error":{"type":"rate_limit_error","message":"Number of requests has exceeded your rate limit"}}'
    log = Log()
    run = log.run()
    run.starts()
    run.responds(text, usage={"input_tokens": 9, "output_tokens": 0})
    run.ends(success=True, output=text)
    assert outcome(log.land())[0] == "quota"


def test_S2_a_number_in_the_task_is_no_rate_limit() -> None:
    log = Log()
    run = log.run()
    run.starts(input="Explain HTTP 429 Too Many Requests and insufficient_quota")
    run.responds("429 means that you ask too often.", usage={"input_tokens": 9, "output_tokens": 12})
    run.ends(success=True, output="429 means that you ask too often.")
    landed = log.land()
    assert outcome(landed) == ("success", None)
    assert landed.steps()[0]["outcome_class"] == "success"


def _policy(run: Run) -> None:
    run.responds(calls=["a"])
    run.decides("deny", tool_call_id="a")
    run.ends("failed")


def _tool(run: Run) -> None:
    run.responds(calls=["a"])
    run.returns("a", "oops", is_error=True, http_status=500)
    run.ends("failed")


def _schema(run: Run) -> None:
    run.responds(tool_calls=[{"tool_call_id": "a", "function_name": "look", "arguments": "{not json"}])
    run.returns("a", "arguments do not match the schema", is_error=True, http_status=422)
    run.ends("failed")


def _wrong(run: Run) -> None:
    run.responds("41")
    run.rewarded(0.0, passed=False)
    run.ends("completed")


@pytest.mark.parametrize(
    ("act", "expected"),
    [(_policy, "policy_denied"), (_tool, "tool_fault"), (_schema, "agent_action"), (_wrong, "quality_failure")],
)
def test_S3_denial_tool_error_schema_error_and_wrong_answer_are_four_classes(act: Any, expected: str) -> None:
    log = Log()
    run = log.run()
    run.starts(tools=[{"name": "look"}])
    act(run)
    assert outcome(log.land())[0] == expected


def test_S3_a_tool_that_the_agent_was_not_offered_is_its_own_act() -> None:
    log = Log()
    run = log.run()
    run.starts(tools=[{"name": "read"}])
    run.responds(calls=["a"])
    run.returns("a", "no such tool", is_error=True)
    run.ends("failed")
    landed = log.land()
    assert landed.steps()[0]["failure_kind"] == "unknown_tool"


def streak(outcomes: list[str]) -> int:
    """Failures in a row at the end, of the outcomes that speak of quality."""
    scored = [name for name in outcomes if name in {str(known) for known in SCORABLE}]
    return len(list(takewhile(lambda name: name != "success", reversed(scored))))


@pytest.mark.parametrize(("days", "expected"), [(["fail", "skipped", "fail"], 2), (["fail", "ok", "fail"], 1)])
def test_S4_a_skipped_run_does_not_break_a_streak_and_a_good_one_does(days: list[str], expected: int) -> None:
    log = Log()
    for day, what in enumerate(days):
        run = log.run(f"day-{day}")
        run.starts()
        run.responds("x")
        if what != "skipped":
            run.rewarded(1.0 if what == "ok" else 0.0)
        run.ends("cancelled" if what == "skipped" else "completed")
    landed = log.land()
    assert streak([row["outcome_class"] for row in landed.rows("runs")]) == expected


def test_S11_three_retries_then_success_is_one_success_with_all_attempts_and_their_cost() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for _ in range(3):
        run.responds(None, http_status=529, error_type="overloaded_error", cost_usd=0.25, usage={"input_tokens": 10})
    run.responds("done", cost_usd=0.25, usage={"input_tokens": 10, "output_tokens": 5})
    run.ends(success=True)
    landed = log.land()
    row = landed.one("runs")
    assert outcome(landed) == ("success", None)
    assert (row["cost_usd"], row["input_tokens"], row["step_count"]) == (1.0, 40, 4)


def test_S11_retries_that_the_client_made_itself_are_summed() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("a", retry_count=2, calls=["c"])
    run.returns("c", retry_count=1)
    run.responds("b", retry_count=0)
    run.ends(success=True)
    landed = log.land()
    assert landed.one("runs")["retry_count"] == 3
    assert [step["retry_count"] for step in landed.steps()] == [3, 0]
    assert outcome(landed)[0] == "success"


def test_a_failed_call_is_made_good_by_the_same_tool_only() -> None:
    def tell(second: str) -> Landed:
        log = Log()
        run = log.run()
        run.starts()
        run.responds(tool_calls=[{"tool_call_id": "a", "function_name": "look", "arguments": "{}"}])
        run.returns("a", is_error=True, http_status=500)
        run.responds(tool_calls=[{"tool_call_id": "b", "function_name": second, "arguments": "{}"}])
        run.returns("b")
        run.responds("giving up")
        run.ends("failed")
        return log.land()

    assert outcome(tell("listen"))[0] == "tool_fault"
    assert tell("listen").last_run()["failing_tool"] == "look"
    assert tell("look").last_run()["failing_tool"] is None
    assert outcome(tell("look"))[0] != "tool_fault"


def test_a_failure_that_comes_to_light_after_the_run_went_on_is_not_its_last_word() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("slow", calls=["a"])
    run.responds("went on")
    run.ends(success=True)
    run.returns("a", is_error=True, http_status=500)
    log.waits(100)
    log.tick(idle_s=50)
    landed = log.land()
    assert landed.steps()[0]["outcome_class"] == "tool_fault"
    assert outcome(landed) == ("success", None)


def test_a_failed_step_of_copied_history_is_not_the_runs_failure() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(None, http_status=500, is_copied_context=True)
    run.ends(success=True)
    assert outcome(log.land()) == ("success", None)
