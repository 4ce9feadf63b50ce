"""YAML text of a policy file to plain values, with the line of each.

Only what JSON has: mappings with text keys, lists, text, numbers, booleans, null. Anchors, aliases, merge keys and tags
are refused: what a file means has to be readable where it stands, and no text may grow when it is read.
"""

from __future__ import annotations

from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, Event, NodeEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_TEXT_CHARS: Final = 1 << 20
MAX_DEPTH: Final = 16

Place = tuple[str | int, ...]
"""Keys and list positions that lead to a value."""
Lines = dict[Place, int]
"""Place -> line, counted from 1."""

_TAG: Final = "tag:yaml.org,2002:"


class TextProblem(ValueError):
    """A text is not YAML of the plain kind. `line` counts from 1; `what` holds no values."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line
        self.what = what


def read_text(text: str) -> tuple[Any, Lines]:
    """The value that a YAML text holds, and the line of every place in it. Raises `TextProblem`."""
    if len(text) > MAX_TEXT_CHARS:
        raise TextProblem(1, f"is larger than {MAX_TEXT_CHARS:,} characters")
    lines: Lines = {}
    try:
        depth = 0
        for event in YAML(typ="safe", pure=True).parse(text):
            depth = _check_event(event, depth)
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise TextProblem(mark.line + 1 if mark else 1, f"is not YAML: {error.problem or error.context}") from None
    except YAMLError:
        raise TextProblem(1, "is not YAML") from None
    if node is None:
        raise TextProblem(1, "is empty")
    return _value(node, (), lines), lines


def line_of(lines: Lines, place: Place) -> int:
    """Line of a place, or of the nearest one around it that the text has."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _check_event(event: Event, depth: int) -> int:
    line = event.start_mark.line + 1 if event.start_mark else 1
    if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor is not None):
        raise TextProblem(line, "anchors and aliases are not allowed")
    kind = type(event).__name__
    depth += kind.endswith(("MappingStartEvent", "SequenceStartEvent"))
    depth -= kind.endswith(("MappingEndEvent", "SequenceEndEvent"))
    if depth > MAX_DEPTH:
        raise TextProblem(line, f"is nested deeper than {MAX_DEPTH} levels")
    return depth


def _value(node: Node, place: Place, lines: Lines) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
        return {key: _value(value, (*place, key), lines) for key, value in _entries(node, place, lines)}
    if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
        return [_value(value, (*place, index), lines) for index, value in enumerate(node.value)]
    if isinstance(node, ScalarNode):
        return _scalar(node)
    raise TextProblem(node.start_mark.line + 1, "tags are not allowed")


def _entries(node: MappingNode, place: Place, lines: Lines) -> list[tuple[str, Node]]:
    entries: dict[str, Node] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode) or key.tag != f"{_TAG}str":
            raise TextProblem(line, "a key is not text; put it in quotes")
        if key.value in entries:
            raise TextProblem(line, f"key {key.value[:64]} stands twice")
        # The key's line, not the value's: that is where a person looks.
        lines[(*place, key.value)] = line
        entries[key.value] = value
    return list(entries.items())


def _scalar(node: ScalarNode) -> Any:
    tag, text = str(node.tag).removeprefix(_TAG), node.value
    if tag in ("str", "timestamp"):
        return text
    if tag == "null":
        return None
    if tag == "bool":
        if text.lower() not in ("true", "false"):
            # What a %YAML 1.1 directive makes of yes, no, on and off.
            raise TextProblem(node.start_mark.line + 1, "write true or false")
        return text.lower() == "true"
    try:
        if tag == "int":
            return int(text.replace("_", ""), 0)
        if tag == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    raise TextProblem(node.start_mark.line + 1, "tags are not allowed")
