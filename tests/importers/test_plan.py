"""Sequence numbers follow what is published, and what is known is not published twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trajlake.expectations.events import RunStarted
from trajlake.transforms.importers.origin import ID_MAX, ImportedEvent, Origin, Scribe, bounded
from trajlake.transforms.importers.plan import plan

ORIGIN = Origin("atif", "f.json", "acme")


def events(run: str, keys: list[str]) -> list[ImportedEvent]:
    scribe = Scribe(ORIGIN, run)
    written = [scribe.write(key, RunStarted(), place="$") for key in keys]
    return [event for event in written if isinstance(event, ImportedEvent)]


def numbers(planned: list[ImportedEvent]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for imported in planned:
        event = imported.event
        found.setdefault(event.runid, {})[event.id] = event.sequence
    return found


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.integers(0, 12))
def test_T8_a_grown_run_continues_after_the_highest_known_number(keys: list[str], seen: int) -> None:
    first = numbers(list(plan(events("r", [*keys[:seen], "end-1"]), {})))
    second = numbers(list(plan(events("r", [*keys, "end-2"]), first))).get("r", {})
    merged = {**first["r"], **second}
    assert not set(first["r"]) & set(second)
    assert sorted(merged.values()) == list(range(1, len(set(keys)) + 3))
    assert {f"r:{key}" for key in keys} <= set(merged)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12))
def test_T8_the_same_events_again_are_all_known(keys: list[str]) -> None:
    published = numbers(list(plan(events("r", keys), {})))
    assert list(plan(events("r", keys), published)) == []


def test_runs_are_numbered_apart_from_each_other() -> None:
    both = [*events("a", ["1", "2"]), *events("b", ["1"]), *events("a", ["2", "3"])]
    assert numbers(list(plan(both, {"b": {"b:0": 7}}))) == {"a": {"a:1": 1, "a:2": 2, "a:3": 3}, "b": {"b:1": 8}}


def test_long_ids_stay_unique_within_their_limit() -> None:
    long = "x" * 1000
    assert len(bounded(long + "a")) == ID_MAX
    assert bounded(long + "a") != bounded(long + "b")
    assert bounded("short") == "short"
