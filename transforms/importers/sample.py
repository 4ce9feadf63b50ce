"""A look at the beginning of a file: what shape it has, and its first values. Enough to tell its format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from trajlake.transforms.importers.framing import ArraySplitter, Shape, parse

VALUES_LOOKED_AT: Final = 40
"""Values of a file whose format is told; the first lines of a log may be damaged or of no use."""

SAMPLE_MAX_BYTES: Final = 64 * 2**20
"""A first value larger than this is not waited for; its head must do."""

_HEAD_BYTES = 64 * 2**10
_BLANK = b"\xef\xbb\xbf \t\r\n"
_MAGICS = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "gzip data",
    b"PAR1": "a Parquet file",
    b"\x28\xb5\x2f\xfd": "Zstandard data",
    b"SQLite format 3": "an SQLite database",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Beginning of a file.

    `values` are its first parsed values; `head` its first bytes, for what is too large to parse.
    """

    shape: Shape | Literal["empty", "binary", "text"]
    values: list[Any]
    head: bytes

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The values that are JSON objects."""
        return [value for value in self.values if isinstance(value, dict)]

    def described(self) -> str:
        """What the file looks like, in words, for the report when no format fits. Names keys, never values."""
        if self.shape == "empty":
            return "an empty file"
        if self.shape == "binary":
            return next((name for magic, name in _MAGICS.items() if self.head.startswith(magic)), "binary data")
        if self.shape == "text":
            return "text that is not JSON"
        what = {"lines": "JSON Lines", "array": "a JSON array", "document": "a JSON document"}[self.shape]
        first = self.values[0] if self.values else None
        if isinstance(first, dict):
            keys = ", ".join(str(key)[:40] for key in list(first)[:8])
            return f"{what} of objects with keys {keys}" if self.shape != "document" else f"{what} with keys {keys}"
        return what if first is None else f"{what} of {_kind(first)}"


def take_sample(chunks: Iterable[bytes]) -> Sample:
    """Read as little of a file as tells its shape and first values."""
    data = bytearray()
    whole = True
    for chunk in chunks:
        # Asked only once more bytes are there, so that a file that ends here is known to be whole.
        if (len(data) >= _HEAD_BYTES and _enough(bytes(data))) or len(data) > SAMPLE_MAX_BYTES:
            whole = False
            break
        data += chunk
    return _look(bytes(data), whole)


def _enough(data: bytes) -> bool:
    """Whether the first value is complete: a whole line, or the first element of an array."""
    body = data.lstrip(_BLANK)
    if body.startswith(b"["):
        return next(iter(ArraySplitter().feed(body)), None) is not None
    first, newline, _ = body.partition(b"\n")
    return bool(newline) and not _pretty(first)


def _pretty(first_line: bytes) -> bool:
    """Whether a first line is only the beginning of a document that is spread over lines."""
    return first_line.strip()[:1] in (b"{", b"[") and not _is_json(first_line)


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _look(data: bytes, whole: bool) -> Sample:
    head = data[:_HEAD_BYTES]
    body = data.lstrip(_BLANK)
    if not body:
        return Sample("empty", [], head)
    if b"\0" in head or any(head.startswith(magic) for magic in _MAGICS):
        return Sample("binary", [], head)
    if body.startswith(b"["):
        return Sample("array", _first_elements(body), head)
    lines = body.split(b"\n")
    if body.startswith(b"{"):
        document = _parsed([body]) if whole else []
        if document:
            return Sample("document", document, head)
    if not whole:
        lines.pop()
    # In a document that is spread over lines only the first brace stands at the margin; in JSON Lines each one does.
    values = _parsed(line for line in lines[: VALUES_LOOKED_AT * 2] if line.startswith(b"{"))
    if values:
        return Sample("lines", values[:VALUES_LOOKED_AT], head)
    return Sample("document" if body.startswith(b"{") else "text", [], head)


def _first_elements(body: bytes) -> list[Any]:
    texts = []
    for piece in ArraySplitter().feed(body):
        texts.append(piece.text)
        if len(texts) == VALUES_LOOKED_AT:
            break
    return _parsed(texts)


def _parsed(texts: Iterable[bytes]) -> list[Any]:
    values = []
    for text in texts:
        try:
            values.append(parse(text)[0])
        except ValueError:
            continue
    return values


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "booleans"
    return {str: "strings", list: "arrays", int: "numbers", float: "numbers"}.get(type(value), "nulls")
