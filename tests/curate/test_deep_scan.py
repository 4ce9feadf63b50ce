"""The deep scan before publication: what it finds, or cannot look at, is not published; evidence never is the value."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.curate.lab import OPEN, Lab, policies, reward, story
from tests.curate.test_governance import MARK, assert_nothing_of_it
from tests.landkit.events import Sent
from trajlake.streams.curate.curator import Limits
from trajlake.streams.curate.rules import Rules
from trajlake.streams.deepscan.presidio import Detector, Found
from trajlake.streams.deepscan.scanner import Scanner

RUN = f"run-{MARK}"
FOUND = ["deep_scan"]


def asking(action: str, **fields: str) -> str:
    """The open policy with a deep scan before training."""
    more = f"        fields: {{{', '.join(f'{name}: {what}' for name, what in fields.items())}}}\n" if fields else ""
    return f"{OPEN.rstrip()}\n        deep_scan: {action}\n{more}"


class Looking:
    """A detector that finds the mark in texts, by a pattern as Presidio's do, and notes what it was shown."""

    def __init__(self, pattern: str = r"text canary-\w+") -> None:
        self.pattern = pattern
        self.shown: list[str] = []

    def find(self, text: str) -> list[Found]:
        self.shown.append(text)
        return [Found("CANARY", m.start(), m.end(), 0.9) for m in re.finditer(self.pattern, text)]

    def scanner(self, revision: str = "d1", max_chars: int = 10**6) -> Scanner:
        return Scanner(Detector(self.find, revision), max_chars, 60)


def rules(lab: Lab, action: str, scanner: Scanner | None, **fields: str) -> Rules:
    return Rules(policies(asking(action, **fields)), lab.rules.suite, scanner=scanner)


def marked(text: str = f"text {MARK}") -> list[Sent]:
    return story(RUN, text=text)


def test_a_run_in_which_something_is_found_is_held_with_evidence_and_may_be_released(lab: Lab) -> None:
    look = Looking()
    lab.rules = rules(lab, "hold", look.scanner())
    lab.land([*marked(), *story("other")])
    [done] = lab.curate()
    assert (done.published, done.held, done.reasons) == (1, 1, {"deep_scan": 1})
    [row] = [row for row in lab.rows("curation") if row["run_id"] == RUN]
    assert row["detector_revision"] == "d1"
    assert row["reasons"] == [{"code": "deep_scan", "rule": "open:train.deep_scan", "detail": "CANARY × 6"}]
    assert row["scan_findings"] == [
        {"path": path, "entity_type": "CANARY", "score": 0.9, "count": 1}
        for path in (
            "input", "output", "steps[0].message", "steps[0].observations[0].content", "steps[1].message",
            "steps[1].observations[0].content",
        )
    ]  # fmt: skip
    assert_nothing_of_it(lab)
    assert f"text {MARK}" not in repr(lab.rows("curation"))
    assert lab.current()["other"]["detector_revision"] == "d1"
    assert [row["detector_revision"] for row in lab.rows("publications")] == ["d1"]
    assert lab.curate() == []

    [released] = list(lab.curator().release(done.publication, "kim"))
    assert (released.published, set(lab.current())) == (1, {RUN, "other"})
    looked = len(look.shown)
    lab.rules = Rules(policies(asking("hold") + "    retention: {events: 9d}\n"), lab.rules.suite,
                      scanner=lab.rules.scanner)  # fmt: skip
    assert lab.curate() == [], "what was released, or passed, is not looked at again by the same detector"
    assert len(look.shown) == looked


def test_a_run_may_be_refused_and_is_not_released(lab: Lab) -> None:
    lab.rules = rules(lab, "refuse", Looking().scanner())
    lab.land([*marked(), *story("other")])
    [done] = lab.curate()
    assert (done.published, done.refused, lab.verdicts(RUN)) == (1, 1, [("refused", FOUND)])
    with pytest.raises(LookupError, match="holds no run"):
        list(lab.curator().release(done.publication, "kim"))
    assert_nothing_of_it(lab)


def test_it_is_off_unless_a_policy_asks(lab: Lab) -> None:
    look = Looking()
    lab.rules = Rules(policies(), lab.rules.suite, scanner=look.scanner())
    lab.land(marked())
    lab.curate()
    assert (look.shown, lab.current()[RUN]["detector_revision"]) == ([], None)


def test_fields_that_are_masked_or_dropped_are_not_looked_at(lab: Lab) -> None:
    drop = {"steps.message": "drop", "steps.observations": "mask", "runs.input": "mask", "runs.output": "drop"}
    look = Looking()
    lab.rules = rules(lab, "refuse", look.scanner(), **drop)
    lab.land(marked())
    lab.curate()
    assert set(lab.current()) == {RUN}
    del drop["runs.output"]
    lab.rules = rules(lab, "refuse", look.scanner(), **drop)
    lab.curate()
    assert lab.verdicts(RUN)[-1] == ("withdrawn", FOUND)


def _boom(text: str) -> list[Found]:
    raise ValueError(f"did not find word {text}")


@pytest.mark.parametrize(
    ("scanner", "detail"),
    [
        (Scanner(Detector(_boom, "d1"), 10**6, 60), "error: ValueError"),
        (Looking().scanner(max_chars=20), "size: 20 characters"),
        (Scanner(Detector(lambda text: [], "d1"), 10**6, -1), "time: -1 s"),
        (None, "error: no scanner"),
    ],
    ids=["error", "size", "time", "absent"],
)
@pytest.mark.parametrize(("action", "verdict"), [("hold", "held"), ("refuse", "refused")])
def test_what_could_not_be_looked_at_is_not_published(
    lab: Lab, scanner: Scanner | None, detail: str, action: str, verdict: str
) -> None:
    lab.rules = rules(lab, action, scanner)
    lab.land(marked())
    lab.curate()
    [row] = lab.rows("curation")
    assert (row["verdict"], row["reasons"]) == (
        verdict, [{"code": "scan_failed", "rule": "open:train.deep_scan", "detail": detail}],
    )  # fmt: skip
    assert_nothing_of_it(lab)


@pytest.mark.parametrize("action", ["hold", "refuse"])
def test_what_is_published_leaves_the_zone_when_a_scan_finds_something_later(lab: Lab, action: str) -> None:
    lab.land([*marked(), *story("other")])
    lab.curate()
    assert set(lab.current()) == {RUN, "other"}
    lab.rules = rules(lab, action, Looking().scanner())
    lab.curate()
    assert lab.verdicts(RUN)[-1] == ("withdrawn", FOUND)
    assert lab.current()["other"]["detector_revision"] == "d1"
    assert MARK not in lab.trainer_rows().replace(RUN, "")
    assert lab.curate() == []


def test_another_detector_looks_at_everything_again(lab: Lab) -> None:
    lab.rules = rules(lab, "hold", Looking("nothing").scanner("d1"))
    lab.land(marked())
    lab.curate()
    assert set(lab.current()) == {RUN}
    lab.rules = rules(lab, "hold", Looking().scanner("d2"))
    lab.curate()
    assert (lab.current(), lab.verdicts(RUN)[-1]) == ({}, ("withdrawn", FOUND))


def test_of_a_late_reward_only_the_reward_is_looked_at(lab: Lab) -> None:
    look = Looking()
    lab.rules = rules(lab, "hold", look.scanner())
    lab.land(story("run-a"))
    lab.curate()
    look.shown.clear()
    lab.land([reward("run-a", "late", 0.5, explanation="a good one")])
    lab.curate()
    assert lab.current()["run-a"]["reward"] == 0.5
    assert "a good one" in "".join(look.shown)
    assert "hello" not in "".join(look.shown)

    lab.land([reward("run-a", "later", 0.1, explanation=f"text {MARK}")])
    lab.curate()
    assert lab.verdicts("run-a")[-1] == ("held", FOUND)
    [row] = [row for row in lab.rows("curation") if row["verdict"] == "held"]
    assert [found["path"] for found in row["scan_findings"]] == ["rewards[2].explanation"]
    assert lab.current()["run-a"]["reward"] == 0.5, "what passed before stays"
    assert_nothing_of_it(lab)


def test_a_rule_that_releases_what_nobody_looked_at_does_not_release_what_a_scan_holds(lab: Lab) -> None:
    lab.rules = rules(lab, "hold", Looking().scanner())
    lab.limits = Limits(held_then="release", held_after_s=60)
    lab.land(marked())
    lab.curate()
    lab.now_us += 120_000_000
    assert lab.curate() == []
    assert lab.verdicts(RUN) == [("held", FOUND)]


def _with_mark_in(run: list[Sent], old: bytes, new: bytes) -> list[Sent]:
    assert any(old in (one.value or b"") for one in run)
    return [one._replace(value=(one.value or b"").replace(old, new)) for one in run]


@pytest.mark.parametrize(
    "change",
    [
        lambda run: _with_mark_in(run, b'"output":"hello"', b'"output":"text canary-x"'),
        lambda run: _with_mark_in(run, b'"function_name":"look"', b'"function_name":"text canary-x"'),
        lambda run: _with_mark_in(run, b'{\\"at\\":1}', b'{\\"to\\":\\"te\\\\u0078t canary-x\\"}'),
        lambda run: _with_mark_in(run, b'"annotator_kind"', b'"explanation":"text canary-x","annotator_kind"'),
        lambda run: _with_mark_in(run, b'"name":"refund"', b'"name":"text canary-x"'),
        lambda run: _with_mark_in(run, b'"input":"hello"', b'"input":"hello","task_id":"text canary-x"'),
        lambda run: _with_mark_in(run, b'"content":', b'"error_message":"text canary-x","is_error":true,"content":'),
    ],
    ids=["output", "tool", "escaped", "explanation", "skill", "task", "error"],
)
def test_every_text_that_would_be_published_is_looked_at(lab: Lab, change: Callable[[list[Sent]], list[Sent]]) -> None:
    lab.rules = rules(lab, "refuse", Looking().scanner())
    lab.land(change(story("run-a")))
    lab.curate()
    assert lab.verdicts("run-a") == [("refused", FOUND)]


def test_by_presidio_a_mail_address_keeps_a_run_out(lab: Lab) -> None:
    pytest.importorskip("presidio_analyzer")
    from trajlake.streams.deepscan.presidio import make_detector

    lab.rules = rules(lab, "refuse", Scanner(make_detector(0.7), 10**6, 60))
    lab.land([*story("run-a", text="ask jane.roe@example.org"), *story("run-b")])
    lab.curate()
    assert set(lab.current()) == {"run-b"}
    [row] = [row for row in lab.rows("curation") if row["run_id"] == "run-a"]
    assert {found["entity_type"] for found in row["scan_findings"]} == {"EMAIL_ADDRESS"}
    assert "jane" not in repr(lab.rows("curation"))


def test_without_the_extra_the_command_stops_at_its_start_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from trajlake.cli import main
    from trajlake.streams.deepscan import scanner

    (tmp_path / "p.yaml").write_text(asking("hold"))
    monkeypatch.setattr(scanner, "presidio_is_here", lambda: False)
    arguments: list[Any] = [
        "curate",
        "--once",
        "--root",
        str(tmp_path / "lake"),
        "--policies",
        str(tmp_path / "p.yaml"),
    ]
    monkeypatch.setattr("sys.argv", ["trajlake", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code not in (0, None)
    told = capfd.readouterr().err.strip().splitlines()
    assert told == [
        "trajlake: setting policies (TRAJLAKE_POLICIES): policy open asks for deep_scan, which needs Presidio: "
        "pip install 'trajlake[presidio]'"
    ]


def test_show_tells_where_something_was_found_and_not_what(lab: Lab) -> None:
    from trajlake.cli.show import _lines
    from trajlake.reading.runview import run_in_full
    from trajlake.reading.tables import open_lake

    lab.rules = rules(lab, "hold", Looking(r"said canary-\w+").scanner())
    lab.land(story("run-a", end={"output": f"said {MARK}"}))
    lab.curate()
    shown = "\n".join(_lines(run_in_full(open_lake(lab.lake.uri), "run-a", None), 0))
    assert "deep_scan by open:train.deep_scan: CANARY × 1" in shown
    assert "CANARY × 1 in output (score 0.9)" in shown


def test_a_release_lets_out_what_was_looked_at_and_no_reward_that_came_since(lab: Lab) -> None:
    lab.rules = rules(lab, "hold", Looking().scanner())
    lab.land(marked())
    [held] = lab.curate()
    lab.land([reward(RUN, "late", 0.5, explanation="text canary-late")])
    assert lab.curate() == []
    [again] = list(lab.curator().release(held.publication, "kim"))
    assert (again.published, again.held) == (0, 1)
    row = max(lab.rows("curation"), key=lambda row: row["publication"])
    assert [found["path"] for found in row["scan_findings"]] == ["rewards[1].explanation"]
    assert_nothing_of_it(lab)
    [released] = list(lab.curator().release(again.publication, "kim"))
    assert (released.published, lab.current()[RUN]["reward"]) == (1, 0.5)
