"""Text of others is shown as text: nothing in it moves a cursor, turns a line round or hides."""

from __future__ import annotations

import pytest

from trajlake.reading.text import clean


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\rb\x7f", "a␍b␡"),
        ("x\u202eevil\u202c", "x⟨U+202E⟩evil⟨U+202C⟩"),
        ("a\u200bb\ufeff\u2028", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+2028⟩"),
        ("tag\U000e0041", "tag⟨U+E0041⟩"),
        ("half \ud83d", "half ⟨U+D83D⟩"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        (None, ""),
    ],
)
def test_what_cannot_be_seen_is_made_visible(given: str | None, shown: str) -> None:
    assert clean(given) == shown


@pytest.mark.parametrize(
    "text", ["two\nlines\tand a tab", "표준\u3000한국어", "می\u200cخواهم", "👩\u200d💻 \u00a0", "naïve"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_a_limit_counts_characters_and_says_that_it_cut() -> None:
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcd", 4) == "abcd"
