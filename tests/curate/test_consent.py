"""Consent that is given, withdrawn or runs out: what was published follows, provably."""

from __future__ import annotations

import pytest

from tests.curate.lab import DAY_US, START_US, Lab, policies, renumbered, story, tick
from tests.curate.test_governance import MARK, NEVER, assert_left_out, marked, train
from tests.landkit.events import Sent, event
from trajlake.expectations.reasons import PolicyReason
from trajlake.expectations.suites.suite import read_suite
from trajlake.streams.curate.rules import Rules

PERSON = "person-1"


def consent(number: int, state: str, *, purpose: str = "train", person: str = PERSON, **data: object) -> Sent:
    """A statement of a person. Its time is that of the log's first record, a second later for each number."""
    facts = {"subject_id": person, "purpose": purpose, "state": state, **data}
    made = f"2023-11-14T22:13:{20 + number:02d}Z"
    sent = event("consent.changed", None, None, facts, id=f"consent-{number}", time=made)
    return sent._replace(key=b"acme")


def at(us: int) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


def about(run: str = "run-a") -> list[Sent]:
    return story(run, start={"subject_id": PERSON})


def test_G14_withdrawn_consent_takes_what_was_published_out_again(lab: Lab) -> None:
    lab.land([consent(0, "granted", consent_revision="c1"), *about(), *story("other")])
    lab.curate()
    assert lab.current()["run-a"]["consent_basis"] == "c1"
    before = lab.lake.open("trajectories").version()
    lab.land([consent(1, "withdrawn")])
    [done] = lab.curate()
    assert (done.cause, done.withdrawn, done.reasons) == ("consent", 1, {"consent_withdrawn": 1})
    rows = {row["run_id"]: row for row in lab.rows("trajectories")}
    assert (rows["run-a"]["withdrawn"], rows["run-a"]["reasons"]) == (True, ["consent_withdrawn"])
    assert (rows["run-a"]["steps"], rows["run-a"]["input"]) == (None, None)
    assert set(lab.current()) == {"other"}
    old = lab.lake.open("trajectories", before).to_pyarrow_table()
    assert "run-a" in old.column("run_id").to_pylist()
    assert lab.curate() == []


def test_consent_given_later_lets_a_refused_run_in(lab: Lab) -> None:
    lab.land(about())
    lab.curate()
    lab.land([consent(0, "granted")])
    [done] = lab.curate()
    assert (done.cause, done.published) == ("consent", 1)
    assert lab.verdicts("run-a") == [("refused", ["consent_absent"]), ("published", [])]


def test_consent_that_runs_out_takes_the_run_out_when_its_time_comes(lab: Lab) -> None:
    ends = START_US + 3 * DAY_US
    lab.land([consent(0, "granted", expires_at=at(ends)), *about()])
    lab.curate()
    assert set(lab.current()) == {"run-a"}
    curator = lab.curator()
    assert list(curator.run_once()) == []
    lab.now_us = ends
    [done] = list(curator.run_once())
    assert (done.cause, done.reasons) == ("consent", {"consent_expired": 1})
    assert lab.current() == {}


def earlier(sent: Sent) -> Sent:
    """A statement made some months before the log began: a time behind the broker's would not be believed."""
    return sent._replace(value=(sent.value or b"").replace(b"2023-11-14T", b"2023-01-01T"))


LONG_AGO = "2023-01-01T00:00:00"
_PERSON = f"p-{MARK}"
CONSENT_CASES: dict[PolicyReason, tuple[list[Sent], tuple[str, str] | None]] = {
    PolicyReason.CONSENT_OTHER_PURPOSE: ([consent(0, "granted", purpose="evaluate", person=_PERSON)], None),
    PolicyReason.CONSENT_WITHDRAWN: ([consent(0, "withdrawn", person=_PERSON)], None),
    PolicyReason.CONSENT_EXPIRED: ([consent(0, "expired", person=_PERSON)], None),
    PolicyReason.CONSENT_AFTER_RUN: ([consent(0, "granted", person=_PERSON)], (LONG_AGO, LONG_AGO)),
    PolicyReason.CONSENT_LAPSED: (
        [
            earlier(consent(0, "granted", person=_PERSON, expires_at="2023-01-01T22:13:22Z")),
            earlier(consent(4, "granted", person=_PERSON)),
        ],
        ("2023-01-01T22:13:21", "2023-01-01T22:13:23"),
    ),
}
"""By reason, what the subject says; and, where consent has to come before the run, when that started and ended."""


@pytest.mark.parametrize("reason", CONSENT_CASES, ids=str)
def test_G14_without_consent_no_byte_gets_in(lab: Lab, reason: PolicyReason) -> None:
    statements, times = CONSENT_CASES[reason]
    run = marked(subject_id=_PERSON)
    if times is not None:
        lab.rules = type(lab.rules)(policies(train(consent_given="before_run")), lab.rules.suite)
        start, end = (time.encode() for time in times)
        run = [
            one._replace(value=(one.value or b"").replace(b"2026-03-01T10:00:00", end if place else start))
            for place, one in enumerate(run)
        ]
    lab.land([*statements, *run, *story("other")])
    lab.curate()
    assert lab.verdicts(f"run-{MARK}") == [("refused", [reason.value])]
    assert_left_out(lab)


@pytest.mark.parametrize("settled", [False, True], ids=["held", "rejected"])
def test_consent_that_runs_out_takes_out_what_is_published_while_a_later_state_is_not(lab: Lab, settled: bool) -> None:
    ends = START_US + 3 * DAY_US
    run = story("run-a", steps=1, start={"subject_id": PERSON})
    lab.land([consent(0, "granted", expires_at=at(ends)), run[0], run[1], *(renumbered(one, -1) for one in run[3:])])
    lab.curate()
    lab.rules = Rules(lab.rules.policies, read_suite(NEVER, "publication"))
    lab.land([renumbered(run[2], 2), tick(idle_us=0)])
    assert [(done.cause, done.held) for done in lab.curate()] == [("new", 1)]
    if settled:
        list(lab.curator().reject(2, "kim"))
    assert set(lab.current()) == {"run-a"}
    curator = lab.curator()
    assert list(curator.run_once()) == []
    lab.now_us = ends
    [done] = list(curator.run_once())
    assert (done.cause, done.withdrawn, lab.current()) == ("consent", 1, {})
    assert "consent_expired" in done.reasons
