"""The formats that can be imported, and which of them a file is in, told by its content.

To add a format: write a module with a `Format`, and add its line to `FORMATS`. The first that fits wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trajlake.transforms.importers.atif import FORMAT as ATIF
from trajlake.transforms.importers.claude_code import FORMAT as CLAUDE_CODE
from trajlake.transforms.importers.format import Format
from trajlake.transforms.importers.sample import Sample, take_sample
from trajlake.transforms.importers.tau_bench import FORMAT as TAU_BENCH

FORMATS: Final[tuple[Format, ...]] = (
    TAU_BENCH,
    ATIF,
    CLAUDE_CODE,
)


class UnknownFormat(ValueError):
    """No format fits a file. The message says what the file looks like and which formats there are."""


def names() -> list[str]:
    """The names of all formats, as `--format` takes them."""
    return [known.name for known in FORMATS]


def by_name(name: str) -> Format:
    """The format of a name. Raises UnknownFormat."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise UnknownFormat(f"there is no format named {name!r}; formats: {', '.join(names())}")


def detect(chunks: Iterable[bytes]) -> tuple[Format, Sample]:
    """The format of a file from its first bytes, whatever the file's name. Raises UnknownFormat."""
    sample = take_sample(chunks)
    for known in FORMATS:
        if known.fits(sample):
            return known, sample
    raise UnknownFormat(f"looks like {sample.described()}; formats that can be imported: {', '.join(names())}")
