"""How the cells of each column are kept in a DuckDB file, so that they come back as the very values that were read.

A value whose class DuckDB has a type for is kept in that type; its column can be filtered, sorted and grouped. Others
are kept as text, and are read back from it. What does not come back as it was is not kept: whether it does is checked
for each cell, by its class or, of texts, by writing it again.
"""

from __future__ import annotations

import datetime as dt
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.capabilities import capabilities_of
from dualsql.columns.database_types import is_single
from dualsql.columns.exact import Unfit, read_document
from dualsql.columns.instants import has_zone
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import Meaning, SQLType
from dualsql.columns.result import ResultColumn
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats import json
from dualsql.formats.arrow import ArrowCast
from dualsql.formats.cells import converters
from dualsql.formats.csv import begins_formula
from dualsql.formats.text import INT64_BOUND
from dualsql.formats.writer import Chunk, Rows, StreamEnd
from dualsql.sqlalchemy_dialects import ranges


class UnkeepableError(Exception):
    """A column has a cell that does not come back as it was."""


_MICROSECOND = dt.timedelta(microseconds=1)


def _instant(value: dt.datetime) -> dt.datetime:
    if value.utcoffset() != dt.timedelta():
        raise UnkeepableError
    return value.replace(tzinfo=None)


def _naive(value: Any) -> Any:
    if value.tzinfo is not None:
        raise UnkeepableError
    return value


def _digits(value: Decimal) -> str:
    if not value.is_finite():
        raise UnkeepableError
    return format(value, "f")


def _whole(value: Any) -> Any:
    if isinstance(value, Unfit) or not -INT64_BOUND <= value < INT64_BOUND:
        raise UnkeepableError
    return value


class _CellKind(NamedTuple):
    """How cells are kept.

    Attributes:
        sql: DuckDB's type. arrow: the name of pyarrow's function for the type in which they are handed over.
        classes: of the values; others: subclasses of these that are something else.
        write: makes what is handed over; None if that is the value. read: makes the value of what is kept.
    """

    sql: str
    arrow: str
    classes: tuple[type[Any], ...]
    others: tuple[type[Any], ...] = ()
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


_KINDS: Mapping[str, _CellKind] = {
    "integer": _CellKind("BIGINT", "int64", (int,), (bool,), _whole),
    "float": _CellKind("DOUBLE", "float64", (float,)),
    "boolean": _CellKind("BOOLEAN", "bool_", (bool,)),
    "text": _CellKind("VARCHAR", "string", (str,)),
    "decimal": _CellKind("VARCHAR", "string", (Decimal,), (), _digits, Decimal),
    "date": _CellKind("DATE", "date32", (dt.date,), (dt.datetime,)),
    "datetime": _CellKind("TIMESTAMP", "timestamp", (dt.datetime,), (), _naive),
    "instant": _CellKind(
        "TIMESTAMP", "timestamp", (dt.datetime,), (), _instant, lambda value: value.replace(tzinfo=dt.UTC)
    ),
    "time": _CellKind("TIME", "time64", (dt.time,), (), _naive),
    "interval": _CellKind(
        "BIGINT",
        "int64",
        (dt.timedelta,),
        (),
        # Exact: total_seconds() is a float.
        lambda value: value // _MICROSECOND,
        lambda value: value * _MICROSECOND,
    ),
    "uuid": _CellKind("VARCHAR", "string", (UUID,), (), str, UUID),
    "base64": _CellKind("BLOB", "binary", (bytes, bytearray, memoryview), (), bytes),
    "label": _CellKind("VARCHAR", "string", (str,), (), None, str),
    # Any class: see _CellTexts.
    "text of a value": _CellKind("VARCHAR", "string", (object,)),
}

SMALL_INTEGERS = "integer:53"
"""Whole numbers whose absolute values have a sum of at most 53 bits."""

_ORDERED = frozenset({"instant", "interval", "uuid"})
"""Kinds that are kept in another form, in the same order."""

_EQUAL = _ORDERED | {"label"}
"""Kinds whose forms are equal where the values are. Databases order labels by their meaning: amounts of money."""

_CAST = frozenset({"instant", "interval", "uuid", "decimal"})
"""Kinds that are kept as what Arrow has for the values, or as their text, where Arrow has none."""

_FACES: Mapping[str, Callable[[], SQLType]] = {
    "integer": types.BigInteger,
    "float": types.Double,
    "boolean": types.Boolean,
    "text": types.String,
    "date": types.Date,
    "datetime": types.DateTime,
    "time": types.Time,
    "base64": types.LargeBinary,
}
_STORED_TYPES: Mapping[str, SQLType] = {
    "instant": types.DateTime(),
    "interval": types.BigInteger(),
}
_SHOWN_TYPES: Mapping[str, tuple[SQLType, type[Any]]] = {
    "instant": (types.DateTime(timezone=True), dt.datetime),
    "interval": (types.Interval(), dt.timedelta),
    "uuid": (types.Uuid(), UUID),
    "decimal": (types.Numeric(), Decimal),
}


class KeptCell(ArrowCast, types.TypeDecorator[Any]):
    """The type of a kept column whose values are read back from another form.

    Args:
        kind: of `_KINDS`. shown: SQLAlchemy's type for the values. items: of a list, the encoding of its parts.
    """

    impl: SQLType | type[SQLType] = types.String
    cache_ok = True

    def __init__(
        self, kind: str = "text of a value", shown: SQLType = types.NULLTYPE, items: str = ""
    ) -> None:
        super().__init__()
        # Cursors carry what is stored.
        self.impl = _STORED_TYPES.get(kind, types.String())
        self.kind = kind
        self.shown = shown
        self.items = items
        self.is_cast = kind in _CAST

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(_STORED_TYPES.get(self.kind, types.String()))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None or self.kind not in _ORDERED:
            return value
        write = _KINDS[self.kind].write
        assert write is not None
        return write(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.read(value)

    def read(self, value: Any) -> Any:
        """The value that was kept."""
        read = _KINDS[self.kind].read
        return value_of_text(value, self.items) if read is None else read(value)

    @property
    def meaning(self) -> Meaning:
        """The meaning of its values."""
        type_, cls = _SHOWN_TYPES.get(self.kind, (self.shown, None))
        return Meaning(
            shown=type_,
            stored=_STORED_TYPES.get(self.kind, types.String()),
            shown_class=cls,
            binds=lambda value: self.process_bind_param(value, None),  # type: ignore[arg-type]
            reads=self.read,
            is_same=False,
            keeps_order=self.kind in _ORDERED,
            keeps_equality=self.kind in _EQUAL,
            is_zoned=True if self.kind == "instant" else None,
            name="kept as text",
        )


class SmallIntegers(types.BigInteger):
    """Whole numbers of a kept column, any sum of which is exact in doubles."""


class KeptMeanings(Meanings):
    """The meanings of the types of kept columns."""

    def of(self, type_: SQLType) -> Meaning:
        return type_.meaning if isinstance(type_, KeptCell) else super().of(type_)


def face_of(cell: str, column: ResultColumn) -> SQLType:
    """SQLAlchemy's type for a kept column.

    Args:
        cell: how its cells are kept, as `KeptFileWriter` said.
        column: of the live statement.
    """
    kind, _, detail = cell.partition(":")
    if kind == "decimal" and detail:
        # The precision that `KeptFileWriter.finish` gave the column.
        return types.Numeric(38, int(detail))
    if cell == SMALL_INTEGERS:
        return SmallIntegers()
    face = _FACES.get(kind)
    return face() if face is not None else KeptCell(kind, column.shown, _items(column))


def sql_type(cell: str) -> str:
    """DuckDB's type of a column."""
    return _KINDS[cell].sql


def is_cell(cell: object) -> bool:
    """Whether this is how some column can be kept."""
    kind, _, detail = cell.partition(":") if isinstance(cell, str) else ("", "", "")
    return kind in _KINDS and (
        not detail or cell == SMALL_INTEGERS or (kind == "decimal" and detail.isdecimal())
    )


def _items(column: ResultColumn) -> str:
    return str(column.describe().get("items", ""))


def text_of_value(value: Any) -> str:
    """A value of any class as text, with a letter before it that says how it is written."""
    if isinstance(value, Decimal) and value.is_finite():
        return f"d{value:f}"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"b{b64encode(value).decode()}"
    return f"j{json.dumps(value).decode()}"


def value_of_text(text: str, items: str) -> Any:
    """The value of a text of `text_of_value`, or one that every format writes in the same way."""
    form, rest = text[:1], text[1:]
    if form == "d":
        return Decimal(rest)
    if form == "b":
        return b64decode(rest)
    document = read_document(rest)
    return _dates(document) if items == "date" else document


def _dates(value: Any) -> Any:
    if isinstance(value, list):
        return [_dates(one) for one in value]
    return None if value is None else dt.date.fromisoformat(value)


@dataclass(frozen=True, slots=True)
class _CellTexts:
    """Writes cells of any class, and checks that each comes back as what every format writes in the same way."""

    items: str
    shown: Callable[[Any], Any]

    def __call__(self, value: Any) -> str:
        # Its text would come back as one of the column's own.
        if isinstance(value, Unfit):
            raise UnkeepableError
        one = self.shown(value)
        text = text_of_value(one)
        other = self.shown(value_of_text(text, self.items))
        # Not `==`: 1, 1.0 and True are equal, and are written differently.
        if json.dumps(one) != json.dumps(other):
            raise UnkeepableError
        if json.dumps(json.with_words(one)) != json.dumps(json.with_words(other)):
            raise UnkeepableError
        # CSV can be guarded against formulas, and only texts begin one.
        if isinstance(other, str) and not isinstance(one, str) and begins_formula(other):
            raise UnkeepableError
        return text


_OF_CLASSES: Mapping[type[Any], str] = {
    int: "integer",
    float: "float",
    str: "text",
    Decimal: "decimal",
    dt.date: "date",
    dt.datetime: "datetime",
    dt.time: "time",
}


def _kind_of(column: ResultColumn, values: Sequence[Any], dialect: Dialect) -> str:
    """How the cells of a column can be kept, if all are like these."""
    encoding = column.encoding
    classes = {type(value) for value in values if value is not None}
    if encoding == "any" and column.meaning.reads is None:
        return _kind_of_any(column, values, classes)
    if encoding == "datetime":
        keeps_zones = capabilities_of(dialect).keeps_zones
        return "instant" if has_zone(column, keeps_zones=keeps_zones) else "datetime"
    if encoding == "uuid" and classes == {str}:
        return "text"
    is_range = isinstance(column.shown, ranges.AbstractRange)
    return "text of a value" if is_range or encoding not in _KINDS else encoding


def _kind_of_any(column: ResultColumn, values: Sequence[Any], classes: set[type[Any]]) -> str:
    """How the cells of a column can be kept whose type says nothing of their class."""
    kind = _OF_CLASSES.get(next(iter(classes)), "") if len(classes) == 1 else ""
    if kind == "text" and not isinstance(column.shown, types.NullType):
        return "label"
    if kind in ("datetime", "time") and any(value is not None and value.tzinfo for value in values):
        return "text of a value"
    return kind or "text of a value"


class _KeptColumn:
    """Writes the cells of one column."""

    def __init__(self, column: ResultColumn, cell: str, dialect: Dialect) -> None:
        import pyarrow as pa

        self._kind = _KINDS[cell]
        self.name, self.cell = column.name, cell
        units = {"timestamp": ("us",), "time64": ("us",)}
        self.type = getattr(pa, self._kind.arrow)(*units.get(self._kind.arrow, ()))
        # As formats convert a value of the column before they write it.
        needed = converters([column], dialect)
        show: Callable[[Any], Any] = needed[0][1] if needed else lambda value: value
        self._write: Callable[[Any], Any] | None
        if cell == "text of a value":
            self._write = _CellTexts(_items(column), show)
        elif isinstance(column.shown, types.Enum):
            self._write = lambda value: _require_text(show(value))
            self._kind = self._kind._replace(classes=(object,))
        elif column.is_computed and cell == "integer":
            self._write = lambda value: _whole(show(value))
            self._kind = self._kind._replace(classes=(int, Decimal))
        else:
            self._write = self._kind.write

    def array(self, values: Sequence[Any]) -> Any:
        """The cells as an array of Arrow.

        Raises:
            UnkeepableError: one of them does not come back as it was.
        """
        import pyarrow as pa

        classes = {type(value) for value in values} - {type(None)}
        kind, write = self._kind, self._write
        if not all(issubclass(one, kind.classes) and not issubclass(one, kind.others) for one in classes):
            raise UnkeepableError
        # A subclass of the application's own may be written otherwise.
        if kind.classes != (object,) and not all(map(_is_plain, classes)):
            raise UnkeepableError
        if write is not None:
            values = [None if value is None else write(value) for value in values]
        return pa.array(values, type=self.type)


def _require_text(value: Any) -> str:
    if type(value) is not str:
        raise UnkeepableError
    return value


def _is_plain(cls: type[Any]) -> bool:
    return cls.__module__ in ("builtins", "datetime", "decimal", "uuid") or issubclass(cls, UUID)


_OF_ONE_VALUE = (ValueError, TypeError, OverflowError, LookupError, AttributeError)
"""What converters of types raise, and Arrow of numbers and texts that it cannot hold."""


_JSON_OID = 114
"""PostgreSQL's number of its type json, whose CSV is the text that was stored."""


class KeptWriter:
    """A Writer of streams: batches of Arrow, in the form in which the rows are kept.

    Args:
        most_first: how many of the first rows are remembered; fewer, if they are larger than `most_bytes`.

    Attributes:
        cells: how the cells of each column are kept; known with the first rows.
        refusal: why the rows cannot be kept, once that is seen. No rows are written from then on.
        copied: the argument of `note_csv`; empty for a database that does not write CSV itself.
        first_rows: as the database gave them.
        number: of all rows that the database gave.
    """

    def __init__(
        self, columns: Sequence[ResultColumn], dialect: Dialect, *, most_first: int = 0, most_bytes: int = 0
    ) -> None:
        self._columns = columns
        self._dialect = dialect
        self._most_first = most_first
        self._bytes_left = most_bytes
        self.first_rows: list[Sequence[Any]] = []
        self.number = 0
        self._kept_columns: list[_KeptColumn] | None = None
        self.refusal: str | None = None
        self.copied: list[int | None] = []

    def note_csv(self, numbers: Sequence[int | None]) -> None:
        self.copied = list(numbers)
        if _JSON_OID in self.copied:
            name = self._columns[self.copied.index(_JSON_OID)].name
            self.refusal = f"The column {name[:80]!r} has documents whose spaces are lost when they are read."

    @property
    def cells(self) -> list[str]:
        return [column.cell for column in self._kept_columns or self._start([])]

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema of the batches."""
        import pyarrow as pa

        # Not the result's names: one of them may be `n`, which numbers the rows.
        return pa.schema(
            [(f"c{index}", column.type) for index, column in enumerate(self._kept_columns or [])]
        )

    def head(self) -> bytes:
        return b""

    def rows(self, rows: Rows) -> Chunk:
        import pyarrow as pa

        self._remember(rows)
        if self.refusal is not None or not rows:
            return Chunk(b"", 0)
        values = list(zip(*rows))  # noqa: B905 - rows are equally long
        arrays = []
        for column, cells in zip(self._kept_columns or self._start(values), values, strict=True):
            try:
                arrays.append(column.array(cells))
            except (UnkeepableError, ValueNotRepresentableError, pa.ArrowException, *_OF_ONE_VALUE):
                self.refusal = f"The column {column.name[:80]!r} has a value that cannot be kept exactly."
                return Chunk(b"", 0)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Chunk(batch.serialize().to_pybytes(), batch.num_rows)

    def end(self, summary: StreamEnd) -> bytes:
        return b""

    def failure(self, error: Any, summary: StreamEnd) -> bytes | None:
        return None

    def _remember(self, rows: Rows) -> None:
        self.number += len(rows)
        for row in rows[: self._most_first - len(self.first_rows)]:
            self._bytes_left -= sum(len(value) for value in row if isinstance(value, str | bytes))
            if self._bytes_left < 0:
                self._most_first = len(self.first_rows)
                return
            self.first_rows.append(row)

    def _start(self, values: Sequence[Sequence[Any]]) -> list[_KeptColumn]:
        columns = values or [()] * len(self._columns)
        self._kept_columns = [
            _KeptColumn(column, _kind_of(column, cells, self._dialect), self._dialect)
            for column, cells in zip(self._columns, columns, strict=True)
        ]
        return self._kept_columns


# The uses for which kept cells give the answer of their database. For others, the rows come from the database.

Use = Literal["nulls", "compared", "sorted", "grouped", "computed"]
"""nulls: whether they are NULL, in conditions and counts; compared: in conditions, min, max and distinct counts;
sorted: by ORDER BY, without a collation of its own; grouped: by its values or by buckets of dates; computed: in sums,
averages and percentiles."""

_ALL: frozenset[Use] = frozenset({"compared", "sorted", "grouped", "computed"})
_NONE: frozenset[Use] = frozenset()

USES: Mapping[str, frozenset[Use]] = {
    "integer": _ALL,
    "float": _ALL,
    "boolean": _ALL,
    "text": _ALL,
    "date": _ALL,
    "datetime": _ALL,
    "time": _ALL,
    "base64": _ALL,
    "uuid": _ALL,
    # Buckets and bins of instants depend on a zone.
    "instant": frozenset({"compared", "sorted"}),
    "interval": frozenset({"compared", "sorted"}),
}
"""By how the cells are kept. Decimals have an entry where their number of digits is fixed."""


def uses_of(cell: str, column: ResultColumn, *, by_code_point: bool) -> frozenset[Use]:
    """What the cells of a column may be used for.

    Args:
        cell: how they are kept.
        column: of the live statement.
        by_code_point: whether its database compares and sorts all texts by code point.
    """
    # A JSON `null` is no NULL in its database, and is kept as one.
    nulls: frozenset[Use] = _NONE if isinstance(column.stored, types.JSON) else frozenset({"nulls"})
    return nulls | _of_values(cell, column, by_code_point=by_code_point)


def _of_values(cell: str, column: ResultColumn, *, by_code_point: bool) -> frozenset[Use]:
    kind, _, detail = cell.partition(":")
    uses = _ALL if kind == "decimal" and detail else USES.get(kind, _NONE)
    if column.meaning.reads is not None and not column.meaning.is_same and kind == "text":
        return _NONE  # an application's own values, kept as what it shows
    if isinstance(column.stored, types.CHAR):
        return _NONE  # databases pad it, and compare it without the padding
    computation = column.meanings.computation
    if kind == "decimal" and computation.in_doubles:
        return uses - {"computed"}  # the database has doubles for them, and adds those up
    if kind == "float" and is_single(column.stored):
        return uses - {"computed"}  # kept in the digits that are shown
    if kind == "text" and isinstance(column.stored, types.NullType) and not computation.is_loose:
        return _NONE  # values of a type of the database, such as PG_LSN, which has another order
    if kind == "boolean" and not computation.has_truths:
        return uses - {"sorted"}  # the database sorts the numbers that it has for them, such as 2
    if kind == "text":
        return _of_texts(column, uses, by_code_point=by_code_point)
    return uses


def _of_texts(column: ResultColumn, uses: frozenset[Use], *, by_code_point: bool) -> frozenset[Use]:
    if isinstance(column.shown, types.Enum):
        return frozenset({"compared"})  # sorted by their place in the type, on some databases
    return uses if by_code_point else uses - {"sorted"}


def sorts_alike(column: ResultColumn, *, by_code_point: bool) -> bool:
    """Whether rows of an answer stand in the same order by this column of it, in its database and on kept rows."""
    if isinstance(column.shown, types.Enum) or isinstance(column.stored, types.CHAR):
        return False
    if column.encoding == "boolean" and not column.meanings.computation.has_truths:
        return False
    return column.encoding != "any" and (by_code_point or column.encoding != "text")
