"""Values of skills as the table stores them: one key per bucket, MessagePack, the source partition in the key.

    <partition> US <tenant>/<skill> US <name>        name: s, m<minute>, h<hour>, v<version>

The partition is in the key so that a worker knows which values are its own after any rebalance. US is the unit
separator, U+001F.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field

from trajlake.transforms.rolling.bucket import Bucket
from trajlake.transforms.rolling.state import HEAD, Head, SkillState

_US: Final = "\x1f"
_ENCODER: Final = msgspec.msgpack.Encoder()
_HEADS: Final = msgspec.msgpack.Decoder(Head)
_BUCKETS: Final = msgspec.msgpack.Decoder(Bucket)


class Change(NamedTuple):
    """A change of a table: the partition of its changelog, the key, and the value; None where the key goes."""

    partition: int
    key: bytes
    value: bytes | None


class _Applied(Struct, array_like=True, gc=False):
    """The first field of a head and of a bucket: source partition -> last closing offset that it holds."""

    applied: dict[int, int] = field(default_factory=dict)


_APPLIED: Final = msgspec.msgpack.Decoder(_Applied)


def value_key(partition: int, tenant_id: str, skill_name: str, name: str) -> bytes:
    """Key of a stored value."""
    return f"{partition}{_US}{tenant_id}/{skill_name}{_US}{name}".encode()


def split_key(key: bytes) -> tuple[int, str, str, str]:
    """Partition, tenant, skill and name of a key. Raises ValueError for what is none."""
    partition, skill, name = _split(key.decode())
    tenant_id, slash, skill_name = skill.partition("/")
    if not slash or not name:
        raise ValueError("not a key of a skill's value")
    return int(partition), tenant_id, skill_name, name


def _split(text: str) -> tuple[str, str, str]:
    # A skill may hold the separator; a partition and a name never do.
    partition, _, rest = text.partition(_US)
    skill, _, name = rest.rpartition(_US)
    return partition, skill, name


def encode_value(value: Head | Bucket) -> bytes:
    """Stored form of a value."""
    return _ENCODER.encode(value)


def decode_value(name: str, content: bytes) -> Head | Bucket:
    """The value that was stored under a name. Raises `msgspec.DecodeError`, a ValueError."""
    return _HEADS.decode(content) if name == HEAD else _BUCKETS.decode(content)


def check_value(key: bytes, content: bytes | None) -> None:
    """Raise ValueError where a stored value cannot be read back."""
    *_, name = split_key(key)
    if content is not None:
        decode_value(name, content)


def is_older(content: bytes, held: bytes) -> bool:
    """Whether a stored value holds less of the outcomes than another of the same key.

    A worker that was paused while others took its partitions over may write such a value behind theirs.
    """
    ours, theirs = _APPLIED.decode(content).applied, _APPLIED.decode(held).applied
    behind = any(ours.get(partition, -1) < offset for partition, offset in theirs.items())
    return behind and all(theirs.get(partition, -1) >= offset for partition, offset in ours.items())


def restore(values: Iterable[tuple[bytes, bytes]], partitions: set[int]) -> dict[tuple[str, str], SkillState]:
    """States of the skills of some partitions, from all stored values. Others' are left out."""
    grouped: dict[tuple[str, str], dict[str, Head | Bucket]] = {}
    for key, content in values:
        partition, tenant_id, skill_name, name = split_key(key)
        if partition in partitions:
            grouped.setdefault((tenant_id, skill_name), {})[name] = decode_value(name, content)
    return {skill: SkillState.restored(*skill, found) for skill, found in grouped.items()}
