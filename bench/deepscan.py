"""Cost of the deep scan before publication: Presidio's recognizers on texts of runs, by kB, and its memory."""

from __future__ import annotations

import resource
import time
from importlib.util import find_spec

import orjson

from bench.figures import Figure, show
from bench.traffic import run_events
from trajlake.streams.deepscan.presidio import make_detector
from trajlake.streams.deepscan.scanner import Scanner
from trajlake.transforms.curate.evidence import Text

TEXTS = ("input", "message", "output", "content", "arguments")
US_PER_KB = 1500.0


def main() -> None:
    """Print microseconds a kB: of clean traffic, and of texts in which every kB has digits and a word near them."""
    if find_spec("presidio_analyzer") is None:
        print("presidio is not installed: nothing to measure")
        return
    before = _peak_mb()
    started = time.perf_counter()
    scanner = Scanner(make_detector(0.7), 10**9, 10**9)
    detail = {"mb": round(_peak_mb() - before)}
    show(Figure("deep_scan_load_s", round(time.perf_counter() - started, 2), "s", detail=detail))
    texts = [
        Text("message", body[name])
        for number in range(400)
        for body in (orjson.loads(event)["data"] for event in run_events(number))
        for name in TEXTS
        if isinstance(body.get(name), str)
    ]
    _measure("deep_scan_clean_us_per_kb", scanner, texts)
    tail = "phone of order 4711-{n}: ext {n}, card no {n}, ip of host 7"
    digits = [Text("content", f"{one.text} {tail.format(n=n)}") for n, one in enumerate(texts)]
    _measure("deep_scan_digits_us_per_kb", scanner, digits)


def _measure(name: str, scanner: Scanner, texts: list[Text]) -> None:
    chars = sum(len(text.text) for text in texts)
    started = time.process_time()
    scan = scanner.scan(texts)
    us = (time.process_time() - started) * 1e6
    assert scan.failure is None
    detail = {"kb": round(chars / 1000), "findings": len(scan.findings), "peak_mb": round(_peak_mb())}
    show(Figure(name, round(us / (chars / 1000), 1), "us", at_most=US_PER_KB, detail=detail))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
