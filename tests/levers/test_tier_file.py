"""A team's own tier file: taken in and given back with everything that we do not know."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajlake.expectations.decisions import TierEntry
from trajlake.sinks.lake import Lake
from trajlake.sinks.tierfiles import load_tier_file, save_tier_file
from trajlake.transforms.levers.tierfile import TierFileError, read_tier_file, write_tier_file

TEAM = b"""{
  "version": 3,
  "skills": {
    "triage":  {"tier": "cheap", "pinned": false, "consecutive_failures": 1, "reason": null,
                "date": "2026-11-02", "budget": 1.10},
    "billing": {"model": "upper", "pin": true, "why": "audit",
                "owner": {"team": "x", "big": 123456789012345678901234567890}},
    "odd":     {"tier": "cheap", "ratio": 1E+2}
  },
  "checksum": 1e400
}"""


def exact(text: bytes) -> Any:
    """JSON with every number as it is written."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def test_what_the_file_says_is_read_under_any_of_its_names() -> None:
    entries = read_tier_file(TEAM).entries
    assert entries["triage"] == TierEntry(tier="cheap", pinned=False, consecutive_failures=1, date="2026-11-02")
    assert entries["billing"] == TierEntry(tier="upper", pinned=True, reason="audit")


def test_a_file_that_nothing_changed_is_given_back_byte_for_byte() -> None:
    file = read_tier_file(TEAM)
    assert write_tier_file(file, {}) == TEAM
    assert write_tier_file(file, {"billing": file.entries["billing"], "unknown": TierEntry(tier="x")}) == TEAM


def test_a_changed_tier_leaves_all_else_as_it_was() -> None:
    file = read_tier_file(TEAM)
    changed = TierEntry(tier="upper", pinned=False, consecutive_failures=0, reason="advice 12ab", date="2026-12-01")
    after = write_tier_file(file, {"triage": changed})
    wanted = exact(TEAM)
    wanted["skills"]["triage"].update(tier="upper", consecutive_failures=0, reason="advice 12ab", date="2026-12-01")
    assert exact(after) == wanted
    assert b"1.10" in after
    assert b"1E+2" in after
    assert b"1e400" in after
    assert list(exact(after)["skills"]) == list(exact(TEAM)["skills"])
    assert read_tier_file(after).entries["triage"] == changed


def test_fields_keep_the_names_that_the_file_uses() -> None:
    after = exact(write_tier_file(read_tier_file(TEAM), {"billing": TierEntry(tier="cheap", pinned=False, reason="r")}))
    assert {"model", "pin", "why"} <= after["skills"]["billing"].keys()
    assert not {"tier", "pinned", "reason"} & after["skills"]["billing"].keys()


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": {"tier": "cheap", "x": 1}, "note": "ours"}',
        b'{"a": "cheap", "b": "upper"}',
        b'[{"skill": "a", "tier": "cheap", "x": [1.0]}, {"skill": "b", "tier": "upper"}]',
        b'{"skills": [{"name": "a", "tier": "cheap"}], "x": {}}',
    ],
)
def test_every_shape_goes_there_and_back(text: bytes) -> None:
    file = read_tier_file(text)
    assert file.entries["a"].tier == "cheap"
    after = write_tier_file(file, {"a": TierEntry(tier="middle")})
    assert exact(after) == exact(text.replace(b"cheap", b"middle"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"3", "neither an object nor a list"),
        (b'{"a": {"tier": "x", "tier": "y"}}', "key tier stands twice"),
        (b'[{"skill": "a", "tier": "x"}, {"skill": "a", "tier": "y"}]', "skill a stands twice"),
        (b'[{"tier": "x"}]', "names no skill"),
        (b'{"a": {"tier": 3}}', "skill a: tier is a int, not a str"),
        (b'{"a": {"tier": "x", "pinned": "yes"}}', "skill a: pinned is a str, not a bool"),
        (b'{"a": {"tier": "x", "consecutive_failures": true}}', "consecutive_failures is a bool"),
        (b'{"a": {"tier": "x", "c": NaN}}', "NaN is not JSON"),
        (b"{}", "no skill with a tier"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"mail": {"tier": "cheap", "n": ' + b"1" * 5_000 + b"}}", "a number is too long"),
    ],
)
def test_what_is_no_tier_file_is_refused_with_its_place(text: bytes, told: str) -> None:
    with pytest.raises(TierFileError, match=told):
        read_tier_file(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EXTRA = st.dictionaries(
    st.text(max_size=6).filter(lambda key: not key.isascii() or key.startswith("x")), JSON, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(EXTRA, EXTRA, st.text(max_size=8))
def test_unknown_fields_survive_any_change(of_entry: dict[str, Any], of_root: dict[str, Any], tier: str) -> None:
    document = {**of_root, "skills": {"a": {"tier": "cheap", **of_entry}, "b": {"tier": "upper", **of_entry}}}
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    after = exact(write_tier_file(read_tier_file(text), {"a": TierEntry(tier=tier)}))
    wanted = exact(text)
    wanted["skills"]["a"]["tier"] = tier
    assert after == wanted


def test_a_tenants_file_is_kept_in_the_lake_as_it_came(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert load_tier_file(lake, "acme") is None
    save_tier_file(lake, "acme", TEAM)
    save_tier_file(lake, "Größe/..", b"{}")
    assert load_tier_file(lake, "acme") == TEAM
    assert load_tier_file(lake, "Größe/..") == b"{}"


SHAPES = [
    b'{"updated": "2026-11-02", "policy": {"mail": {"tier": "cheap", "x": 1e400}}}',
    b'{"version": 2, "entries": [{"skill": "mail", "tier": "cheap", "x": 1e400}]}',
    b'[{"name": "mail", "current_tier": "cheap", "is_pinned": false, "n": 123456789012345678901234567890}]',
    b'{"mail": {"model_tier": "cheap", "date": 1764547200, "failures": ["two"], "model": {"id": 7}}}',
]


@pytest.mark.parametrize("text", SHAPES)
def test_other_shapes_and_fields_of_other_types_are_read_and_kept(text: bytes) -> None:
    file = read_tier_file(text)
    assert file.entries["mail"] == TierEntry(tier="cheap")
    after = write_tier_file(file, {"mail": TierEntry(tier="upper")})
    assert exact(after) == exact(text.replace(b'"cheap"', b'"upper"'))
    dated = write_tier_file(file, {"mail": TierEntry(tier="upper", date="2026-12-01")})
    assert (b"1764547200" in dated) is (b"1764547200" in text)


@pytest.mark.parametrize("text", [b'{"mail": {"tier": "cheap", "pinned": "yes"}}', b'{"mail": {"tier": 2}}'])
def test_a_pin_or_a_tier_of_another_type_is_refused_since_advice_hangs_on_it(text: bytes) -> None:
    with pytest.raises(TierFileError, match="skill mail"):
        read_tier_file(text)
