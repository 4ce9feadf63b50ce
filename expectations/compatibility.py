"""Holds the contract to what was published: `published/*.json` says what producers and readers may rely on.

Events are an input: producers keep working when a field is added, loosened or made optional. Tables are an output:
readers keep working when a nullable column is added. Everything else (a removed field, another type, unit, default or
nullability, a tighter limit, a removed code) is breaking and needs a new major version. A meaning that is worded
anew needs a new minor version, so that nobody changes what a field means in passing.

    python -m trajlake.expectations.compatibility            lists what has changed, and fails on what may not
    python -m trajlake.expectations.compatibility publish    writes `published/`; refuses what its version may not hold

`CONTRACT_VERSION` (in `expectations/jsonschema.py`) is raised by hand, beside the change it is for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from trajlake.expectations.jsonschema import CONTRACT_VERSION, CONTRACTS, Schema, contract_schema

PUBLISHED: Final = Path(__file__).resolve().parent / "published"
Facts = dict[str, Any]
Contract = dict[str, Any]
Severity = Literal["breaking", "reworded", "added"]

_FLOORS: Final = ("minimum", "minLength", "minItems")
_CEILINGS: Final = ("maximum", "maxLength", "maxItems")
_IDENTITY: Final = ("type", "arrow_type", "unit", "format", "default")
_INPUTS: Final = frozenset({"events"})


class Change(NamedTuple):
    """One difference between the published contract and this one: how grave, where, what."""

    severity: Severity
    path: str
    what: str


class Incompatible(ValueError):
    """The contract changed in a way that its version does not allow; `changes` lists it."""

    def __init__(self, changes: list[Change], advice: str) -> None:
        lines = [f"  {change.severity}: {change.path}: {change.what}" for change in changes]
        super().__init__("\n".join([advice, *lines]))
        self.changes = changes


def describe(name: str) -> Contract:
    """The contract of one name, flat: path -> facts (type, unit, required, nullable, limits, codes, meaning)."""
    schema = contract_schema(name)
    fields: dict[str, Facts] = {}
    if name == "outcomes":
        for branch in schema["oneOf"]:
            properties = branch["properties"]
            path = f"outcome_class={properties['outcome_class']['const']}"
            fields[path] = {"meaning": branch["description"], "codes": _codes(properties["failure_kind"])}
    elif "$defs" in schema:
        for kind, reference in schema["discriminator"]["mapping"].items():
            fields.update(_walk(schema, {"$ref": reference}, kind, required=False))
    else:
        fields.update(_walk(schema, schema, name, required=True))
    return {"name": name, "version": CONTRACT_VERSION, "fields": fields}


def _walk(root: Schema, node: Schema, path: str, *, required: bool) -> Iterator[tuple[str, Facts]]:
    meaning = node.get("description")
    unit, default, arrow_type = node.get("x-unit"), node.get("default", ...), node.get("x-arrow-type")
    node, nullable = _resolve(root, node)
    facts: Facts = {"type": node.get("type", "any"), "required": required, "nullable": nullable}
    codes = _codes(node)
    if codes:
        facts["type"], facts["codes"] = "string", codes
    for key, value in (("unit", unit), ("arrow_type", arrow_type), ("format", node.get("format"))):
        if value is not None:
            facts[key] = value
    facts.update({key: node[key] for key in (*_FLOORS, *_CEILINGS) if key in node})
    if default not in (..., None):
        facts["default"] = default
    facts["meaning"] = meaning or node.get("description", "")
    yield path, facts
    wanted = node.get("required", ())
    for name, member in node.get("properties", {}).items():
        yield from _walk(root, member, f"{path}.{name}", required=name in wanted)
    if "items" in node:
        yield from _walk(root, node["items"], f"{path}[]", required=True)


def _resolve(root: Schema, node: Schema) -> tuple[Schema, bool]:
    """A node with references followed and null taken out, and whether null was in it. `any` takes null."""
    nullable = False
    while True:
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rpartition("/")[2]]
        elif "anyOf" in node:
            kept = [option for option in node["anyOf"] if option.get("type") != "null"]
            nullable |= len(kept) < len(node["anyOf"])
            node = kept[0] if len(kept) == 1 else {"type": "any of " + ", ".join(str(o.get("type")) for o in kept)}
        else:
            break
    options = node.get("oneOf", ())
    nullable |= {"type": "null"} in options or None in node.get("enum", ())
    if isinstance(node.get("type"), list):
        kept_types = [kind for kind in node["type"] if kind != "null"]
        return {**node, "type": kept_types[0]}, True
    return node, nullable or not (node.keys() & {"type", "oneOf", "enum", "const", "properties"})


def _codes(node: Schema) -> dict[str, str]:
    if "const" in node:
        return {str(node["const"]): ""}
    if "enum" in node:
        return dict.fromkeys(sorted(str(code) for code in node["enum"] if code is not None), "")
    return {code["const"]: code.get("description", "") for code in node.get("oneOf", ()) if "const" in code}


def compare(published: Contract, current: Contract) -> list[Change]:
    """What has changed since a contract was published, gravest first."""
    is_input = published["name"] in _INPUTS
    old, new = published["fields"], current["fields"]
    changes = [
        Change("breaking", path, "was removed")
        for path in old
        if path not in new and not (_parent(path) in old and _parent(path) not in new)
    ]
    for path, facts in new.items():
        if path in old:
            changes += _compare_field(path, old[path], facts, is_input=is_input)
        elif not (_parent(path) in new and _parent(path) not in old):
            strict = facts.get("required") if is_input else facts.get("nullable") is False and "[]" not in path
            changes.append(
                Change("breaking", path, "is new and required") if strict else Change("added", path, "is new")
            )
    order = ("breaking", "reworded", "added")
    return sorted(changes, key=lambda change: (order.index(change.severity), change.path))


def _parent(path: str) -> str:
    """Path of what holds a field; a change of the whole is not told again for its parts."""
    return path.removesuffix("[]") if path.endswith("[]") else path.rpartition(".")[0]


def _compare_field(path: str, old: Facts, new: Facts, *, is_input: bool) -> Iterator[Change]:
    for key in _IDENTITY:
        if old.get(key) != new.get(key):
            yield Change("breaking", path, f"{key} was {old.get(key)!r}, is {new.get(key)!r}")
    for key, strict_value in (("required", True), ("nullable", False)):
        if old.get(key) != new.get(key):
            # Rows of a table were written under the old rule, and readers count on it: either way breaks somebody.
            stricter = new.get(key) == strict_value or not is_input
            yield Change("breaking" if stricter else "added", path, f"{key} was {old.get(key)}, is {new.get(key)}")
    yield from _compare_limits(path, old, new)
    yield from _compare_codes(path, old.get("codes"), new.get("codes"))
    if old["meaning"] != new["meaning"]:
        yield Change("reworded" if old["meaning"] else "added", path, "its meaning is worded anew")


def _compare_limits(path: str, old: Facts, new: Facts) -> Iterator[Change]:
    for key in (*_FLOORS, *_CEILINGS):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        tighter = after is not None and (before is None or (after > before if key in _FLOORS else after < before))
        yield Change("breaking" if tighter else "added", path, f"{key} was {before}, is {after}")


def _compare_codes(path: str, old: dict[str, str] | None, new: dict[str, str] | None) -> Iterator[Change]:
    if not old and not new:
        return
    if not old or not new:
        yield Change("breaking" if new else "added", path, "became a closed set" if new else "takes any value now")
        return
    for code in old.keys() - new.keys():
        yield Change("breaking", path, f"code {code!r} was removed")
    for code in new.keys() - old.keys():
        yield Change("added", path, f"code {code!r} is new")
    for code in old.keys() & new.keys():
        if old[code] and old[code] != new[code]:
            yield Change("reworded", path, f"the meaning of code {code!r} is worded anew")


def check(published: Contract, current: Contract) -> list[Change]:
    """Compare two versions of a contract and return what was added. Raises `Incompatible` for all that breaks."""
    changes = compare(published, current)
    if published["version"] != current["version"]:
        raise Incompatible(
            changes,
            f"contract {current['name']} says version {current['version']}, {published['version']} is published: "
            "run `python -m trajlake.expectations.compatibility publish` and review what it writes",
        )
    grave = [change for change in changes if change.severity != "added"]
    if grave:
        raise Incompatible(
            grave,
            f"contract {current['name']} {current['version']} no longer is what was published. Take the change back, "
            "or raise CONTRACT_VERSION (major for breaking, minor for reworded) and publish",
        )
    return changes


def publish(folder: Path = PUBLISHED) -> list[Path]:
    """Write every contract into `folder`; returns the files that changed. Nothing is written when one is refused.

    Raises `Incompatible` when a contract broke under the same major version, or changed at all under the same version.
    """
    written: dict[Path, str] = {}
    for name in CONTRACTS:
        path, current = folder / f"{name}.json", describe(name)
        published = read_published(name, folder)
        if published is not None:
            _allow(published, current)
        text = json.dumps(current, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            written[path] = text
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return list(written)


def _allow(published: Contract, current: Contract) -> None:
    changes = compare(published, current)
    old, new = _version(published), _version(current)
    if changes and new <= old:
        raise Incompatible(
            changes, f"contract {current['name']} changed; raise CONTRACT_VERSION above {published['version']}"
        )
    breaking = [change for change in changes if change.severity == "breaking"]
    if breaking and new[0] <= old[0]:
        raise Incompatible(breaking, f"contract {current['name']} breaks; CONTRACT_VERSION needs a new major version")


def _version(contract: Contract) -> tuple[int, int]:
    major, _, minor = contract["version"].partition(".")
    return int(major), int(minor)


def read_published(name: str, folder: Path = PUBLISHED) -> Contract | None:
    """The published contract of a name, or None where none was published yet."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    contract: Contract = json.loads(path.read_text(encoding="utf-8"))
    return contract


def main(arguments: list[str]) -> int:
    """Check or publish; returns the exit code."""
    try:
        if arguments == ["publish"]:
            written = publish()
            print("\n".join(f"wrote {path.name}" for path in written) or "nothing has changed")
            return 0
        if arguments not in ([], ["check"]):
            print("usage: python -m trajlake.expectations.compatibility [check | publish]", file=sys.stderr)
            return 2
        for name in CONTRACTS:
            published = read_published(name)
            if published is None:
                print(f"{name}: not published yet")
                continue
            for change in check(published, describe(name)):
                print(f"{name}: {change.severity}: {change.path}: {change.what}")
    except Incompatible as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
