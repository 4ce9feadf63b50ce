"""The files of an import: which they are, and their bytes, unpacked and counted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trajlake.expectations.errors import TrajlakeError
from trajlake.expectations.progress import SILENT, Progress

CHUNK_BYTES: Final = 2**20
_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""What a damaged or forbidden file raises while it is read."""


class IntakeError(TrajlakeError):
    """An import that cannot begin: a path that is not there, or a format that does not exist."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to import. `name`: how reports call it; `was_named`: it was given as such, not met in a folder."""

    path: Path
    name: str
    was_named: bool
    size: int


def find_files(paths: Sequence[str | Path]) -> list[SourceFile]:
    """The files that paths name: themselves, or all files in folders below them. Hidden ones in folders are left out.

    Raises IntakeError for a path that is not there.
    """
    found: dict[Path, SourceFile] = {}
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for below in sorted(_walk(path)):
                source = SourceFile(below, below.relative_to(path).as_posix(), False, below.stat().st_size)
                found.setdefault(below.resolve(), source)
        elif path.exists():
            found[path.resolve()] = SourceFile(path, path.name, True, path.stat().st_size)
        else:
            raise IntakeError(f"{path}: there is no such file or folder")
    return list(found.values())


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            # A link to a folder may lead back above it.
            if not path.is_symlink():
                yield from _walk(path)
        elif path.is_file():
            yield path


def read_chunks(source: SourceFile, progress: Progress = SILENT) -> Iterator[bytes]:
    """A file's bytes in pieces, unpacked where it is gzip. Progress counts the bytes on disk.

    Raises one of `UNREADABLE` where the file cannot be read on; what came before has been given.
    """
    with source.path.open("rb") as raw:
        is_gzip = raw.peek(2)[:2] == _GZIP
        chunks = _counted(raw, progress)
        yield from _unpacked(chunks) if is_gzip else chunks


def tolerant(chunks: Iterator[bytes], damage: list[BaseException]) -> Iterator[bytes]:
    """The same bytes, ending where the file cannot be read on; the reason is put into `damage`."""
    try:
        yield from chunks
    except UNREADABLE as error:
        damage.append(error)


def _counted(raw: BinaryIO, progress: Progress) -> Iterator[bytes]:
    while chunk := raw.read(CHUNK_BYTES):
        progress.advance(len(chunk))
        yield chunk


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Gzip members one after the other. Gives all that a cut-off member holds before it raises EOFError."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    for packed in chunks:
        while packed:
            if member.eof:
                member = zlib.decompressobj(_GZIP_WINDOW)
            plain = member.decompress(packed, CHUNK_BYTES)
            packed = member.unconsumed_tail or member.unused_data
            if plain:
                yield plain
    if not member.eof:
        raise EOFError("the gzip data ends too early")


def why(error: BaseException) -> str:
    """An error in words, without the path that it happened at."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
