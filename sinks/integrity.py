"""Where the chain over `events` is kept, beside the commits that carry its heads (docs/integrity.md).

    commitInfo.integrity of `events`     head of each partition of the commit; as old as the Delta log is kept
    table `integrity`                    a row a complete block
    table `erasure_marks`                a row a row of `events` that was erased
    _state/integrity/<topic>/<p>.json    newest head of a partition; the same in a folder outside, where one is set

The hashes themselves come from `transforms.integrity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import obstore
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError, TableNotFoundError
from obstore.exceptions import BaseError, NotFoundError

from trajlake.expectations.tables import ERASURE_MARKS, INTEGRITY, Table
from trajlake.sinks.datafiles import write_data_file
from trajlake.sinks.deltalog import Advance, DeltaLog
from trajlake.sinks.errors import SinkUnavailable, reason
from trajlake.sinks.lake import Lake, transaction_app

FORMAT: Final = "trajlake.head/1"
_HEADS: Final = "_state/integrity"


@dataclass(frozen=True)
class RecordedHead:
    """A head as it was noted. `digest`: hex. `chain`: hex, the chain over complete blocks; None where not noted.

    `source`: where it was found, for people.
    """

    topic: str
    partition: int
    offset: int
    rows: int
    digest: str
    chain: str | None
    source: str


@dataclass(frozen=True)
class SealedBlock:
    """A row of the table `integrity`."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int
    digest: str
    chain: str


def write_blocks(log: DeltaLog, app_id: str, blocks: list[SealedBlock]) -> None:
    """Add complete blocks of one partition to the table `integrity`; those that it holds already are left out.

    Raises `SinkUnavailable`, and `StaleWriter` when another worker added the same blocks meanwhile.
    """
    app = transaction_app(app_id, blocks[0].topic, blocks[0].partition)
    at = log.landed(app)
    new = [block for block in blocks if block.last > at]
    if not new:
        return
    names = ("topic", "partition", "last", "first", "rows", "digest", "chain")
    columns = [
        pa.array([getattr(block, name) for block in new], field.type)
        for name, field in zip(names, INTEGRITY.schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=INTEGRITY.schema)
    log.commit([write_data_file(log.lake, INTEGRITY, [batch])], [Advance(app, at, new[-1].last)])


def read_blocks(lake: Lake, topic: str, partition: int, version: int | None = None) -> list[SealedBlock]:
    """Blocks of a partition in order; none where the table is not there. Raises `SinkUnavailable`."""
    rows = _rows(lake, INTEGRITY, topic, partition, version)
    found = rows.select([field.name for field in INTEGRITY.schema]).sort_by("offset").to_pylist()
    return [
        SealedBlock(
            topic, partition, row["first_offset"], row["offset"], row["rows"], row["block_sha256"], row["chain_sha256"]
        )
        for row in found
    ]


def write_marks(lake: Lake, marks: pa.Table) -> None:
    """Add marks of an erasure, before its rows are erased. Raises `SinkUnavailable`."""
    log = DeltaLog(lake, ERASURE_MARKS)
    log.open()
    batches = marks.select(list(ERASURE_MARKS.names)).cast(ERASURE_MARKS.schema).combine_chunks().to_batches()
    if batches:
        log.commit([write_data_file(lake, ERASURE_MARKS, batches)], [])


def read_marks(lake: Lake, topic: str, partition: int) -> pa.Table:
    """Marks of a partition; an empty table where nothing was ever erased. Raises `SinkUnavailable`."""
    return _rows(lake, ERASURE_MARKS, topic, partition, None)


def _rows(lake: Lake, table: Table, topic: str, partition: int, version: int | None) -> pa.Table:
    try:
        dataset = lake.open(table.name, version).to_pyarrow_dataset()
        return dataset.to_table(filter=(pc.field("topic") == topic) & (pc.field("partition") == partition))
    except TableNotFoundError:
        return table.schema.empty_table()
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise SinkUnavailable(reason(error), table.name) from error


def commit_heads(lake: Lake, up_to: int) -> Iterator[RecordedHead]:
    """Heads in the commits of `events` that the log still holds, up to a version. Raises `SinkUnavailable`."""
    folder = lake.log_folder("events")
    try:
        paths = sorted(str(item["path"]) for page in obstore.list(lake.store, folder) for item in page)
        for path in paths:
            name = path.rpartition("/")[2]
            if not (name.endswith(".json") and name[:-5].isdecimal() and len(name) == 25 and int(name[:-5]) <= up_to):
                continue
            try:
                content = bytes(obstore.get(lake.store, path).bytes())
            except (FileNotFoundError, NotFoundError):
                # Cleaned up while we look.
                continue
            yield from _heads_in(content, int(name[:-5]))
    except (BaseError, OSError) as error:
        raise SinkUnavailable(reason(error), "events") from error


def _heads_in(content: bytes, version: int) -> Iterator[RecordedHead]:
    if b'"integrity"' not in content:
        return
    for line in content.splitlines():
        if b'"commitInfo"' not in line:
            continue
        for head in orjson.loads(line)["commitInfo"].get("integrity") or ():
            yield _recorded(head, f"version {version} of events")


def lake_heads(lake: Lake) -> Lake:
    """Where a lake keeps the newest head of each partition."""
    return Lake(f"{lake.uri}/{_HEADS}", lake.storage_options)


def write_head(folder: Lake, head: Mapping[str, Any]) -> bool:
    """Note the newest head of a partition in a folder of heads.

    Returns False, and changes nothing, where the folder knows a later one. Raises `SinkUnavailable`.
    """
    path = f"{quote(head['topic'], safe='')}/{head['partition']}.json"
    try:
        try:
            known = orjson.loads(bytes(obstore.get(folder.store, path).bytes()))
            if known["offset"] > head["offset"]:
                return False
        except (FileNotFoundError, NotFoundError, ValueError):
            pass
        obstore.put(folder.store, path, head_line({"format": FORMAT, **head}))
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"head of {head['topic']}/{head['partition']}: {reason(error)}") from error
    return True


def head_line(head: Mapping[str, Any]) -> bytes:
    """A head as a line of a head file."""
    return orjson.dumps({"format": FORMAT, **head}, option=orjson.OPT_APPEND_NEWLINE)


def read_heads(folder: Lake) -> list[RecordedHead]:
    """Heads of a folder of heads. Raises `SinkUnavailable`, and ValueError for a file that is none."""
    try:
        paths = [str(item["path"]) for page in obstore.list(folder.store) for item in page]
        return [
            head
            for path in sorted(paths)
            if path.endswith(".json")
            for head in parse_heads(bytes(obstore.get(folder.store, path).bytes()).splitlines(), f"head file {path}")
        ]
    except FileNotFoundError:
        return []
    except (BaseError, OSError) as error:
        raise SinkUnavailable(f"heads at {folder.uri}: {reason(error)}") from error


def parse_heads(lines: Iterable[bytes], source: str) -> list[RecordedHead]:
    """Read the lines of a head file. Raises ValueError naming the file and line."""
    heads = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            head = orjson.loads(line)
            if head["format"] != FORMAT:
                raise ValueError("another format")
            heads.append(_recorded(head, source))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{source} line {number} is no head of format {FORMAT}") from error
    return heads


def _recorded(head: Mapping[str, Any], source: str) -> RecordedHead:
    return RecordedHead(
        str(head["topic"]), int(head["partition"]), int(head["offset"]), int(head["rows"]), str(head["head"]),
        head.get("chain"), source,
    )  # fmt: skip
