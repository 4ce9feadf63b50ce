"""What the log of a table says of the files that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from deltalake import DeltaTable


def add_actions(stored: DeltaTable) -> pa.Table:
    """Files of the table's version, one row each: `path`, `size_bytes`, `num_records`, statistics (`min.offset`, ...).

    Read as a stream: `pyarrow.table()` imports pandas to see whether it was given a frame, which takes a second.
    """
    return pa.RecordBatchReader.from_stream(stored.get_add_actions(flatten=True)).read_all()
