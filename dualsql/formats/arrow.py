"""Rows as an Arrow IPC stream or a Parquet file, with the schema read off the Select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import time
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from sqlalchemy import Column as TableColumn, Label, types
from sqlalchemy.engine import Dialect

from dualsql.capabilities import capabilities_of
from dualsql.columns.exact import JSON_NULL, Unfit
from dualsql.columns.instants import has_zone
from dualsql.columns.result import ResultColumn
from dualsql.errors import BadParameterError, DualResponseError, ValueNotRepresentableError
from dualsql.formats import cells, json
from dualsql.formats.fits import KINDS, ColumnFit, fit_of
from dualsql.formats.memory_file import MemoryFile
from dualsql.formats.ndjson import problem
from dualsql.formats.writer import Chunk, Rows, StreamEnd, WriterOptions
from dualsql.sqlalchemy_dialects import ranges
from dualsql_client.wire import Column

_DIGITS = 38
"""The most that a decimal128 holds."""

_LISTED = frozenset({"integer", "float", "boolean", "text", "date"})
_LISTED_KINDS = {encoding: KINDS[encoding] for encoding in _LISTED}


@dataclass(frozen=True, slots=True)
class ListFit(ColumnFit):
    """Lists of such values, in one dimension."""

    def holds(self, *columns: Sequence[Any]) -> bool:
        lists = [value for value in chain.from_iterable(columns) if value is not None]
        return set(map(type, lists)) <= {list} and ColumnFit.holds(self, *lists)


@dataclass(frozen=True, slots=True)
class ZonedFit(ColumnFit):
    """Values that all have a time zone, or none of which has one."""

    has_zone: bool = False

    def holds(self, *columns: Sequence[Any]) -> bool:
        if not ColumnFit.holds(self, *columns):
            return False
        instants = filter(None, chain.from_iterable(columns))
        return all((instant.tzinfo is not None) is self.has_zone for instant in instants)


class ArrowCast:
    """A type whose stored values may be converted for streams by Arrow's cast, without Python code.

    Attributes:
        is_cast: whether the cast gives the right values for this type.
    """

    is_cast: bool = False


class ArrowSchema:
    """An Arrow schema, and the conversion of rows to its batches.

    A column for which Arrow has no exact type is text, written as in JSON. The metadata of each field describe its
    values: `dualsql.encoding`, and for lists `dualsql.items`, as in `dualsql_client.wire.Encoding`.

    Attributes:
        schema: a pyarrow.Schema.
        texts: positions of the columns that are requested as text.

    Raises:
        BadParameterError: pyarrow is not installed.
    """

    def __init__(
        self, columns: Sequence[ResultColumn], dialect: Dialect, text_columns: Sequence[str] = ()
    ) -> None:
        self._pa = _pyarrow()
        self.texts = [position for position, column in enumerate(columns) if column.name in text_columns]
        self.schema = self._pa.schema(
            [
                self._text_field(column.name) if position in self.texts else self._field(column, dialect)
                for position, column in enumerate(columns)
            ]
        )
        self._converters = cells.converters(columns, dialect)
        texts = [
            (position, None if position in self.texts else _as_text(column, dialect))
            for position, column in enumerate(columns)
        ]
        self._text_functions = [(position, as_text) for position, as_text in texts if as_text is not None]
        self._fits = [
            ColumnFit((str,)) if self._pa.types.is_string(field.type) else _strict_fit(column, field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]

    def batch(self, rows: Rows) -> Any:
        """The rows, at least one of them, as a pyarrow.RecordBatch.

        Raises:
            ValueNotRepresentableError: a value is not what its column declares.
        """
        ready = cells.converted(cells.converted(rows, self._converters), self._text_functions)
        ready = cells.with_texts(ready, self.texts)
        return self.batch_of_columns(list(zip(*ready)))  # noqa: B905 - rows are equally long

    def batch_of_columns(self, columns: Sequence[Any]) -> Any:
        """Columns of values, or Arrow's own arrays, as a pyarrow.RecordBatch.

        Raises:
            ValueNotRepresentableError: a value is not what its column declares.
        """
        arrays = [self._array(position, values) for position, values in enumerate(columns)]
        return self._pa.record_batch(arrays, schema=self.schema)

    def is_unconverted(self, position: int) -> bool:
        """Whether the values of a column are converted by nothing but its Arrow type, or its text."""
        return position not in self.texts and position not in dict(self._converters)

    def column(self, position: int, values: Iterable[Any]) -> Sequence[Any]:
        """The values of one column, as `batch_of_columns` takes them."""
        converter = dict(self._converters).get(position)
        as_text = json.text if position in self.texts else dict(self._text_functions).get(position)
        for convert in (converter, as_text):
            if convert is not None:
                values = [
                    value if value is None or type(value) is Unfit else convert(value) for value in values
                ]
        return list(values)

    def empty(self) -> Any:
        """A batch of no rows."""
        # pa.array() would import pandas, if installed, to check for its types.
        return self._pa.record_batch(
            [self._pa.nulls(0, field.type) for field in self.schema], schema=self.schema
        )

    def unfit(self, position: int) -> ValueNotRepresentableError:
        """The error for a column with a value that its Arrow type cannot hold."""
        field = self.schema.field(position)
        return ValueNotRepresentableError(
            f"The column {field.name[:80]!r} holds a value that is not {field.type}.",
            hint=f'Repeat the request with text_columns=["{field.name[:80]}"] to get the column as text.',
            details={"column": field.name, "type": str(field.type), "text_columns": [field.name]},
        )

    def _array(self, position: int, values: Any) -> Any:
        """An array of checked values. Without the check, Arrow would truncate 2.5 to 2 and an instant to its date."""
        type_, fit = self.schema.field(position).type, self._fits[position]
        try:
            if isinstance(values, self._pa.Array):
                return without_residue(values if values.type == type_ else values.cast(type_))
            if not fit.holds(values):
                values = [fit.fitted("null" if value is JSON_NULL else value) for value in values]
            elif type_ == self._pa.float64() and int in set(map(type, values)):
                # Arrow refuses each whole number beyond 2**53, also those that a double holds.
                values = [float(value) if type(value) is int else value for value in values]
            return self._pa.array(values, type=type_)
        except (self._pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self.unfit(position) from error

    def _text_field(self, name: str) -> Any:
        return self._pa.field(name, self._pa.string(), metadata={"dualsql.encoding": "text"})

    def _field(self, column: ResultColumn, dialect: Dialect) -> Any:
        described = column.describe()
        metadata = {"dualsql.encoding": described["encoding"]}
        if "items" in described:
            metadata["dualsql.items"] = described["items"]
        return self._pa.field(column.name, self._type(column, described, dialect), metadata=metadata)

    def _type(self, column: ResultColumn, described: Column, dialect: Dialect) -> Any:
        pa, plain, encoding = self._pa, column.shown, described["encoding"]
        if encoding == "datetime":
            zone = "UTC" if has_zone(column, keeps_zones=capabilities_of(dialect).keeps_zones) else None
            return pa.timestamp("us", tz=zone)
        if isinstance(plain, types.Time) and plain.timezone and capabilities_of(dialect).keeps_zones:
            return pa.string()  # Arrow's times have no zone
        if encoding == "decimal" and (digits := declared_digits(column)):
            return pa.decimal128(*digits)
        if is_list(column):
            return pa.list_(self._plain_types()[described["items"]])
        return self._plain_types().get(encoding) or pa.string()

    def _plain_types(self) -> dict[str, Any]:
        pa = self._pa
        return {
            "integer": pa.int64(),
            "float": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.date32(),
            "time": pa.time64("us"),
            "interval": pa.duration("us"),
            "base64": pa.binary(),
            "text": pa.string(),
        }


def declared_digits(column: ResultColumn) -> tuple[int, int] | None:
    """Precision and scale of a column of a table. Computed values, such as a sum, may have more digits."""
    inner: Any = column.expression
    while isinstance(inner, Label):
        inner = inner.element
    plain: Any = column.shown
    if not isinstance(inner, TableColumn) or not isinstance(plain, types.Numeric):
        return None
    if plain.precision is None or plain.scale is None or not plain.scale <= plain.precision <= _DIGITS:
        return None
    return plain.precision, plain.scale


def is_list(column: ResultColumn) -> bool:
    """Whether an array becomes an Arrow list. Arrays of other than plain items become text."""
    plain = column.shown
    if not isinstance(plain, types.ARRAY) or plain.dimensions not in {None, 1}:
        return False
    return column.describe()["items"] in _LISTED


def _strict_fit(column: ResultColumn, type_: Any) -> ColumnFit:
    """The values that an Arrow type holds unchanged."""
    import pyarrow as pa

    if is_list(column):
        kinds = _LISTED_KINDS[column.describe()["items"]]
        return ListFit(*kinds)
    fit = fit_of(column)
    if pa.types.is_timestamp(type_):
        return ZonedFit(fit.kinds, fit.excluded, has_zone=type_.tz is not None)
    return ZonedFit(fit.kinds, fit.excluded) if pa.types.is_time(type_) else fit


def _as_text(column: ResultColumn, dialect: Dialect) -> Callable[[Any], Any] | None:
    """A function that writes values without an Arrow type as text, as in JSON; None if none is needed."""
    encoding, plain = column.encoding, column.shown
    if encoding == "decimal":
        return None if declared_digits(column) else _digits
    if encoding == "uuid":
        return lambda value: str(value) if isinstance(value, UUID) else value
    if isinstance(plain, ranges.AbstractRange):
        return _range
    if isinstance(plain, types.Time) and plain.timezone and capabilities_of(dialect).keeps_zones:
        return lambda value: value.isoformat() if isinstance(value, time) else value
    if encoding == "any":
        return _plainly
    if encoding == "json" or (encoding == "array" and not is_list(column)):
        return lambda value: json.dumps(json.with_words(value)).decode()
    return None


def _plainly(value: Any) -> str:
    """A value of no announced kind as text, as in CSV: as in JSON, without the quotes of a string."""
    text = json.dumps(json.with_words(value))
    return str(json.loads(text)) if text.startswith(b'"') else text.decode()


def _digits(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if type(value) is int else value


def _range(value: Any) -> Any:
    """A range as text; a multirange as JSON."""
    if isinstance(value, ranges.Range):
        return json.text(value)
    return json.dumps(value).decode() if isinstance(value, list | tuple) else value


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadParameterError(
            "This server cannot write Arrow or Parquet.",
            hint="Use ndjson, json or csv. For these formats, its operator installs dualsql[arrow].",
            developer_hint="pip install 'dualsql[arrow]'",
        ) from error
    return pa


ROW_GROUP_BYTES = 8 * 1024 * 1024
"""Bytes in memory, in Arrow's layout, that are collected before a row group is written."""

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def without_residue(array: Any) -> Any:
    """The array with zeros in the places of NULLs.

    DuckDB and Arrow's own kernels leave there what the memory held before, such as addresses. A stream would send it.
    """
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_list(array.type):
        items = without_residue(array.values)
        buffers = array.buffers()[:2]
        return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset, [items])
    if not array.null_count or not (
        pa.types.is_primitive(array.type)
        or pa.types.is_decimal(array.type)
        or pa.types.is_fixed_size_binary(array.type)
    ):
        return array
    zeros = pa.py_buffer(bytes(1 + array.type.bit_width // 8))
    zero = pa.Array.from_buffers(array.type, 1, [None, zeros])[0]
    values, valid = compute.fill_null(array, zero), array.is_valid()
    buffers = [compute.and_(valid, valid).buffers()[1], values.buffers()[1]]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, values.offset)


# The length of a message that does not follow: a reader that ignores metadata must not treat a failed stream as
# complete.
_NO_MESSAGE = b"\xff\xff\xff\xff\x08\x00\x00\x00"


class ArrowWriter:
    """An Arrow IPC stream; a BatchWriter.

    The last message is a batch without rows. Its custom metadata have `rows` and `complete`, or `problem`, as the last
    record of NDJSON has.
    """

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self.arrow = ArrowSchema(columns, dialect, options.text_columns)

    def head(self) -> bytes:
        # The schema is sent once, before the first row. The rest of a resumed stream has no schema.
        return bytes(self.arrow.schema.serialize().to_pybytes())

    def rows(self, rows: Rows) -> Chunk:
        return self.batch(self.arrow.batch(rows))

    def batch(self, batch: Any) -> Chunk:
        return Chunk(batch.serialize().to_pybytes(), batch.num_rows)

    def end(self, summary: StreamEnd) -> bytes:
        return self._metadata(summary._asdict()) + _END

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return self._metadata({"problem": problem(error, summary)}) + _NO_MESSAGE

    def _metadata(self, metadata: dict[str, Any]) -> bytes:
        """A batch without rows. pyarrow writes custom metadata of a batch in a stream only."""
        from pyarrow import ipc

        sink = MemoryFile()
        stream = ipc.new_stream(sink, self.arrow.schema)
        stream.write_batch(
            self.arrow.empty(), custom_metadata={name: json.dumps(value) for name, value in metadata.items()}
        )
        # Without the schema, which the stream has sent before.
        return sink.drain()[self.arrow.schema.serialize().size :]


class ParquetWriter:
    """A Parquet file; each row group is written when it is full. A BatchWriter.

    The footer has the number of rows and `dualsql.complete`. A failed stream has no footer, so it is not a valid
    Parquet file.
    """

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self.arrow = ArrowSchema(columns, dialect, options.text_columns)
        self._sink = MemoryFile()
        self._file: Any = None
        self._batches: list[Any] = []
        self._size = 0

    def head(self) -> bytes:
        from pyarrow import parquet

        # Parquet keeps dictionaries for one row group, so row groups are small.
        self._file = parquet.ParquetWriter(self._sink, self.arrow.schema, compression="zstd")
        return self._sink.drain()

    def rows(self, rows: Rows) -> Chunk:
        return self.batch(self.arrow.batch(rows))

    def batch(self, batch: Any) -> Chunk:
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size >= ROW_GROUP_BYTES:
            self._write_batches()
        return Chunk(self._sink.drain(), batch.num_rows, batch.nbytes)

    def end(self, summary: StreamEnd) -> bytes:
        self._write_batches()
        self._file.add_key_value_metadata(
            {f"dualsql.{name}": json.dumps(value).decode() for name, value in summary._asdict().items()}
        )
        self._file.close()
        return self._sink.drain()

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None

    def _write_batches(self) -> None:
        from pyarrow import Table

        if self._batches:
            batches, self._batches, self._size = self._batches, [], 0
            table = Table.from_batches(batches)
            self._file.write_table(table, row_group_size=table.num_rows)
