"""From a file's bytes to JSON values, one at a time: JSON Lines, the elements of one JSON array, or one document.

Memory holds one value, not the file. A value that cannot be read is a problem with its place, and the next one is
read all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final, Literal, NamedTuple

import orjson

from trajlake.transforms.importers.origin import ImportProblem

Shape = Literal["lines", "array", "document"]

VALUE_MAX_BYTES: Final = 512 * 2**20
"""Largest single value (line, array element, document) that is held in memory."""

DEPTH_MAX: Final = 150
"""Deepest nesting of a value. Events are refused from 200 levels on, and the envelope adds some."""

_BOM = b"\xef\xbb\xbf"
_STRUCTURE = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


class Value(NamedTuple):
    """One JSON value with its place in the file: `line 3`, `$[2]` or `$`."""

    place: str
    body: Any


class Piece(NamedTuple):
    """The bytes of one value, not yet parsed. `whole` is False when the file ended before the value did."""

    place: str
    text: bytes
    whole: bool = True


class TooLarge(ValueError):
    """A single value is larger than `VALUE_MAX_BYTES`; the file cannot be read any further."""


def read_values(chunks: Iterable[bytes], shape: Shape, file: str) -> Iterator[Value | ImportProblem]:
    """Parse a file's values in order. `chunks`: the file's bytes, in pieces of any size."""
    try:
        for piece in frame(chunks, shape):
            yield from _parse_piece(piece, file)
    except TooLarge as error:
        yield ImportProblem(file, str(error), f"one value is larger than {VALUE_MAX_BYTES >> 20} MiB")


def frame(chunks: Iterable[bytes], shape: Shape) -> Iterator[Piece]:
    """Cut a file's bytes into the texts of its values. Raises TooLarge, whose text is the place."""
    if shape == "lines":
        return _lines(chunks)
    if shape == "array":
        return _elements(chunks)
    return _document(chunks)


def _parse_piece(piece: Piece, file: str) -> Iterator[Value | ImportProblem]:
    if not piece.whole:
        yield ImportProblem(
            file, piece.place, "the file ends in the middle of this value; import it again when it is whole"
        )
        return
    try:
        body, repairs = parse(piece.text)
    except ValueError as error:
        yield ImportProblem(file, piece.place, str(error))
        return
    if _too_deep(piece.text, body):
        yield ImportProblem(file, piece.place, f"nested deeper than {DEPTH_MAX} levels")
        return
    for repair in repairs:
        yield ImportProblem(file, piece.place, repair, kept=True)
    yield Value(piece.place, body)


def parse(text: bytes) -> tuple[Any, list[str]]:
    """A JSON value, and what had to be repaired to read it: half surrogate pairs, NaN and infinities.

    Raises ValueError saying why the text is not JSON; the message holds no part of the text.
    """
    try:
        return orjson.loads(text), []
    except orjson.JSONDecodeError as error:
        first = f"not JSON: {error.msg} at column {error.colno}"
    repairs: list[str] = []

    def null(_: str) -> Any:
        repairs.append("NaN or an infinity is not JSON; read as null")
        return None

    def finite(number: str) -> Any:
        value = float(number)
        return value if isfinite(value) else null(number)

    try:
        body = json.loads(text.decode("utf-8"), parse_constant=null, parse_float=finite)
        clean = json.dumps(body).encode()
        try:
            return orjson.loads(clean), _once(repairs)
        except orjson.JSONDecodeError:
            lone = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            return orjson.loads(lone), _once([*repairs, "half a surrogate pair is no character; replaced by '?'"])
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError):
        raise ValueError(first) from None


def _too_deep(text: bytes, body: Any) -> bool:
    # Counting brackets is far cheaper than walking, and clears nearly every record.
    if text.count(b"[") + text.count(b"{") <= DEPTH_MAX:
        return False
    level = [body]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _once(repairs: list[str]) -> list[str]:
    return list(dict.fromkeys(repairs))


def _lines(chunks: Iterable[bytes]) -> Iterator[Piece]:
    number = 0
    parts: list[bytes] = []
    held = 0
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            parts.append(chunk[start:end])
            number += 1
            yield from _line(number, parts)
            parts, held, start = [], 0, end + 1
        parts.append(chunk[start:])
        held += len(chunk) - start
        if held > VALUE_MAX_BYTES:
            raise TooLarge(f"line {number + 1}")
    yield from _line(number + 1, parts)


def _line(number: int, parts: list[bytes]) -> Iterator[Piece]:
    text = b"".join(parts).strip()
    if number == 1:
        text = text.removeprefix(_BOM)
    if text:
        yield Piece(f"line {number}", text)


def _document(chunks: Iterable[bytes]) -> Iterator[Piece]:
    parts: list[bytes] = []
    held = 0
    for chunk in chunks:
        parts.append(chunk)
        held += len(chunk)
        if held > VALUE_MAX_BYTES:
            raise TooLarge("$")
    text = b"".join(parts).strip().removeprefix(_BOM)
    if text:
        yield Piece("$", text)


def _elements(chunks: Iterable[bytes]) -> Iterator[Piece]:
    splitter = ArraySplitter()
    for chunk in chunks:
        yield from splitter.feed(chunk)
        if splitter.held_bytes > VALUE_MAX_BYTES:
            raise TooLarge(f"$[{splitter.index}]")
        if splitter.done:
            return
    yield from splitter.finish()


class ArraySplitter:
    """Finds the ends of the elements of one top-level JSON array, without parsing them.

    Strings and nesting are followed; whether an element is JSON is for the parser to say. A bracket that is missing
    inside an element swallows what follows it, because nothing tells where the element was meant to end.
    """

    def __init__(self) -> None:
        self.index = 0
        self.done = False
        self._buffer = b""
        self._position = 0
        self._depth = 0
        self._in_string = False
        self._start = 0

    @property
    def held_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        """Take more bytes; yield the elements that are now complete."""
        self._buffer = self._buffer[self._start :] + chunk
        self._position -= self._start
        self._start = 0
        while not self.done and self._position < len(self._buffer):
            if self._in_string:
                if not self._leave_string():
                    return
                continue
            match = _STRUCTURE.search(self._buffer, self._position)
            if match is None:
                self._position = len(self._buffer)
                return
            self._position = match.end()
            yield from self._step(match.group(), match.start())

    def finish(self) -> Iterator[Piece]:
        """The file has ended: an element that is still open is reported as cut off."""
        if self._depth and (text := self._buffer[self._start :].strip()):
            yield Piece(f"$[{self.index}]", text, whole=False)

    def _leave_string(self) -> bool:
        match = _IN_STRING.match(self._buffer, self._position)
        assert match is not None
        self._position = match.end()
        # What stands here is the closing quote, or a backslash whose partner has not come yet, or nothing.
        if self._buffer[self._position : self._position + 1] != b'"':
            return False
        self._position += 1
        self._in_string = False
        return True

    def _step(self, mark: bytes, at: int) -> Iterator[Piece]:
        if mark == b'"':
            self._in_string = True
        elif mark in b"[{":
            self._depth += 1
            if self._depth == 1:
                self._start = at + 1
        elif mark == b"," and self._depth == 1:
            yield from self._element(at)
            self.index += 1
        elif mark in b"]}":
            self._depth -= 1
            if self._depth == 0:
                yield from self._element(at)
                self.done = True

    def _element(self, end: int) -> Iterator[Piece]:
        text = self._buffer[self._start : end].strip()
        self._start = end + 1
        if text:
            yield Piece(f"$[{self.index}]", text)
