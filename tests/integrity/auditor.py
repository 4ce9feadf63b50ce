"""An auditor's own reading of docs/integrity.md: plain loops and hashlib, nothing of the program."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def head(topic: str, partition: int, rows: Sequence[dict[str, Any]], last: int) -> str:
    """Head at an offset, from the rows of one partition up to it, as `to_pylist` gives them."""
    chain = sha(b"\x04", compact(["trajlake.events/1", topic, partition]))
    blocks: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["offset"]):
        blocks.setdefault(row["offset"] // 4096, []).append(row)
    opened = b""
    for number in sorted(blocks):
        digest = block(number, blocks[number])
        if (number + 1) * 4096 - 1 <= last:
            chain = sha(b"\x02", chain, digest)
        else:
            opened = digest
    return sha(b"\x03", chain, struct.pack("<qQ", last, len(rows)), opened).hex()


def block(number: int, rows: list[dict[str, Any]]) -> bytes:
    revisions: list[tuple[int, str]] = []
    for row in rows:
        if not revisions or revisions[-1][1] != row["rule_revision"]:
            revisions.append((row["offset"], row["rule_revision"]))
    times = [(row["append_time"] - EPOCH) // timedelta(microseconds=1) for row in rows]
    return sha(
        b"\x01",
        struct.pack("<QI", number, len(rows)),
        *(struct.pack("<q", row["offset"]) for row in rows),
        *(struct.pack("<q", time) for time in times),
        *(sha(content(row)) for row in rows),
        compact(revisions),
    )


def content(row: dict[str, Any]) -> bytes:
    text: bytes = row["event"].encode()
    if row["redactions"] is None:
        return text
    return text + b"\x00" + compact([[cut["path"], cut["rule"], cut["count"]] for cut in row["redactions"]])
