"""Proof of absence: every file of a lake is read, and none holds a word that must not be there any more.

All zones' roots are listed and everything in them is looked at: rows of every data file, whether a version refers to it
or not, table logs and checkpoints, stored payloads, snapshots. Parquet and snapshots are decompressed first. What is
looked for is given as text; a hit counts where it stands as a word of its own, as itself or as JSON escapes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import hyperscan
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.progress import SILENT, Progress
from trajlake.sinks.errors import SinkUnavailable
from trajlake.sinks.lake import Lake
from trajlake.sinks.snapshots import unpack

if TYPE_CHECKING:
    from obstore.store import ObjectStore

MAX_LISTED: Final = 100
_WORD: Final = re.compile(rb"[0-9A-Za-z_]")


@dataclass(slots=True)
class Mention:
    """A place that still holds one of the words. `needle`: which one, by its place in the list; never the word."""

    path: str
    column: str | None
    needle: int


@dataclass
class Proof:
    """What was looked at, and where something was found. `absent`: nothing was."""

    files: int = 0
    bytes: int = 0
    mentions: list[Mention] = field(default_factory=list)
    mention_count: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def absent(self) -> bool:
        return not self.mention_count and not self.unreadable


def prove_absence(lake: Lake, needles: Sequence[str], progress: Progress = SILENT) -> Proof:
    """Look for words in every file of a lake. Raises `SinkUnavailable` when the store does not answer.

    `progress` counts bytes.
    """
    search = _Search(needles)
    proof = Proof()
    files = list(_files(lake))
    progress.stage("reading every file for the proof", sum(size for _, _, size in files), "bytes")
    for store, path, size in files:
        try:
            content = bytes(obstore.get(store, path).bytes())
        except (FileNotFoundError, NotFoundError):
            # Compacted or cleaned since the listing; what it held is in files that are looked at too.
            continue
        except (BaseError, OSError) as error:
            raise SinkUnavailable(f"{path}: {type(error).__name__}") from error
        proof.files += 1
        proof.bytes += size
        progress.advance(size)
        try:
            found = {(column, needle) for column, part in _parts(path, content) for needle in search.in_text(part)}
        except (ValueError, pa.ArrowException, OSError):
            proof.unreadable.append(path)
            continue
        proof.mention_count += len(found)
        room = MAX_LISTED - len(proof.mentions)
        ordered = sorted(found, key=lambda hit: (hit[0] or "", hit[1]))
        proof.mentions += [Mention(path, column, needle) for column, needle in ordered[:room]]
    return proof


def _files(lake: Lake) -> Iterator[tuple[ObjectStore, str, int]]:
    """Every file below every root of a lake."""
    inside = f"{lake.training_uri}/".startswith(f"{lake.uri}/")
    for store in [lake.store] if inside else [lake.store, lake.training_store]:
        try:
            for page in obstore.list(store):
                for meta in page:
                    yield store, str(meta["path"]), int(meta["size"])
        except FileNotFoundError:
            continue
        except (BaseError, OSError) as error:
            raise SinkUnavailable(f"cannot list the lake: {type(error).__name__}") from error


def _parts(path: str, content: bytes) -> Iterator[tuple[str | None, bytes]]:
    """A file's own bytes and name, and what they are when they are decompressed."""
    yield None, content
    yield None, path.encode()
    if path.endswith(".parquet"):
        file = pq.ParquetFile(pa.BufferReader(content))
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, use_threads=False)
            for name, column in zip(file.schema_arrow.names, rows.columns, strict=True):
                for chunk in column.chunks:
                    for text in _texts(chunk):
                        yield name, text
    elif path.endswith(".msgpack.zst"):
        yield None, unpack(content)


def _texts(values: pa.Array) -> Iterator[bytes]:
    """Bytes of all text that an array holds, nested or not, each value behind a zero byte."""
    kind = values.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _texts(values.field(index))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        if pa.types.is_map(kind):
            yield from _texts(values.keys)
            yield from _texts(values.items)
        else:
            yield from _texts(values.flatten())
    elif pa.types.is_dictionary(kind):
        yield from _texts(values.dictionary)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        yield b"\0".join(
            value.encode() if isinstance(value, str) else value for value in values.drop_null().to_pylist()
        )


class _Search:
    """Words, compiled to one automaton (Hyperscan, literal mode)."""

    def __init__(self, needles: Sequence[str]) -> None:
        forms: dict[bytes, int] = {}
        for place, needle in enumerate(needles):
            if not needle:
                continue
            for text in (needle, json.dumps(needle)[1:-1], json.dumps(needle, ensure_ascii=False)[1:-1]):
                forms.setdefault(text.encode("utf-8", "surrogatepass"), place)
        self._forms = list(forms.items())
        self._database = None
        if forms:
            self._database = hyperscan.Database()
            self._database.compile(
                expressions=[re.escape(form) for form, _ in self._forms],
                ids=list(range(len(self._forms))),
                flags=[hyperscan.HS_FLAG_SOM_LEFTMOST] * len(self._forms),
            )

    def in_text(self, text: bytes) -> set[int]:
        """Places of the needles that stand in a text as words of their own."""
        found: set[int] = set()
        if self._database is None or not text:
            return found

        def on_match(form: int, start: int, end: int, flags: int, context: object) -> None:
            word = self._forms[form][0]
            start = end - len(word)
            before, after = text[start - 1 : start] if start else b"", text[end : end + 1]
            inside = (_WORD.match(word[:1]) and _WORD.match(before)) or (_WORD.match(word[-1:]) and _WORD.match(after))
            if not inside:
                found.add(self._forms[form][1])

        self._database.scan(text, match_event_handler=on_match)
        return found
