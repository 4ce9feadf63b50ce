"""Values come out of a file's bytes one at a time, wherever the bytes are cut, and a bad one spoils no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajlake.transforms.importers import framing
from trajlake.transforms.importers.framing import Shape, Value, parse, read_values
from trajlake.transforms.importers.origin import ImportProblem

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.sampled_from(['"', "\\", "]", "},{"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


def cut(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


def bodies(text: bytes, shape: Shape, size: int = 1 << 20) -> list[Any]:
    values = list(read_values(cut(text, size), shape, "f"))
    assert all(isinstance(value, Value) for value in values), values
    return [value.body for value in values if isinstance(value, Value)]


@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 2]))
def test_elements_of_an_array_are_found_wherever_its_bytes_are_cut(
    items: list[Any], size: int, indent: int | None
) -> None:
    assert bodies(json.dumps(items, indent=indent).encode(), "array", size) == items
    assert bodies(json.dumps(items, indent=indent, ensure_ascii=False).encode(), "array", size) == items


@given(st.lists(OBJECTS, max_size=6), st.integers(1, 40), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_lines_are_found_wherever_their_bytes_are_cut(items: list[Any], size: int, end: bytes) -> None:
    text = b"".join(json.dumps(item).encode() + end for item in items)
    assert bodies(text, "lines", size) == items
    assert bodies(b"\xef\xbb\xbf" + text.rstrip(), "lines", size) == items


@given(st.lists(OBJECTS, min_size=1, max_size=5), st.integers(0, 5), st.integers(1, 40))
def test_L10_a_bad_element_leaves_its_neighbours_alone(items: list[Any], place: int, size: int) -> None:
    texts = [json.dumps(item) for item in items]
    texts.insert(min(place, len(texts)), "nope")
    values = list(read_values(cut(f"[{','.join(texts)}]".encode(), size), "array", "f"))
    assert [value.body for value in values if isinstance(value, Value)] == items
    assert [value.place for value in values if isinstance(value, ImportProblem)] == [f"$[{min(place, len(items))}]"]


def test_an_array_that_is_cut_off_gives_its_whole_elements_and_one_problem() -> None:
    values = list(read_values([b'[{"a":1},{"a":2},{"a":"x'], "array", "f"))
    assert values[:2] == [Value("$[0]", {"a": 1}), Value("$[1]", {"a": 2})]
    assert isinstance(values[2], ImportProblem)
    assert (values[2].place, values[2].kept) == ("$[2]", False)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b'{"a": NaN}', {"a": None}),
        (b'{"a": [1, -Infinity]}', {"a": [1, None]}),
        (b'{"a": 1e400}', {"a": None}),
        (b'{"a": "x\\ud83dy"}', {"a": "x?y"}),
        (b'{"\\udc00": 1}', {"?": 1}),
    ],
)
def test_T10_what_json_has_no_form_for_is_read_as_missing_and_said(text: bytes, body: Any) -> None:
    read, repairs = parse(text)
    assert read == body
    assert len(repairs) == 1


@pytest.mark.parametrize("text", [b"{", b"nope", b'{"a":}', b"\xff\xfe{}", b'{"a": "\xe4"}', b"[1,]", b"{'a': 1}"])
def test_L10_what_is_not_json_is_refused_without_quoting_it(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|not UTF-8") as caught:
        parse(text)
    assert text.decode("latin-1") not in str(caught.value)


@pytest.mark.parametrize("depth", [framing.DEPTH_MAX + 1, 900, 10_000])
def test_L10_deep_nesting_is_a_problem_of_its_line_only(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    values = list(read_values([b'{"n":1}\n' + deep + b'\n{"n":2}\n'], "lines", "f"))
    assert [type(value).__name__ for value in values] == ["Value", "ImportProblem", "Value"]
    assert values[1].place == "line 2"


def test_a_value_too_large_for_memory_ends_the_file_with_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "VALUE_MAX_BYTES", 1000)
    chunks = [b'{"n":1}\n', b'{"x":"', *[b"a" * 500] * 4]
    values = list(read_values(chunks, "lines", "f"))
    assert values[0] == Value("line 1", {"n": 1})
    assert isinstance(values[1], ImportProblem)
    assert values[1].place == "line 2"
    assert isinstance(list(read_values([b"[" + b'"a",' * 2, b'"' + b"b" * 2000], "array", "f"))[-1], ImportProblem)
    assert isinstance(list(read_values([b"{" * 2000], "document", "f"))[-1], ImportProblem)
