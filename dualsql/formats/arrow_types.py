"""The Arrow schema of a result; the rule: it is read off the Select, so every way to read the rows has the same.

What Arrow has no exact type for is text, written as JSON has it. Each field says in its metadata what its values
are: `dualsql.encoding`, and for lists `dualsql.items`, in the words of `dualsql_client.wire.Encoding`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column as TableColumn
from sqlalchemy import Label, types
from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn, plain_type
from dualsql.dialects import capabilities_of
from dualsql.errors import BadParameterError, QueryExecutionError
from dualsql.formats import json
from dualsql.formats.writer import Rows
from dualsql_client.wire import Column

_DIGITS = 38
"""The most that a decimal128 holds."""

_LISTED = frozenset({"integer", "float", "boolean", "text", "date"})


class ArrowSchema:
    """A schema, and how rows become batches of it.

    Attributes:
        schema: a pyarrow.Schema.

    Raises:
        BadParameterError: pyarrow is not installed.
    """

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect) -> None:
        self._pa = _pyarrow()
        self.schema = self._pa.schema([self._field(column, dialect) for column in columns])
        self._converters = json.converters(columns, dialect)
        texts = [(place, _as_text(column)) for place, column in enumerate(columns)]
        self._texts = [(place, as_text) for place, as_text in texts if as_text is not None]

    def batch(self, rows: Rows) -> Any:
        """The rows, at least one of them, as a pyarrow.RecordBatch.

        Raises:
            QueryExecutionError: a value is not what its column declares.
        """
        ready = json.converted(json.converted(rows, self._converters), self._texts)
        return self.batch_of_columns(list(zip(*ready)))  # noqa: B905 - rows are equally long

    def batch_of_columns(self, columns: Sequence[Any]) -> Any:
        """Columns of values, or Arrow's own arrays, as a pyarrow.RecordBatch."""
        try:
            arrays = [
                self._array(values, field.type) for values, field in zip(columns, self.schema, strict=True)
            ]
            return self._pa.record_batch(arrays, schema=self.schema)
        except (self._pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise QueryExecutionError(
                "A value of the result is not what its column declares.",
                hint="Ask for NDJSON or CSV, or CAST that column.",
            ) from error

    def empty(self) -> Any:
        """A batch of no rows."""
        # pa.array() would import pandas, where it is installed, to ask whether a list is one of its own.
        return self._pa.record_batch(
            [self._pa.nulls(0, field.type) for field in self.schema], schema=self.schema
        )

    def _array(self, values: Any, type_: Any) -> Any:
        if isinstance(values, self._pa.Array):
            return values if values.type == type_ else values.cast(type_)
        try:
            return self._pa.array(values, type=type_)
        except self._pa.ArrowTypeError:
            if type_ != self._pa.string():
                raise
            # A range, or whatever a database keeps in a column of texts. Asked for only now: almost all are texts.
            return self._pa.array([None if value is None else str(value) for value in values], type=type_)

    def _field(self, column: ResultColumn, dialect: Dialect) -> Any:
        described = column.describe()
        metadata = {"dualsql.encoding": described["encoding"]}
        if "items" in described:
            metadata["dualsql.items"] = described["items"]
        return self._pa.field(column.name, self._type(column, described, dialect), metadata=metadata)

    def _type(self, column: ResultColumn, described: Column, dialect: Dialect) -> Any:
        pa, plain, encoding = self._pa, plain_type(column.type), described["encoding"]
        if isinstance(plain, types.DateTime):
            return pa.timestamp("us", tz="UTC" if plain.timezone and _keeps_zones(dialect) else None)
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
    """Precision and scale, for a column of a table: what is computed from one (a sum) may have more."""
    inner: Any = column.expression
    while isinstance(inner, Label):
        inner = inner.element
    plain: Any = plain_type(column.type)
    if not isinstance(inner, TableColumn) or not isinstance(plain, types.Numeric):
        return None
    if plain.precision is None or plain.scale is None or not plain.scale <= plain.precision <= _DIGITS:
        return None
    return plain.precision, plain.scale


def is_list(column: ResultColumn) -> bool:
    """Whether an array becomes a list; one of anything but plain items is text."""
    plain = plain_type(column.type)
    if not isinstance(plain, types.ARRAY) or plain.dimensions not in {None, 1}:
        return False
    return column.describe()["items"] in _LISTED


def _as_text(column: ResultColumn) -> Callable[[Any], Any] | None:
    """What makes text of the values that Arrow has no type for; they are written as in JSON."""
    encoding = column.describe()["encoding"]
    if encoding == "decimal":
        return None if declared_digits(column) else lambda value: format(value, "f")
    if encoding == "uuid":
        return str
    if encoding in {"json", "any"} or (encoding == "array" and not is_list(column)):
        return lambda value: json.dumps(value).decode()
    return None


def _keeps_zones(dialect: Dialect) -> bool:
    abilities = capabilities_of(dialect)
    return abilities is not None and abilities.keeps_zones


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadParameterError(
            "This server cannot write Arrow or Parquet.", hint="On the server: pip install 'dualsql[arrow]'"
        ) from error
    return pa
