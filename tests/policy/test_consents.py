"""G14, the lookup: what a subject has said about a purpose, as of a time."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.transforms.policy.consents import ConsentRecord, Consents


def said(
    state: Literal["granted", "withdrawn", "expired"], made_us: int, offset: int = 0, **more: Any
) -> ConsentRecord:
    given = {"purpose": "train", "effective_us": made_us, "topic": "t", **more}
    return ConsentRecord(tenant_id="acme", subject_id="s1", state=state, made_us=made_us, offset=offset, **given)


def status(records: list[ConsentRecord], at_us: int, purpose: str = "train") -> str:
    return Consents(records).find("acme", "s1", purpose, at_us).status


def test_g14_consent_absent() -> None:
    assert status([], 10) == "absent"
    assert Consents([said("granted", 1)]).find("acme", "s2", "train", 10).status == "absent"
    assert Consents([said("granted", 1)]).find("globex", "s1", "train", 10).status == "absent"


def test_g14_consent_is_absent_before_it_was_given() -> None:
    assert status([said("granted", 10)], 9) == "absent"
    assert status([said("granted", 10)], 10) == "granted"


def test_g14_consent_expires_at_its_time() -> None:
    records = [said("granted", 1, expires_us=20)]
    assert [status(records, at) for at in (19, 20, 21)] == ["granted", "expired", "expired"]
    assert status([said("granted", 1), said("expired", 5, 1)], 6) == "expired"


def test_g14_consent_for_another_purpose() -> None:
    assert status([said("granted", 1, purpose="evaluate")], 5) == "other_purpose"


def test_g14_consent_withdrawn_later() -> None:
    records = [said("granted", 1), said("withdrawn", 10, 1)]
    assert [status(records, at) for at in (5, 10, 99)] == ["granted", "withdrawn", "withdrawn"]
    assert status([*records, said("granted", 20, 2)], 25) == "granted"


def test_a_withdrawal_counts_from_when_it_takes_effect() -> None:
    records = [said("granted", 1), said("withdrawn", 10, 1, effective_us=50)]
    assert [status(records, at) for at in (10, 49, 50)] == ["granted", "granted", "withdrawn"]
    back = [said("granted", 10), said("withdrawn", 20, 1, effective_us=5)]
    assert status(back, 15) == "withdrawn"


def test_of_one_time_the_later_offset_counts() -> None:
    assert status([said("granted", 5, 1), said("withdrawn", 5, 2)], 5) == "withdrawn"
    assert status([said("withdrawn", 5, 1), said("granted", 5, 2)], 5) == "granted"


def test_of_one_time_in_two_partitions_the_one_that_does_not_grant_counts() -> None:
    records = [said("withdrawn", 5, 1), said("granted", 5, 99, partition=1)]
    assert status(records, 5) == status(records[::-1], 5) == "withdrawn"


def test_the_statement_that_decided_is_named() -> None:
    withdrawn = said("withdrawn", 10, 7)
    assert Consents([said("granted", 1), withdrawn]).find("acme", "s1", "train", 11).record is withdrawn


def test_how_long_a_grant_holds() -> None:
    def until(records: list[ConsentRecord], at_us: int = 5) -> int | None:
        return Consents(records).holds_until("acme", "s1", "train", at_us)

    assert until([said("granted", 1)]) is None
    assert until([said("granted", 1, expires_us=20)]) == 20
    assert until([said("granted", 1, expires_us=20), said("granted", 2, 1)]) is None
    assert until([said("granted", 1, expires_us=20), said("withdrawn", 4, 1, effective_us=9)]) == 9


records = st.builds(
    said,
    state=st.sampled_from(["granted", "withdrawn", "expired"]),
    made_us=st.integers(0, 20),
    offset=st.integers(0, 50),
    partition=st.integers(0, 2),
    purpose=st.sampled_from(["train", "evaluate"]),
    effective_us=st.integers(0, 20),
    expires_us=st.none() | st.integers(0, 30),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=8, unique_by=lambda record: (record.partition, record.offset)), st.data())
def test_the_order_in_which_statements_are_read_means_nothing(found: list[ConsentRecord], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(found))
    for at in range(0, 32, 4):
        assert Consents(found).find("acme", "s1", "train", at) == Consents(shuffled).find("acme", "s1", "train", at)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=8), st.integers(0, 30))
def test_after_a_withdrawal_made_last_nothing_is_granted(found: list[ConsentRecord], at_us: int) -> None:
    last = said("withdrawn", 21, 51, effective_us=at_us)
    assert status([*found, last], at_us) == "withdrawn"


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=6), st.integers(0, 20))
def test_a_grant_holds_until_the_time_that_is_told(found: list[ConsentRecord], at_us: int) -> None:
    consents = Consents(found)
    if status(found, at_us) != "granted":
        return
    until = consents.holds_until("acme", "s1", "train", at_us)
    for later in range(at_us, 40):
        granted = status(found, later) == "granted"
        if until is None or later < until:
            assert granted
        elif later == until:
            assert not granted
