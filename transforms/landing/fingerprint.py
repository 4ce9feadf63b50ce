"""Fingerprint of a snapshot: everything that decides what its bytes mean and how the fold came to them.

A snapshot that was made under other rules, other structs or another classifier is not used. What it would have saved
is folded again from the ledger.
"""

from __future__ import annotations

import hashlib
from enum import EnumMeta
from functools import cache
from typing import Any

import msgspec
import orjson
from msgspec import inspect

from trajlake.transforms.assemble.state import SNAPSHOT_FORMAT, PartitionState
from trajlake.transforms.classify.classifier import CLASSIFIER_REVISION


def snapshot_fingerprint(rules_revision: str) -> str:
    """Fingerprint of the snapshots that this version makes under rules of a revision; 16 hexadecimal digits."""
    parts = (str(SNAPSHOT_FORMAT), schema_hash(PartitionState), CLASSIFIER_REVISION, rules_revision)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def schema_hash(root: type[msgspec.Struct]) -> str:
    """Content hash of a struct's fields, in order, and of all structs that they hold, the contract's among them."""
    return hashlib.sha256(orjson.dumps(_shape(inspect.type_info(root), set()))).hexdigest()


def _shape(node: Any, seen: set[type]) -> Any:
    """A type description as JSON values. A struct that was met before stands as its name."""
    if isinstance(node, inspect.StructType):
        name = node.cls.__qualname__
        if node.cls in seen:
            return name
        seen.add(node.cls)
        fields = [
            [field.name, field.encode_name, field.required, _default(field), _shape(field.type, seen)]
            for field in node.fields
        ]
        return [name, node.tag_field, node.tag, node.array_like, node.forbid_unknown_fields, fields]
    if isinstance(node, inspect.UnionType):
        # Python may hand out the members of equal unions in either order.
        return ["UnionType", *(_shape(member, seen) for member in sorted(node.types, key=_name))]
    if isinstance(node, msgspec.Struct):
        return [type(node).__name__, *(_shape(getattr(node, name), seen) for name in node.__struct_fields__)]
    if isinstance(node, EnumMeta):
        members: list[Any] = list(node)
        return [node.__qualname__, sorted(str(member.value) for member in members)]
    if isinstance(node, tuple | list):
        return [_shape(part, seen) for part in node]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    return getattr(node, "__qualname__", None) or repr(node)


def _name(node: inspect.Type) -> str:
    return f"{type(node).__name__} {getattr(getattr(node, 'cls', None), '__qualname__', '')}"


def _default(field: inspect.Field) -> str | None:
    for default in (field.default, field.default_factory):
        if default is not msgspec.NODEFAULT:
            return getattr(default, "__qualname__", None) or repr(default)
    return None
