"""Writes the contract as a Markdown page: docs/contract.md, by `trajlake contract --markdown`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from trajlake.expectations.compatibility import describe
from trajlake.expectations.events import EVENT_TYPES
from trajlake.expectations.examples import EVENT_EXAMPLES
from trajlake.expectations.jsonschema import CONTRACT_VERSION, CONTRACTS

Facts = dict[str, Any]

_ENVELOPE_OF: Final = "agent.run.started"
TEXT_LENGTH: Final = 1024
_LIMITS: Final = {
    "minLength": "not empty",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
}

_INTRO: Final = f"""# Contract

Version {CONTRACT_VERSION}. Printed from the code by `trajlake contract --markdown`; change it there. `trajlake contract
NAME` prints the same as JSON Schema 2020-12, and `trajlake contract` lists the names.

A published field keeps its type, unit, nullability and meaning within a major version; codes are added, never taken
away, so readers have to allow for codes that they do not know. Unknown fields of events are legal: the ledger keeps
them, assembly ignores them.
"""

_EVENTS: Final = """## Events

Agents publish CloudEvents 1.0 to Kafka, in structured mode (one JSON object in the value, content type
`application/cloudevents+json`) or in binary mode (attributes in `ce_` headers, `data` in the value). The record's key
is `tenantid/runid`, so that a run stays in one partition. Types that are not listed here are kept and ignored.

A field of type `text` takes a string of at most 1,024 characters, one of type `any` a string or any JSON value; what
is not a string is stored as compact JSON text.
"""


def contract_page() -> str:
    """The whole page."""
    sections = [_INTRO, *(contract_section(name) for name in CONTRACTS)]
    return "\n".join(sections)


def contract_section(name: str) -> str:
    """The part of the page on one name of `CONTRACTS`. `KeyError` for other names."""
    if name == "events":
        return "\n".join(_event_lines())
    fields = describe(name)["fields"]
    if name == "outcomes":
        return "\n".join(_outcome_lines(fields))
    return "\n".join(_table_lines(name, fields))


def _event_lines() -> Iterator[str]:
    yield _EVENTS
    fields: dict[str, Facts] = describe("events")["fields"]
    prefix = _ENVELOPE_OF + "."
    envelope = {
        path.removeprefix(prefix): facts
        for path, facts in fields.items()
        if path.startswith(prefix) and not path.startswith(prefix + "data")
    }
    yield "### Attributes\n"
    yield "Attributes of every event. `sequence` may be absent where the producer cannot know it (feedback, rewards,"
    yield "policy decisions), and `runid` too where the event concerns the tenant (consent, levers).\n"
    envelope["type"] = {**envelope["type"], "codes": {}, "meaning": "One of the types below."}
    yield from _rows(envelope, "required")
    for kind in EVENT_TYPES:
        yield f"### {kind}\n"
        yield _after_name(fields[kind]["meaning"]) + "\n"
        prefix = f"{kind}.data."
        data = {path.removeprefix(prefix): facts for path, facts in fields.items() if path.startswith(prefix)}
        yield from _rows(data, "required")
        yield "```json"
        yield json.dumps(EVENT_EXAMPLES[kind], indent=2, ensure_ascii=False)
        yield "```\n"


def _after_name(meaning: str) -> str:
    """A docstring without the event's name before its colon; the heading says it."""
    head, _, rest = meaning.partition(": ")
    return rest[:1].upper() + rest[1:] if head.startswith("`") and rest else meaning


def _table_lines(name: str, fields: dict[str, Facts]) -> Iterator[str]:
    title = "events (the ledger)" if name == "events_table" else name
    yield f"## Table {title}\n"
    root, *paths = fields
    yield fields[root]["meaning"] + "\n"
    yield from _rows({path.removeprefix(root + "."): fields[path] for path in paths}, "nullable")
    for path in paths:
        codes = fields[path].get("codes")
        if codes:
            yield f"`{path.removeprefix(root + '.')}` is one of:\n"
            yield from (f"- `{code}`" + (f": {meaning}" if meaning else "") for code, meaning in codes.items())
            yield ""


def _outcome_lines(fields: dict[str, Facts]) -> Iterator[str]:
    yield "## Outcomes\n"
    yield "Class and kind of what became of a step or a run. How they are told is in [failures.md](failures.md).\n"
    yield "| class | meaning | kinds |"
    yield "| --- | --- | --- |"
    for path, facts in fields.items():
        kinds = ", ".join(f"`{kind}`" for kind in facts["codes"])
        yield f"| `{path.partition('=')[2]}` | {_cell(facts['meaning'])} | {kinds} |"
    yield ""


def _rows(fields: dict[str, Facts], flag: str) -> Iterator[str]:
    """A Markdown table of fields; `flag` (required or nullable) is the column that says yes or nothing."""
    yield f"| field | type | {flag} | unit | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for path, facts in fields.items():
        if path.endswith("[]"):
            continue  # the element of a list is told by the list's own row
        kind = _kind(path, facts, fields)
        meaning, limits = facts["meaning"], _limits(facts)
        if limits:
            meaning = f"{meaning.rstrip('.')}; {limits}."
        yes = "yes" if facts[flag] else ""
        yield f"| `{path}` | {kind} | {yes} | {facts.get('unit', '')} | {_cell(meaning)} |"
    yield ""


def _kind(path: str, facts: Facts, fields: dict[str, Facts]) -> str:
    codes = facts.get("codes")
    if codes and "arrow_type" not in facts:
        return " or ".join(f"`{code}`" for code in codes)
    kind = facts.get("arrow_type") or ("text" if _is_text(facts) else facts["type"])
    if kind.startswith("list<") or facts["type"] == "array":
        return "list of " + (fields[path + "[]"]["type"] if path + "[]" in fields else "values")
    return str(kind)


def _is_text(facts: Facts) -> bool:
    return bool(facts["type"] == "string" and facts.get("maxLength") == TEXT_LENGTH)


def _limits(facts: Facts) -> str:
    if "arrow_type" in facts:
        return ""
    if _is_text(facts):
        facts = {key: value for key, value in facts.items() if key not in ("minLength", "maxLength")}
    return ", ".join(text.format(f"{facts[key]:g}") for key, text in _LIMITS.items() if key in facts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
