"""Quality of redaction on labelled cases, and its speed.

The cases are read where they are (`TRAJLAKE_CASES`, default `../shared/cases` beside the repository) and never copied;
without them only speed is measured. Recall counts findings that are gone from the output, character for character. A
must-keep text counts as a false positive when any character of it changed.
"""

from __future__ import annotations

import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from bench.figures import Figure, show
from bench.traffic import run_events
from trajlake.transforms.redact.redactor import Redactor

RECALL = 0.97
RECALL_HARD = 0.80
FALSE_POSITIVES = 0.05
CLEAN_MB_PER_S = 150.0
HIT_US = 60.0

NOT_OURS = frozenset({"DATE_TIME", "URL", "DE_PLZ"})
"""What other tools look for and this one does not: dates, addresses of pages, post codes."""
SURE = 0.3
"""Cases in which the source's own tool is less sure than this, with no word near, are no evidence either way."""
PEOPLE = frozenset({"PHONE_NUMBER", "CREDIT_CARD", "EMAIL_ADDRESS", "US_SSN", "IBAN_CODE", "IP_ADDRESS"})
DATAFOG = frozenset({"EMAIL", "PHONE", "IP_ADDRESS", "CREDIT_CARD", "SSN", "DE_IBAN"})


class Case(NamedTuple):
    """A text with what has to go, or nothing where all of it has to stay. `""`: the text must change somewhere."""

    text: str
    gone: tuple[str, ...]


def main() -> None:
    redactor = Redactor()
    measure_speed(redactor)
    folder = Path(os.environ.get("TRAJLAKE_CASES", Path(__file__).parents[1] / ".." / "shared" / "cases"))
    archive = folder / "redaction" / "dev.tar.gz"
    if archive.exists():
        measure_quality(redactor, archive)


# Quality


def measure_quality(redactor: Redactor, archive: Path) -> None:
    """Print recall, false positives and the public issues' shapes."""
    files = read_cases(archive)
    clean = redactor.redact_text
    found: dict[str, tuple[int, int]] = {}
    kept: dict[str, tuple[int, int]] = {}
    for name, cases in case_sets(files).items():
        found[name] = _tally(
            [
                part not in clean(case.text) if part else clean(case.text) != case.text
                for case in cases
                for part in case.gone
            ]
        )
        kept[name] = _tally([clean(case.text) == case.text for case in cases if not case.gone])
    hard = found.pop("gitleaks_hard")
    show(Figure("redaction_recall", _share(found.values()), "share", floor=RECALL, detail=_rates(found)))
    show(Figure("redaction_recall_hard_shapes", _share([hard]), "share", floor=RECALL_HARD, detail={"cases": hard[1]}))
    wrong = 1 - _share(kept.values())
    detail = {name: round(1 - rate, 4) for name, rate in _rates(kept).items()}
    show(Figure("redaction_false_positives", round(wrong, 4), "share", at_most=FALSE_POSITIVES, detail=detail))
    shapes = [_shape_is_right(redactor, row) for row in files["issue_shapes"]]
    show(Figure("redaction_issue_shapes_right", _share([_tally(shapes)]), "share", floor=1.0))


def read_cases(archive: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows by file name, without its ending."""
    with tarfile.open(archive) as tar:
        return {
            Path(member.name).stem: [json.loads(line) for line in tar.extractfile(member) or ()]
            for member in tar.getmembers()
            if member.name.endswith(".jsonl")
        }


def case_sets(files: dict[str, list[dict[str, Any]]]) -> dict[str, list[Case]]:
    """The labelled rows of each source as cases."""
    return {
        "gitleaks": [*_gitleaks(files, "tp"), *_gitleaks(files, "fp")],
        "gitleaks_hard": list(_gitleaks(files, "tp_hard")),
        "presidio": list(_presidio(files["presidio_recognizer_cases"])),
        "presidio_research": list(_spans(files["presidio_research_synth_v2"])),
        "datafog": [
            Case(row["input"], tuple(e["text"] for e in row["expected_entities"] if e["type"] in DATAFOG))
            for row in files["datafog_corpus"]
            if not row["expected_entities"] or any(e["type"] in DATAFOG for e in row["expected_entities"])
        ],
        "who_and_when": [Case(row["reason"], ()) for row in files["who_and_when_labels"]],
    }


def _gitleaks(files: dict[str, list[dict[str, Any]]], label: str) -> Iterator[Case]:
    for row in files["gitleaks_cases"]:
        if row["label"] == label:
            yield Case(row["text"], () if label == "fp" else (row.get("secret") or "",))


def _presidio(rows: list[dict[str, Any]]) -> Iterator[Case]:
    for row in rows:
        if NOT_OURS.intersection(row["entity"]):
            continue
        named = dict(zip((name.strip() for name in row["params"].split(",")), row["values"], strict=False))
        if _strongest(named) < SURE:
            continue
        text = named.get("text") or named.get("iban") or named.get("number") or named.get("id_number")
        expected = named.get("expected_len", named.get("expected", len(named.get("expected_positions") or ())))
        if isinstance(text, str) and expected is not None:
            yield Case(text, ("",) if expected else ())


def _strongest(named: dict[str, Any]) -> float:
    """The highest score that the source itself expects; 1 where it names none."""
    todo = [value for name, value in named.items() if name.startswith("expected_score")]
    scores = []
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, (int, float)):
            scores.append(float(value))
    return max(scores, default=1.0)


def _spans(rows: list[dict[str, Any]]) -> Iterator[Case]:
    for row in rows:
        gone = tuple(span["value"] for span in row["spans"] if span["type"] in PEOPLE)
        if gone or not row["spans"]:
            yield Case(row["text"], gone)


def _shape_is_right(redactor: Redactor, row: dict[str, Any]) -> bool:
    """As a value where the input is JSON, and as a text."""
    forms: list[tuple[Any, Callable[[Any], str]]] = [(row["input"], str)]
    with suppress(ValueError):
        forms.append((json.loads(row["input"]), lambda value: json.dumps(value, ensure_ascii=False)))
    for value, written in forms:
        clean = redactor.redact(value).value
        out = written(clean)
        if any(part in out for part in row["must_remove"]) or redactor.redact(clean).value != clean:
            return False
        if not all(part in out or part in json.dumps(clean, ensure_ascii=False) for part in row["must_keep"]):
            return False
        if row["json_must_parse"]:
            json.loads(out)
    return True


def _tally(right: list[bool]) -> tuple[int, int]:
    return sum(right), len(right)


def _share(tallies: Iterable[tuple[int, int]]) -> float:
    pairs = list(tallies)
    return round(sum(right for right, _ in pairs) / max(1, sum(of for _, of in pairs)), 4)


def _rates(tallies: dict[str, tuple[int, int]]) -> dict[str, float]:
    return {name: round(right / of, 4) for name, (right, of) in tallies.items() if of}


# Speed


def measure_speed(redactor: Redactor) -> None:
    """Print the speed of the scan on clean traffic, and the cost of an event with one address in it."""
    clean = [event for number in range(1200) for event in run_events(number)]
    size = sum(map(len, clean))
    seconds = min(_cpu(lambda: redactor.scan(clean)) for _ in range(5))
    detail = {"events": len(clean), "called": len(redactor.scan(clean))}
    show(Figure("redaction_clean_mb_per_core_s", round(size / seconds / 1e6, 1), "MB/s", CLEAN_MB_PER_S, detail=detail))
    hit = [with_address(event, number) for number, event in enumerate(clean[:2000])]
    called = redactor.scan(hit)
    seconds = min(_cpu(lambda: [redactor.redact_json(hit[at], "acme") for at in called]) for _ in range(3))
    detail = {"events": len(hit), "called": len(called), "bytes_per_event": round(sum(map(len, hit)) / len(hit))}
    show(Figure("redaction_hit_us", round(seconds / len(hit) * 1e6, 1), "us", at_most=HIT_US, detail=detail))


def with_address(event: bytes, number: int) -> bytes:
    """An event with a mail address in one of its texts."""
    body = orjson.loads(event)
    data = body["data"]
    field = next(name for name in ("input", "message", "output", "content", "arguments") if name in data)
    data[field] = f"{data[field][:200]} mail jane.roe{number}@example.org {data[field][200:]}"
    return orjson.dumps(body)


def _cpu(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
