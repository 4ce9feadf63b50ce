"""Patterns that are let in mean the same in Rust, RE2 and Python; all others are refused."""

from __future__ import annotations

import re

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gate.drawing import REGEXES, TEXTS
from trajlake.transforms.gate.regex import portable

REFUSED = [
    r"\d", r"[\w-]", r"\s+", r"\bword\b", r"(a)\1", "(?i)a", "(?=a)", "(?<!a)b", "(?>a)", "(?P=n)", "a++", "a**",
    "a{2}{3}", "a{,3}", "{", "}", "]", "[]a]", "[[]", "[a&&b]", "[a--b]", "[a~~b]", r"\<a", r"\u0041", r"\p{L}", r"\A",
    "a$", r"\Qa", "a{1001}", "(", "[a", "*a", "(?P<1>a)", r"\xFF", "\\", r"[\Z]", "a???", "(((a{1000}){1000}){1000})",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_not_the_same_everywhere_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        portable(pattern)


pieces = st.recursive(
    st.sampled_from(["a", "b", ".", "é", "\\.", "[^a]", "[a-z]", "\\n", "\\x41", "^", "\\Z", "-"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.builds(lambda a, b: f"(?:{a}|{b})", inner, inner),
        st.builds(lambda a, q: f"({a}){q}", inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "*?", "{0,}"])),
    ),
    max_leaves=8,
)  # fmt: skip


texts = st.one_of(st.sampled_from(TEXTS), st.text("ab.é\U0001f600\nA-", max_size=5))


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(pieces, st.sampled_from(REGEXES)),
    st.lists(st.one_of(st.sampled_from(TEXTS), st.text("ab.é😀\nA ", max_size=5))),
)
def test_what_is_let_in_finds_the_same_texts_in_three_engines(pattern: str, found: list[str]) -> None:
    rust = pl.Series(found, dtype=pl.String).str.contains(portable(pattern)).to_list()
    re2 = pc.match_substring_regex(pa.array(found, pa.string()), pattern.replace("\\Z", "\\z")).to_pylist()
    assert rust == re2
    python = [re.search(pattern, text) is not None for text in found]
    assert rust == python
