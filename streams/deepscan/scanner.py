"""The scan of one run: its texts, window by window, within bounds of time and size. What is not wholly looked at fails.

Memory is that of one window, whatever the run's size; what is kept is at most `MOST_FINDINGS` lines of evidence.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from trajlake.expectations.policies import PolicySet
from trajlake.streams.deepscan.presidio import INSTALL, Detector, make_detector, presidio_is_here
from trajlake.streams.settings import SettingError, Settings
from trajlake.transforms.curate.evidence import Scan, ScanFinding, Text

WINDOW_CHARS: Final = 4_000
OVERLAP_CHARS: Final = 400
"""What two windows of one text share, so that nothing shorter is cut in two, and a word near stays near."""
MOST_FINDINGS: Final = 100
"""Lines of evidence of one run, and findings after which no more is looked for: the verdict stands by then."""
_BETWEEN: Final = "\n\n"


class _Window(NamedTuple):
    """Pieces of texts to be looked at together. `starts`: where each piece begins in the window; `offsets`: where it
    begins in its own text."""

    text: str
    paths: list[str]
    starts: list[int]
    offsets: list[int]


@dataclass(frozen=True)
class Scanner:
    """Looks at runs. `max_chars`, `max_s`: of one run."""

    detector: Detector
    max_chars: int
    max_s: float
    clock: Callable[[], float] = time.monotonic

    @property
    def revision(self) -> str:
        """Content hash of all that decides what is found."""
        return self.detector.revision

    def scan(self, texts: Iterable[Text]) -> Scan:
        """Look at the texts of a run. Never raises for what they hold: what went wrong is part of the answer, by type,
        because a message may quote the text."""
        until = self.clock() + self.max_s
        found: dict[tuple[str, str], dict[int, float]] = {}
        count = 0
        try:
            for window in _windows(texts, self.max_chars):
                if self.clock() > until:
                    return _scan(found, f"time: {self.max_s:g} s")
                for one in self.detector.find(window.text):
                    piece = bisect_right(window.starts, one.start) - 1
                    at = one.start - window.starts[piece] + window.offsets[piece]
                    places = found.setdefault((window.paths[piece], one.entity_type), {})
                    places[at] = max(one.score, places.get(at, 0.0))
                    count += 1
                if count >= MOST_FINDINGS:
                    break
        except _TooLarge:
            return _scan(found, f"size: {self.max_chars:,} characters")
        except Exception as error:
            return _scan(found, f"error: {type(error).__name__}")
        return _scan(found, None)


class _TooLarge(Exception):
    """A run has more text than may be looked at."""


def _scan(found: dict[tuple[str, str], dict[int, float]], failure: str | None) -> Scan:
    findings = [
        ScanFinding(path, entity, round(max(places.values()), 3), len(places))
        for (path, entity), places in sorted(found.items())
    ]
    return Scan(tuple(findings[:MOST_FINDINGS]), failure)


def _windows(texts: Iterable[Text], max_chars: int) -> Iterator[_Window]:
    window, size, seen = _Window("", [], [], []), 0, 0
    pieces: list[str] = []
    for path, text in texts:
        seen += len(text)
        if seen > max_chars:
            raise _TooLarge
        for offset, piece in _cut(text):
            if pieces and size + len(piece) > WINDOW_CHARS:
                yield window._replace(text=_BETWEEN.join(pieces))
                window, size, pieces = _Window("", [], [], []), 0, []
            window.paths.append(path)
            window.starts.append(size)
            window.offsets.append(offset)
            pieces.append(piece)
            size += len(piece) + len(_BETWEEN)
    if pieces:
        yield window._replace(text=_BETWEEN.join(pieces))


def _cut(text: str) -> Iterator[tuple[int, str]]:
    """Pieces of a text that fit into a window, each with where it begins."""
    first = 0
    while len(text) - first > WINDOW_CHARS:
        yield first, text[first : first + WINDOW_CHARS]
        first += WINDOW_CHARS - OVERLAP_CHARS
    yield first, text[first:]


@lru_cache(maxsize=2)
def _detector(threshold: float, names: tuple[str, ...], model: str) -> Detector:
    return make_detector(threshold, names, model)


def scanner_for(settings: Settings, policies: PolicySet) -> Scanner | None:
    """The scanner that the policies ask for; None, and nothing of it loaded, where none does.

    Raises `SettingError` where Presidio, or the model that the settings name, is not installed.
    """
    asking = policies.deep_scans
    if not asking:
        return None
    if not presidio_is_here():
        raise SettingError("policies", f"policy {asking[0]} asks for deep_scan, which needs Presidio: {INSTALL}")
    detector = _detector(settings.deep_scan_threshold, tuple(settings.deep_scan_entities), settings.deep_scan_model)
    return Scanner(detector, settings.deep_scan_max_chars, settings.deep_scan_max_s)
