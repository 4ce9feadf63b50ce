"""What an importer is: the one interface that all formats share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trajlake.transforms.importers.framing import Value
from trajlake.transforms.importers.origin import Imported, ImportProblem, Origin
from trajlake.transforms.importers.sample import Sample

Values = Iterable[Value | ImportProblem]


class Format:
    """A format of run files. Files are read twice: `survey` sees all files first, then `read` makes events of each.

    All methods are pure: the same values give the same events, in the same order.
    """

    name: str
    """As `--format` takes it, as CloudEvents `source` ends, and as `runs.origin` begins."""

    title: str
    """What it is, for people."""

    def fits(self, sample: Sample) -> bool:
        """Whether a file that begins so is in this format."""
        raise NotImplementedError

    def survey(self, values: Values, origin: Origin) -> Any:
        """What must be known of a file before its first event is made.

        None when nothing must; `values` is then not read.
        """
        return None

    def relate(self, surveys: Sequence[Any]) -> Any:
        """What the files that are imported together say about each other, from their surveys."""
        return None

    def read(self, values: Values, origin: Origin, survey: Any, relations: Any) -> Iterator[Imported]:
        """The events of a file, run by run in order, and the problems met on the way."""
        raise NotImplementedError
