"""A file's format is told by what is in it, whatever its name, and a file of no known format is refused in words."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from trajlake.transforms.importers.detect import FORMATS, UnknownFormat, by_name, detect, names

ATIF = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": []}
TRIAL = {"task_id": 1, "reward": 0.0, "info": {}, "traj": [], "trial": 0}
RECORD = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}


def name_of(text: bytes) -> str:
    return detect([text])[0].name


@pytest.mark.parametrize(
    ("text", "name", "shape"),
    [
        (json.dumps(ATIF).encode(), "atif", "document"),
        (json.dumps(ATIF, indent=2).encode(), "atif", "document"),
        (b"\xef\xbb\xbf\n" + json.dumps(ATIF).encode(), "atif", "document"),
        (json.dumps([ATIF, ATIF]).encode(), "atif", "array"),
        (json.dumps(ATIF).encode() + b"\n" + json.dumps(ATIF).encode(), "atif", "lines"),
        (json.dumps([TRIAL]).encode(), "tau-bench", "array"),
        (json.dumps([TRIAL, TRIAL], indent=4).encode(), "tau-bench", "array"),
        (json.dumps(RECORD).encode(), "claude-code", "document"),
        ((json.dumps(RECORD) + "\n").encode() * 3, "claude-code", "lines"),
        (b"not-json\n" + json.dumps(RECORD).encode(), "claude-code", "lines"),
        (b'{not-json\n{"type":"summary","summary":"x"}\n' + json.dumps(RECORD).encode(), "claude-code", "lines"),
        (b'{"type":"summary","summary":"x","leafUuid":"l"}\n', "claude-code", "document"),
    ],
)
def test_format_and_shape_are_told_by_content(text: bytes, name: str, shape: str) -> None:
    found, sample = detect([text])
    assert (found.name, sample.shape) == (name, shape)
    again, sample = detect(text[at : at + 7] for at in range(0, len(text), 7))
    assert (again.name, sample.shape) == (name, shape)


def test_a_long_first_line_and_a_long_pretty_document_are_told_too() -> None:
    long = {**RECORD, "message": {"role": "user", "content": "x" * 300_000}}
    line = (json.dumps(long) + "\n").encode() * 3
    assert name_of(line) == "claude-code"
    big = {"agent": {"name": "a", "version": "1"}, "steps": [{"n": "x" * 300_000}], "schema_version": "ATIF-v1.0"}
    found, sample = detect([(chunk := json.dumps(big, indent=1).encode())[:100_000], chunk[100_000:]])
    assert (found.name, sample.shape) == ("atif", "document")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (b"", "an empty file"),
        (b" \n\n", "an empty file"),
        (b"# notes\n", "text that is not JSON"),
        (b"PK\x03\x04rest", "a zip archive"),
        (gzip.compress(b"x", mtime=0), "gzip data"),
        (b"\0\1\2", "binary data"),
        (b'{"trajectory": [], "history": []}', "a JSON document with keys trajectory, history"),
        (b'[{"role": "user", "content": "x"}]', "a JSON array of objects with keys role, content"),
        (b'{"kind": 1}\n{"kind": 2}\n', "JSON Lines of objects with keys kind"),
        (b"[1, 2]", "a JSON array of numbers"),
        (b"[]", "a JSON array"),
    ],
)
def test_a_refusal_says_what_was_seen_and_what_there_is(text: bytes, seen: str) -> None:
    with pytest.raises(UnknownFormat) as caught:
        detect([text])
    assert f"looks like {seen};" in str(caught.value)
    assert all(name in str(caught.value) for name in names())


def test_a_refusal_never_quotes_values() -> None:
    with pytest.raises(UnknownFormat) as caught:
        detect([b'{"some_key": "some value"}'])
    assert "some value" not in str(caught.value)


def test_formats_are_found_by_name() -> None:
    assert [by_name(name) for name in names()] == list(FORMATS)
    with pytest.raises(UnknownFormat, match=r"nope.*tau-bench, atif, claude-code"):
        by_name("nope")


def test_every_public_file_is_told_apart(runs_folder: Path) -> None:
    expected = {"atif/": "atif", "claude_code/": "claude-code", "tau_bench": "tau-bench"}
    found: dict[str, str | None] = {}
    for path in sorted(path for path in runs_folder.rglob("*") if path.is_file()):
        name = path.relative_to(runs_folder).as_posix()
        try:
            found[name] = detect([path.read_bytes()])[0].name
        except UnknownFormat:
            found[name] = None
    for name, seen in found.items():
        want = next((fmt for prefix, fmt in expected.items() if name.startswith(prefix)), None)
        if name.endswith("_atif.json"):
            want = "atif"
        elif name.startswith("letta_fixtures/") and "_input." in name:
            want = next((fmt for fmt in ("atif", "claude-code") if name.split("/")[1].startswith(fmt + "_")), None)
        assert seen == want, name
    assert sum(seen is not None for seen in found.values()) == 25
