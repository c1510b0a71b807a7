"""Rows as an Arrow IPC stream or a Parquet file; the rule: the counts are in the last thing written.

Arrow: the last message is a batch of no rows whose custom metadata holds `rows` and `complete`, or `problem`, as
the last record of NDJSON has them. Parquet: the footer has the number of rows, and `dualsql.complete`; a stream that
failed has no footer, and is no Parquet file.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats import json
from dualsql.formats.arrow_types import ArrowSchema
from dualsql.formats.ndjson import problem
from dualsql.formats.writer import Chunk, Options, Rows, Summary

ROW_GROUP_BYTES = 8 * 1024 * 1024
"""In memory, as Arrow has it: what is held back until a row group is written."""

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
# Where a message's length should stand, a length that no message follows: a reader that does not look at metadata
# must not take a stream that failed for a whole one.
_CUT_OFF = b"\xff\xff\xff\xff\x08\x00\x00\x00"


@runtime_checkable
class BatchWriter(Protocol):
    """A writer that takes Arrow's batches, too.

    Attributes:
        arrow: the schema of the batches.
    """

    arrow: ArrowSchema

    def batch(self, batch: Any) -> Chunk:
        """A pyarrow.RecordBatch of the schema. Its bytes may come with a later chunk."""
        ...


class ArrowWriter:
    """An Arrow IPC stream; a BatchWriter."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: Options) -> None:
        self.arrow = ArrowSchema(columns, dialect, options.text_columns)

    def head(self) -> bytes:
        # It stands alone, before the first row: the rest of a broken stream has none.
        return bytes(self.arrow.schema.serialize().to_pybytes())

    def rows(self, rows: Rows) -> Chunk:
        return self.batch(self.arrow.batch(rows))

    def batch(self, batch: Any) -> Chunk:
        """See `BatchWriter.batch`."""
        return Chunk(batch.serialize().to_pybytes(), batch.num_rows)

    def end(self, summary: Summary) -> bytes:
        return self._said(summary._asdict()) + _END

    def failure(self, error: DualResponseError, summary: Summary) -> bytes | None:
        return self._said({"problem": problem(error, summary)}) + _CUT_OFF

    def _said(self, said: dict[str, Any]) -> bytes:
        """A batch without rows; only a stream of pyarrow's writes metadata beside one."""
        from pyarrow import ipc

        sink = _Sink()
        stream = ipc.new_stream(sink.file, self.arrow.schema)
        stream.write_batch(
            self.arrow.empty(), custom_metadata={name: json.dumps(value) for name, value in said.items()}
        )
        return sink.taken()[self.arrow.schema.serialize().size :]


class ParquetWriter:
    """A Parquet file, whose row groups are written as they fill; a BatchWriter."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: Options) -> None:
        self.arrow = ArrowSchema(columns, dialect, options.text_columns)
        self._sink = _Sink()
        self._file: Any = None
        self._held: list[Any] = []
        self._size = 0

    def head(self) -> bytes:
        from pyarrow import parquet

        # Dictionaries are kept for the length of a row group: it is small.
        self._file = parquet.ParquetWriter(self._sink.file, self.arrow.schema, compression="zstd")
        return self._sink.taken()

    def rows(self, rows: Rows) -> Chunk:
        return self.batch(self.arrow.batch(rows))

    def batch(self, batch: Any) -> Chunk:
        """See `BatchWriter.batch`."""
        self._held.append(batch)
        self._size += batch.nbytes
        if self._size >= ROW_GROUP_BYTES:
            self._write_held()
        return Chunk(self._sink.taken(), batch.num_rows, batch.nbytes)

    def end(self, summary: Summary) -> bytes:
        self._write_held()
        self._file.add_key_value_metadata(
            {f"dualsql.{name}": json.dumps(value).decode() for name, value in summary._asdict().items()}
        )
        self._file.close()
        return self._sink.taken()

    def failure(self, error: DualResponseError, summary: Summary) -> bytes | None:
        return None

    def _write_held(self) -> None:
        from pyarrow import Table

        if self._held:
            held, self._held, self._size = self._held, [], 0
            table = Table.from_batches(held)
            self._file.write_table(table, row_group_size=table.num_rows)


class _Sink:
    """A file that only grows, and whose bytes are taken as they come."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._raw = _Raw()
        self.file = pa.PythonFile(self._raw, mode="w")

    def taken(self) -> bytes:
        """What was written since the last time."""
        return self._raw.taken()


class _Raw(io.RawIOBase):
    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # The memory is Arrow's own, and is used again.
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
