"""The scan of one run: nothing falls between two windows, bounds are kept, and what was not looked at is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.streams.deepscan.presidio import Detector, Found
from trajlake.streams.deepscan.scanner import MOST_FINDINGS, OVERLAP_CHARS, WINDOW_CHARS, Scanner
from trajlake.transforms.curate.evidence import Text, readable

WORD = "canary-7f3a"


def finding(word: str = WORD) -> Callable[[str], list[Found]]:
    """A detector that finds a word."""
    return lambda text: [Found("WORD", m.start(), m.end(), 0.9) for m in re.finditer(word, text)]


def scanner(find: Callable[[str], list[Found]] | None = None, *, max_chars: int = 10**7, max_s: float = 60,
            clock: Callable[[], float] = lambda: 0.0) -> Scanner:  # fmt: skip
    return Scanner(Detector(find or finding(), "r1"), max_chars, max_s, clock)


@given(
    st.lists(st.integers(0, 3 * WINDOW_CHARS), min_size=1, max_size=4),
    st.lists(st.integers(0, 60), max_size=40),
)
def test_a_word_is_found_once_wherever_it_stands(places: list[int], short: list[int]) -> None:
    texts = [Text(f"steps[{n}].message", "x " * (at // 2) + WORD + " y" * (at % 500)) for n, at in enumerate(places)]
    texts += [Text(f"rewards[{n}].label", "z" * size) for n, size in enumerate(short)]
    scan = scanner().scan(texts)
    assert [(found.path, found.entity_type, found.count) for found in scan.findings] == [
        (text.path, "WORD", 1) for text in texts[: len(places)]
    ]
    assert scan.failure is None


@pytest.mark.parametrize("shift", range(-len(WORD), len(WORD) + 1))
def test_a_word_on_the_edge_of_a_window_is_found_once(shift: int) -> None:
    for edge in (WINDOW_CHARS, WINDOW_CHARS - OVERLAP_CHARS, 2 * (WINDOW_CHARS - OVERLAP_CHARS)):
        text = "x" * (edge + shift) + WORD + "x" * 5000
        assert [found.count for found in scanner().scan([Text("input", text)]).findings] == [1]


def test_no_window_is_larger_than_it_may_be() -> None:
    sizes: list[int] = []

    def find(text: str) -> list[Found]:
        sizes.append(len(text))
        return []

    scanner(find).scan([Text("a", "x" * 50_000), *(Text("b", "y" * n) for n in range(900))])
    assert max(sizes) <= WINDOW_CHARS + 2


def test_what_goes_wrong_is_named_by_type_and_quotes_nothing() -> None:
    def find(text: str) -> list[Found]:
        raise ValueError(f"did not find word {text}")

    scan = scanner(find).scan([Text("input", WORD)])
    assert scan.failure == "error: ValueError"
    assert WORD not in repr(scan)


def test_a_run_that_is_too_long_or_takes_too_long_is_not_known_to_be_clean() -> None:
    assert (
        scanner(max_chars=1000).scan([Text("a", "x" * 600), Text("b", "x" * 600)]).failure == "size: 1,000 characters"
    )
    ticks = iter(range(100))
    slow = scanner(max_s=3, clock=lambda: float(next(ticks)))
    assert slow.scan([Text("a", "x" * 20 * WINDOW_CHARS)]).failure == "time: 3 s"


def test_texts_that_cannot_be_read_fail_the_scan() -> None:
    def texts() -> Iterator[Text]:
        yield Text("input", readable('{"a":"\\n","b":' + "[" * 100_000 + "]" * 100_000 + "}"))

    assert scanner().scan(texts()).failure == "error: RecursionError"


def test_evidence_is_bounded() -> None:
    scan = scanner().scan([Text(f"steps[{n}].message", WORD + " " * 600) for n in range(5000)])
    assert len(scan.findings) <= MOST_FINDINGS
    assert MOST_FINDINGS <= sum(found.count for found in scan.findings) <= MOST_FINDINGS + WINDOW_CHARS // len(WORD)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("plain \\u0061 text", "plain \\u0061 text"),
        ('{"to":"jane\\u0040example.org"}', "to: jane@example.org"),
        ('{"body":"{\\"to\\":\\"\\\\uae40\\"}"}', "body: to: 김"),
        ('{"a":"first\\n","a":"second"}', "a: first\n\na: second"),
        ('{"k\\u0040x":{"n":[1,true,null]}}', "k@x\nn\n1\nTrue\nNone"),
        ('{"broken\\":', '{"broken\\":'),
    ],
)
def test_json_with_escapes_is_read_as_what_it_says(text: str, reads: str) -> None:
    assert readable(text) == reads
