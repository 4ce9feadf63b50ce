"""Data files of an export: JSON lines or Parquet, in shards, each with its hash. The same rows give the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trajlake.exporting.manifest import DataFileEntry
from trajlake.transforms.exporters.format import ExportFormat

ROW_GROUP_ROWS: Final = 10_000
ROW_GROUP_BYTES: Final = 16 << 20
"""Of its rows as JSON: what bounds memory where rows are long."""
_LINE: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


class _Hashed:
    """A file that hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        self._digest.update(view)
        self.size += len(view)
        return self._file.write(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self.closed = True

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class ShardWriter:
    """Writes rows to `data-00000.<suffix>` and so on, `shard_rows` in each."""

    def __init__(self, folder: Path, kind: ExportFormat, shard_rows: int) -> None:
        self._folder = folder
        self._kind = kind
        self._shard_rows = shard_rows
        self.files: list[DataFileEntry] = []
        self._rows = 0
        self._out: _Hashed | None = None
        self._parquet: pq.ParquetWriter | None = None
        self._held: list[dict[str, Any]] = []
        self._held_bytes = 0

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows in order. Raises `pa.ArrowInvalid` where one does not fit the format's schema."""
        for row in rows:
            if self._out is None:
                self._open()
            if self._kind.schema is None:
                assert self._out is not None
                self._out.write(orjson.dumps(row, option=_LINE))
            else:
                self._held.append(row)
                self._held_bytes += len(orjson.dumps(row))
                if len(self._held) >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
                    self._write_group()
            self._rows += 1
            if self._rows >= self._shard_rows:
                self._end()

    def close(self) -> list[DataFileEntry]:
        """End the last file; an export without rows is one empty file."""
        if self._out is None and not self.files:
            self._open()
        if self._out is not None:
            self._end()
        return self.files

    def _name(self) -> str:
        return f"data-{len(self.files):05d}.{self._kind.suffix}"

    def _open(self) -> None:
        self._out = _Hashed(self._folder / self._name())
        if self._kind.schema is not None:
            self._parquet = pq.ParquetWriter(
                self._out, self._kind.schema, compression="zstd", compression_level=3, version="2.6"
            )

    def _write_group(self) -> None:
        assert self._parquet is not None
        if self._held:
            self._parquet.write_table(pa.Table.from_pylist(self._held, schema=self._kind.schema))
        self._held, self._held_bytes = [], 0

    def _end(self) -> None:
        assert self._out is not None
        if self._parquet is not None:
            self._write_group()
            self._parquet.close()
        self._out.close()
        self.files.append(DataFileEntry(self._name(), self._out.size, self._out.sha256, self._rows))
        self._rows, self._out, self._parquet = 0, None, None
