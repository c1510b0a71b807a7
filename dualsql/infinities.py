"""Dates and timestamps of PostgreSQL and DuckDB, bound and read exactly, the infinities among them.

Both databases know the dates 'infinity' and '-infinity'; Python has none. asyncpg uses date.max, date.min, datetime.max
and datetime.min for them, in both directions: `valid_to = '9999-12-31'` is sent as `valid_to = 'infinity'`, and a
stored infinity is read as 9999-12-31; the drivers of DuckDB and psycopg2 do the latter, and psycopg raises an error.

asyncpg  binds as text, which PostgreSQL casts: $1::TEXT::DATE. It returns one object of its own for each infinity, and
         a new object for each date: they are told apart by identity, which costs two comparisons.
DuckDB   the same, for reading.
         It gives values of "char", a type of one byte, as bytes, which are read as the texts that they are.
psycopg  loaders that give the text of what no Python date can hold, for the length of a session; so for psycopg2.

The types stand in a copy of the engine's dialect: a connection, which may be the application's, keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.columns import CharByte, plain_type
from dualsql_client.wire import INFINITIES

_OIDS = (1082, 1114, 1184)
"""PostgreSQL's numbers of date, timestamp and timestamptz."""

_CHAR = 18
"""PostgreSQL's number of "char", a type of one byte."""


class ExactDate(types.Date):
    """A date as asyncpg takes and gives it, without its infinities."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _date_text

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return Reader(*_of_asyncpg("date"))


class ExactDateTime(types.DateTime):
    """A timestamp as asyncpg takes and gives it, without its infinities."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _zoned_text if self.timezone else _local_text

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return Reader(*_of_asyncpg("datetime"))


class ExactUntyped(types.NullType):
    """What asyncpg gives for a column of no declared type; dates are known by PostgreSQL's number of their type."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        if coltype == _CHAR:
            return _char
        if coltype not in _OIDS:
            return None
        return Reader(*_of_asyncpg("date" if coltype == _OIDS[0] else "datetime"))


class CharText(types.String):
    """What asyncpg takes and gives for texts; those of the type "char", of one byte, it gives as bytes."""

    render_bind_cast = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _char if coltype == _CHAR else None


class CharCHAR(types.CHAR):
    """The same for a column that is declared CHAR."""

    render_bind_cast = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _char if coltype == _CHAR else None


def _char(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    return CharByte(value.strip(b"\x00").decode() if value < b"\x80" else f"\\{value[0]:03o}")


class DuckDBDate(types.Date):
    """A date as DuckDB's driver gives it."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return Reader(date.max, date.min)


class DuckDBDateTime(types.DateTime):
    """A timestamp as DuckDB's driver gives it."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return Reader(datetime.max, datetime.min)  # noqa: DTZ901 - the very objects


_TYPES: Mapping[str, Mapping[type[Any], type[Any]]] = {
    "asyncpg": {
        types.Date: ExactDate,
        types.DateTime: ExactDateTime,
        types.NullType: ExactUntyped,
        types.String: CharText,
        types.CHAR: CharCHAR,
    },
    "duckdb_sqlalchemy": {types.Date: DuckDBDate, types.DateTime: DuckDBDateTime},
}
"""By the name of the driver."""


def with_exact_dates(dialect: Any) -> None:
    """Give a copy of an engine's dialect the types above, where its driver needs them."""
    if dialect.driver not in _TYPES:
        return
    dialect.colspecs = {**dialect.colspecs, **_TYPES[dialect.driver]}
    dialect._type_memos = WeakKeyDictionary()  # noqa: SLF001 - what the engine's own dialect knows of its types


def bound_as_text(type_: Any) -> str | None:
    """The type that a parameter of such a type has before it is cast; None where it has its own."""
    if isinstance(type_, ExactDate | ExactDateTime):
        return "TEXT"
    if isinstance(type_, types.ARRAY) and isinstance(
        plain_type(type_.item_type), types.Date | types.DateTime
    ):
        return "TEXT[]"
    return None


# --- binding ---------------------------------------------------------------------------------------------------


def _date_text(value: Any) -> Any:
    if isinstance(value, datetime):
        value = value.date()
    return value.isoformat() if isinstance(value, date) else _word(value, "a date")


def _local_text(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        # PostgreSQL would read the text and leave its zone out.
        raise ValueError("An instant with a zone was bound to a timestamp without time zone.")
    return value.isoformat() if isinstance(value, date) else _word(value, "a datetime")


def _zoned_text(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return _word(value, "a datetime")
    return (value if value.tzinfo is not None else _with_zone(value)).isoformat()


def _with_zone(value: datetime) -> datetime:
    """An instant without a zone, in this process's own, as asyncpg takes it."""
    try:
        return value.astimezone()
    except (OverflowError, ValueError):  # the ends of year 1 and year 9999 have no other zone
        return value.replace(tzinfo=UTC)


def _word(value: Any, wanted: str) -> Any:
    if value is None or value in INFINITIES:
        return value
    raise TypeError(f"Expected {wanted}, got {type(value).__name__}.")


# --- reading ---------------------------------------------------------------------------------------------------


def _of_asyncpg(kind: str) -> tuple[Any, Any]:
    """The objects that stand for infinity and for -infinity."""
    from asyncpg.pgproto import pgproto  # type: ignore[import-untyped]  # noqa: TID251 - it names the objects

    return getattr(pgproto, f"infinity_{kind}"), getattr(pgproto, f"negative_infinity_{kind}")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a driver's value: its objects for the infinities as their texts, all else as it is."""

    high: Any
    low: Any

    def __call__(self, value: Any) -> Any:
        if value is self.high:
            return INFINITIES[0]
        return INFINITIES[1] if value is self.low else value

    def changes_any(self, values: Collection[Any]) -> bool:
        """Whether one of the values may be read as another one; a tenth of the time of reading them."""
        return self.high in values or self.low in values


@contextmanager
def loading_exactly(driver: Any) -> Iterator[None]:
    """In the block, the connection gives dates beyond Python's as PostgreSQL's text.

    A connection of psycopg or psycopg2 has its own loaders back afterwards; others are left alone.
    """
    if hasattr(driver, "adapters"):
        yield from _loading_with_psycopg(driver.adapters)
    elif hasattr(driver, "string_types"):
        yield from _loading_with_psycopg2(driver)
    else:
        yield


def _loading_with_psycopg(adapters: Any) -> Iterator[None]:
    own = {oid: adapters.get_loader(oid, 0) for oid in _OIDS}  # 0: as text, which SQLAlchemy asks for
    for oid, loader in own.items():
        adapters.register_loader(oid, _or_text(loader))
    try:
        yield
    finally:
        for oid, loader in own.items():
            adapters.register_loader(oid, loader)


def _loading_with_psycopg2(connection: Any) -> Iterator[None]:
    from psycopg2 import extensions  # type: ignore[import-untyped]

    own = dict(connection.string_types)
    for oid in _OIDS:
        read = own.get(oid) or extensions.string_types[oid]
        extensions.register_type(extensions.new_type((oid,), "DATE_OR_TEXT", _or_word(read)), connection)
    try:
        yield
    finally:
        connection.string_types.clear()
        connection.string_types.update(own)


def _or_word(read: Any) -> Callable[[Any, Any], Any]:
    def load(value: Any, cursor: Any) -> Any:
        if value in INFINITIES:
            return value
        try:
            return read(value, cursor)
        except ValueError:
            return value

    return load


@cache
def _or_text(loader: Any) -> Any:
    """A loader that gives the text where `loader` fails."""
    from psycopg import DataError
    from psycopg.adapt import Loader

    class OrText(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._inner = loader(oid, context)

        def load(self, data: Any) -> Any:
            try:
                return self._inner.load(data)
            except DataError:
                return bytes(data).decode()

    return OrText
