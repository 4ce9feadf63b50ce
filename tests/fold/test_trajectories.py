"""Trajectory cases T1-T12: what agents, streams, crashes and graders do to a run, and what its rows then say."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.fold.story import INLINE_MAX, Landed, Log
from trajlake.expectations.events import PAYLOAD_MARKER
from trajlake.transforms.landing.rules import LandRules


def calls_of(step: dict[str, Any]) -> list[str]:
    return [call["tool_call_id"] for call in step["tool_calls"]]


def answers_of(step: dict[str, Any]) -> list[tuple[str, str]]:
    return [(answer["source_call_id"], answer["content"]) for answer in step["observations"]]


def gaps_of(row: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(gap["code"], gap["detail"]) for gap in row["gaps"] or ()]


# T1: parallel calls


def test_T1_results_in_another_order_are_paired_by_id() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a", "b", "c"])
    for call in ("c", "a", "b"):
        run.returns(call, f"result of {call}")
    run.responds("done")
    run.ends()
    first, second = log.land().steps()
    assert answers_of(first) == [(call, f"result of {call}") for call in ("a", "b", "c")]
    assert answers_of(second) == []


def test_T1_results_that_come_before_their_call_are_claimed_by_it() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.returns("a", "early")
    run.responds(calls=["a"])
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert answers_of(step) == [("a", "early")]
    assert landed.gaps() == []


def test_T1_one_id_used_in_every_turn_pairs_within_its_turn() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for turn in range(3):
        run.responds(f"turn {turn}", calls=["call_0"])
        run.returns("call_0", f"answer {turn}")
    run.ends()
    landed = log.land()
    assert [answers_of(step) for step in landed.steps()] == [[("call_0", f"answer {turn}")] for turn in range(3)]
    assert landed.gaps() == []


def test_T1_one_id_used_twice_in_a_response_answers_in_turn() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["same", "same"])
    run.returns("same", "first")
    run.returns("same", "second")
    run.ends()
    (step,) = log.land().steps()
    assert answers_of(step) == [("same", "first"), ("same", "second")]


def test_T1_an_id_used_again_while_it_waits_is_noted() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.responds(calls=["a"])
    run.returns("a", "for the newest")
    run.ends()
    landed = log.land()
    assert [answers_of(step) for step in landed.steps()] == [[], [("a", "for the newest")]]
    assert "tool_call_id_reused" in landed.gaps()


def test_T1_calls_that_the_response_does_not_list_join_the_newest_step() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for turn in range(2):
        run.responds(f"turn {turn}")
        run.calls("call_0", function_name="look", arguments={"turn": turn})
        run.returns("call_0", f"answer {turn}")
    run.ends()
    steps = log.land().steps()
    assert [step["tool_calls"][0]["arguments"] for step in steps] == ['{"turn":0}', '{"turn":1}']
    assert [answers_of(step) for step in steps] == [[("call_0", "answer 0")], [("call_0", "answer 1")]]


def test_T1_a_reused_id_of_an_unlisted_call_does_not_join_an_earlier_step_that_still_waits_for_others() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("first", calls=["call_0", "slow"])
    run.returns("call_0", "one")
    run.responds("second")
    run.calls("call_0")
    run.returns("call_0", "two")
    run.returns("slow", "at last")
    run.ends()
    first, second = log.land().steps()
    assert answers_of(first) == [("call_0", "one"), ("slow", "at last")]
    assert answers_of(second) == [("call_0", "two")]


# T2: one message written several times


def test_T2_partial_copies_become_one_step_with_the_fullest_text() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for text, tokens in (("Par", 1), ("Paris is", 2), ("Paris is a city", 5)):
        run.responds(
            text, message_id="m1", partial=True, usage={"input_tokens": 10, "output_tokens": tokens}, cost_usd=0.1
        )
    run.responds("Paris is a city.", message_id="m1", usage={"input_tokens": 10, "output_tokens": 6}, cost_usd=0.3)
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert step["message"] == "Paris is a city."
    assert step["gaps"] is None
    row = landed.one("runs")
    assert (row["step_count"], row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (1, 10, 6, 0.3)


def test_T2_content_blocks_written_one_by_one_are_united() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "look"},
    ]
    log = Log()
    run = log.run()
    run.starts()
    run.responds([blocks[0]], message_id="m1")
    run.responds([blocks[1]], message_id="m1")
    run.responds([blocks[2]], message_id="m1", calls=["a"])
    run.returns("a")
    run.responds([blocks[1]], message_id="m1", calls=["b"])
    run.returns("b")
    run.ends()
    (step,) = log.land().steps()
    assert step["message"] == (
        '[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look."},'
        '{"type":"tool_use","id":"a","name":"look"}]'
    )
    assert calls_of(step) == ["a", "b"]
    assert len(answers_of(step)) == 2


def test_T2_a_block_that_streams_on_replaces_its_beginning() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for text in ("Par", "Paris", "Paris."):
        run.responds([{"type": "text", "text": text}], message_id="m1", partial=text != "Paris.")
    run.ends()
    (step,) = log.land().steps()
    assert step["message"] == '[{"type":"text","text":"Paris."}]'


def test_T2_streamed_arguments_end_as_the_fullest() -> None:
    log = Log()
    run = log.run()
    run.starts()
    for text in ('{"q"', '{"q":"x', '{"q":"xyz"}'):
        call = {"tool_call_id": "a", "function_name": "look", "arguments": text}
        run.responds(None, message_id="m1", tool_calls=[call])
    run.ends()
    (step,) = log.land().steps()
    assert [call["arguments"] for call in step["tool_calls"]] == ['{"q":"xyz"}']


def test_T2_a_copied_message_stays_copied_when_a_copy_does_not_say_so() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("as before", message_id="m1", is_copied_context=True, usage={"output_tokens": 9})
    run.responds("as before", message_id="m1", usage={"output_tokens": 9})
    run.ends()
    row = log.land().one("runs")
    assert (row["copied_step_count"], row["output_tokens"]) == (1, None)


def test_T2_two_messages_that_stream_at_once_stay_two() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("a", message_id="m1", partial=True)
    run.responds("b", message_id="m2", partial=True)
    run.responds("a whole", message_id="m1")
    run.responds("b whole", message_id="m2")
    run.ends()
    assert [step["message"] for step in log.land().steps()] == ["a whole", "b whole"]


def test_T2_a_stream_that_stops_is_marked() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("half of", message_id="m1", partial=True)
    run.ends()
    (step,) = log.land().steps()
    assert gaps_of(step) == [("partial_response", None)]


def test_T2_a_streamed_result_is_one_observation_and_one_error() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("a", "line 1", partial=True, is_error=True)
    run.returns("a", "line 1\nline 2", partial=True, is_error=True)
    run.returns("a", None, is_error=True)
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert answers_of(step) == [("a", "line 1\nline 2")]
    assert landed.one("runs")["tool_error_count"] == 1


# T3, T4, T5


def test_T3_steps_repeated_from_a_parent_session_are_marked_and_their_tokens_not_counted_again() -> None:
    log = Log()
    run = log.run()
    run.starts(forked_from_id="session-0")
    for n in range(3):
        run.responds(f"old {n}", is_copied_context=True, usage={"input_tokens": 100, "output_tokens": 50}, cost_usd=1.0)
    run.responds("new", usage={"input_tokens": 7, "output_tokens": 3}, cost_usd=0.5)
    run.ends()
    landed = log.land()
    row = landed.one("runs")
    assert (row["forked_from_id"], row["step_count"], row["copied_step_count"]) == ("session-0", 4, 3)
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (7, 3, 0.5)
    assert [step["is_copied_context"] for step in landed.steps()] == [True, True, True, False]


def test_T4_a_compaction_is_a_boundary_between_segments() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("before")
    run.compacts("all so far", trigger="auto", tokens_before=180_000, tokens_after=9_000)
    run.responds("after")
    run.compacts("again")
    run.responds("at last")
    run.ends()
    landed = log.land()
    assert [step["context_segment"] for step in landed.steps()] == [0, 1, 2]
    first, second = landed.one("runs")["compactions"]
    assert first == {
        "sequence": 3, "trigger": "auto", "summary": "all so far", "tokens_before": 180_000, "tokens_after": 9_000,
    }  # fmt: skip
    assert (second["sequence"], second["summary"]) == (5, "again")


def test_T5_nested_sub_agents_are_runs_of_their_own_and_counted_once() -> None:
    log = Log()
    lead = log.run("lead")
    child = log.run("child", parentrunid="lead")
    grandchild = log.run("grandchild", parentrunid="child")
    lead.starts()
    lead.responds("delegate", calls=["spawn-1"], usage={"output_tokens": 1})
    child.starts(spawned_by_tool_call_id="spawn-1")
    child.responds("delegate again", calls=["spawn-2"], usage={"output_tokens": 10})
    grandchild.starts(spawned_by_tool_call_id="spawn-2")
    grandchild.responds("work", usage={"output_tokens": 100})
    grandchild.ends()
    child.returns("spawn-2", "done")
    child.ends()
    lead.returns("spawn-1", "done")
    lead.ends()
    landed = log.land()
    parents = {row["run_id"]: (row["parent_run_id"], row["spawned_by_tool_call_id"]) for row in landed.rows("runs")}
    assert parents == {"lead": (None, None), "child": ("lead", "spawn-1"), "grandchild": ("child", "spawn-2")}
    assert {row["run_id"]: row["output_tokens"] for row in landed.rows("runs")} == {
        "lead": 1,
        "child": 10,
        "grandchild": 100,
    }


# T6: no end


def test_T6_a_run_without_an_end_is_open_until_the_logs_time_says_otherwise() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    log.tick(idle_s=3600)
    assert log.land().rows("runs") == []
    log.waits(3600)
    closing = log.tick(idle_s=3600)
    landed = log.land()
    row = landed.one("runs")
    assert (row["end_state"], row["end_inferred"], row["outcome_class"]) == ("abandoned", True, "abandoned")
    assert row["offset"] == closing
    assert gaps_of(row) == [("missing_end", None)]
    (step,) = landed.steps()
    assert step["is_last"]
    assert gaps_of(step) == [("missing_tool_result", "a")]


def test_T6_a_run_that_was_given_up_goes_on_as_a_late_revision() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("one")
    log.waits(100)
    log.tick(idle_s=50)
    run.responds("two")
    run.ends(success=True, terminated=True)
    landed = log.land()
    first, second = landed.rows("runs")
    assert (first["revision"], first["end_state"], first["late"], first["step_count"]) == (0, "abandoned", False, 1)
    assert (second["revision"], second["end_state"], second["late"], second["step_count"]) == (1, "completed", True, 2)
    assert landed.gaps() == []
    assert [(step["is_last"], step["late"]) for step in landed.steps()] == [(False, False), (True, True)]
    assert [row["revision"] for row in landed.rows("steps", step_index=1)] == [0, 1], "it no longer is the last one"
    assert landed.steps()[-1]["terminated"] is True


# T7: orphans


def test_T7_an_orphan_result_is_kept_as_a_step_of_the_environment() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("look", calls=["a"])
    run.returns("nobody's", "found on the street", is_error=True)
    run.returns("a", "mine")
    run.ends()
    landed = log.land()
    agent, orphan = landed.steps()
    assert answers_of(agent) == [("a", "mine")]
    assert (orphan["source"], answers_of(orphan)) == ("environment", [("nobody's", "found on the street")])
    assert gaps_of(orphan) == [("orphan_tool_result", "nobody's")]
    assert landed.gaps() == ["orphan_tool_result"]
    assert landed.one("runs")["tool_error_count"] == 1


def test_T7_a_result_without_an_id_is_kept_and_never_attached() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("", "whose?")
    run.returns("", "and whose is this?")
    run.ends()
    landed = log.land()
    agent, *orphans = landed.steps()
    assert answers_of(agent) == []
    assert [answers_of(step)[0][1] for step in orphans] == ["whose?", "and whose is this?"]
    assert gaps_of(orphans[0]) == [("missing_tool_call_id", None)]


def test_T7_two_results_of_one_unknown_call_are_told_apart_from_a_stream() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.returns("x", "first")
    run.returns("x", "second")
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert answers_of(step) == [("x", "first")]
    assert gaps_of(landed.one("runs")) == [("duplicate_tool_result", "x"), ("orphan_tool_result", "x")]


def test_T7_a_second_result_of_an_answered_call_is_a_duplicate_even_when_its_step_is_gone() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("a", "yes")
    run.responds("next")
    run.returns("a", "yes, again")
    run.ends()
    landed = log.land()
    assert len(landed.steps()) == 2
    assert gaps_of(landed.one("runs")) == [("duplicate_tool_result", "a")]


def test_T7_a_missing_start_and_an_unknown_parent_are_kept() -> None:
    log = Log()
    run = log.run(parentrunid="never seen")
    run.responds("out of nowhere")
    run.ends()
    row = log.land().one("runs")
    assert (row["parent_run_id"], row["has_start"]) == ("never seen", False)
    assert gaps_of(row) == [("missing_start", None)]


def test_T7_a_call_without_a_response_opens_a_step_of_its_own() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.calls("a", function_name="look")
    run.returns("a", "seen")
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert (calls_of(step), answers_of(step)) == (["a"], [("a", "seen")])
    assert gaps_of(step) == [("missing_model_response", None)]


# T8: imported again


def told_twice(again: int) -> tuple[Landed, Landed]:
    """A run of seven events, and the same log with the first `again` of them published once more before the end."""

    def tell(repeats: int) -> Landed:
        log = Log()
        run = log.run()
        run.starts()
        for n in range(2):
            run.responds(f"step {n}", calls=[f"c{n}"])
            run.returns(f"c{n}")
        for record in log.records[:repeats]:
            log.append(record.value, record.key)
        run.responds("the new tail")
        run.ends()
        return log.land()

    return tell(0), tell(again)


@pytest.mark.parametrize("again", [1, 3, 5])
def test_T8_an_import_that_comes_again_and_has_grown_adds_only_its_tail(again: int) -> None:
    once, twice = told_twice(again)
    assert len(twice.steps()) == len(once.steps()) == 3
    assert len(twice.rows("events")) == len(once.rows("events"))
    repeated = twice.rows("quarantine")
    assert [row["reason_code"] for row in repeated] == ["duplicate"] * again
    assert all(row["payload"] is None for row in repeated), "the ledger has it already"
    assert twice.one("runs")["duplicate_count"] == again
    assert twice.one("runs")["event_count"] == once.one("runs")["event_count"]


def test_T8_a_run_that_was_closed_takes_its_repetition_for_what_it_is() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("once")
    run.ends()
    for record in list(log.records):
        log.append(record.value, record.key)
    landed = log.land()
    assert [row["reason_code"] for row in landed.rows("quarantine")] == ["duplicate"] * 3
    assert landed.one("runs")["revision"] == 0


def test_T8_another_event_under_a_taken_number_is_a_conflict_and_its_payload_kept() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("mine", sequence=2, id="one")
    run.responds("no, mine", sequence=2, id="two")
    run.ends()
    landed = log.land()
    row = landed.one("quarantine")
    assert (row["reason_code"], row["stage"], row["field_path"]) == ("sequence_conflict", "assemble", "sequence")
    assert "no, mine" in row["payload"]
    assert [step["message"] for step in landed.steps()] == ["mine"]


# T9, T10: rewards


def test_T9_rewards_that_come_late_and_supersede_one_another_are_history_in_order() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("answer")
    run.ends()
    log.waits(86_000)
    run.rewarded(0.25, reward_id="g1")
    run.rewarded(0.5, reward_id="g2", supersedes="g1")
    landed = log.land()
    assert [(row["reward_id"], row["score"], row["supersedes"], row["late"]) for row in landed.rows("rewards")] == [
        ("g1", 0.25, None, True),
        ("g2", 0.5, "g1", True),
    ]
    assert landed.one("runs")["reward_score"] is None, "a reward alone does not close the run anew"


def test_T9_the_same_reward_twice_is_one_reward() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.rewarded(1.0, id="grade-1")
    run.rewarded(1.0, id="grade-1")
    run.ends()
    landed = log.land()
    assert len(landed.rows("rewards")) == 1
    assert landed.one("quarantine")["reason_code"] == "duplicate"
    assert landed.one("runs")["event_count"] == 3


def test_T9_the_last_reward_before_the_close_counts() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.rewarded(0.0)
    run.rewarded(1.0)
    run.rewarded(0.0, annotator_kind="self")
    run.rewarded(0.0, step_id="2")
    run.act("feedback.given", {"score": 0.0})
    run.ends()
    landed = log.land()
    assert landed.one("runs")["reward_score"] == 1.0
    assert [row["annotator_kind"] for row in landed.rows("rewards")] == ["code", "code", "self", "code", "human"]


def test_T9_a_reward_for_a_run_nobody_knows_any_more_makes_no_run() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.ends()
    log.waits(1000)
    log.tick(forget_s=10)
    run.rewarded(1.0)
    log.waits(1000)
    log.tick(idle_s=10)
    landed = log.land()
    assert landed.one("runs")["end_state"] == "completed"
    assert landed.one("rewards")["score"] == 1.0


def test_T9_a_reward_that_comes_before_its_run_is_remembered_for_it() -> None:
    log = Log()
    run = log.run()
    run.rewarded(1.0)
    log.waits(1000)
    log.tick(idle_s=10)
    run.starts()
    run.ends()
    row = log.land().one("runs")
    assert (row["reward_score"], row["revision"], row["late"], row["event_count"]) == (1.0, 0, False, 3)


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (b"NaN", "bad_number"),
        (b"Infinity", "bad_number"),
        (b'"1"', "wrong_type"),
        (b"1e400", "bad_number"),
        (b"-1e400", "bad_number"),
    ],
)
def test_T10_a_score_that_is_no_number_is_quarantined_with_its_reason(score: bytes, reason: str) -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.rewarded(0.125)
    good = log.records.pop()
    log.next_offset -= 1
    assert good.value is not None
    log.append(good.value.replace(b"0.125", score), good.key)
    run.ends()
    landed = log.land()
    assert landed.rows("rewards") == []
    assert landed.one("quarantine")["reason_code"] == reason
    assert landed.one("runs")["reward_score"] is None


def test_T10_a_missing_score_is_null_and_takes_nothing_back() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.rewarded(0.75)
    run.rewarded(None, explanation="the grader could not say")
    run.ends()
    landed = log.land()
    assert [row["score"] for row in landed.rows("rewards")] == [0.75, None]
    assert landed.one("runs")["reward_score"] == 0.75


# T11: tokens


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ({"completion_token_ids": []}, "completion_token_ids is empty"),
        ({"completion_token_ids": [1, 2], "prompt_token_ids": []}, "prompt_token_ids is empty"),
        ({"completion_token_ids": [1, 2, 3], "logprobs": [-0.1]}, "1 logprobs for 3 completion_token_ids"),
        ({"logprobs": [-0.1]}, "no completion_token_ids"),
        ({"completion_token_ids": [1, 2], "loss_mask": [1]}, "1 marks of loss_mask for 0 + 2 token ids"),
    ],
)
def test_T11_tokens_that_do_not_fit_are_marked_unusable_with_the_reason(tokens: dict[str, Any], reason: str) -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("hi", **tokens)
    run.ends()
    (step,) = log.land().steps()
    assert ("tokens_unusable", reason) in gaps_of(step)


def test_T11_tokens_that_fit_are_kept_as_sampled() -> None:
    tokens: dict[str, Any] = {
        "prompt_token_ids": [1],
        "completion_token_ids": [5, 6],
        "logprobs": [-0.5, -1.0],
        "loss_mask": [0, 1, 1],
    }
    log = Log()
    run = log.run()
    run.starts()
    run.responds("hi", **tokens)
    run.ends()
    (step,) = log.land().steps()
    assert step["gaps"] is None
    assert {name: step[name] for name in tokens} == tokens


# T12: large content


def test_T12_a_large_observation_is_stored_by_reference_and_its_step_lands() -> None:
    image = base64.b64encode(b"\x89PNG" * 5_900_000).decode()
    assert len(image) > 30_000_000
    digest = hashlib.sha256(image.encode()).hexdigest()
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a", "b"])
    run.returns("a", image)
    run.returns("b", [{"type": "image", "source": {"data": image}}])
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    plain, nested = step["observations"]
    reference = f"{PAYLOAD_MARKER}{digest}:{len(image)}"
    assert plain["payload_ref"] == plain["content"] == reference
    assert nested["content"] == f'[{{"type":"image","source":{{"data":"{reference}"}}}}]'
    assert {(p.sha256, p.tenant_id, len(p.content), p.quarantined) for p in landed.payloads} == {
        (digest, "acme", len(image), False)
    }
    assert landed.rows("quarantine") == []
    assert all(len(row["event"]) < 1000 for row in landed.rows("events"))


def test_T12_a_large_observation_that_is_held_for_its_turn_keeps_its_reference() -> None:
    image = "A" * (INLINE_MAX + 1)
    log = Log()
    run = log.run()
    run.starts()
    run.returns("a", image, sequence=3)
    run.responds(calls=["a"], sequence=2)
    run.ends()
    (step,) = log.land().steps()
    assert (
        step["observations"][0]["payload_ref"]
        == f"{PAYLOAD_MARKER}{hashlib.sha256(image.encode()).hexdigest()}:{len(image)}"
    )


@pytest.mark.parametrize("form", ["{0}{1}:12", "{0}{2}:x", "{0}anything"])
def test_T12_a_string_that_only_resembles_a_reference_is_not_shown_as_one(form: str) -> None:
    text = form.format(PAYLOAD_MARKER, "A" * 64, "a" * 64)
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("a", text)
    run.ends()
    (step,) = log.land().steps()
    assert (step["observations"][0]["content"], step["observations"][0]["payload_ref"]) == (text, None)


def test_T12_a_producer_may_not_refer_to_stored_content() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds(calls=["a"])
    run.returns("a", f"{PAYLOAD_MARKER}{'a' * 64}:12")
    run.ends()
    landed = log.land(LandRules())
    row = landed.one("quarantine")
    assert (row["reason_code"], row["stage"]) == ("forged_reference", "gate")
    assert ("missing_sequence", "3: quarantined, forged_reference") in gaps_of(landed.one("runs"))


def test_T7_a_gap_that_the_source_declares_stands_on_the_step_and_on_the_run() -> None:
    log = Log()
    run = log.run()
    run.starts()
    run.responds("hello", gaps=[{"code": "orphan_parent", "detail": "record-9"}])
    run.ends()
    landed = log.land()
    (step,) = landed.steps()
    assert gaps_of(step) == [("orphan_parent", "record-9")]
    assert landed.gaps() == ["orphan_parent"]
