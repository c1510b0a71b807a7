"""Exact values of PostgreSQL, where drivers would round, confuse or refuse them.

asyncpg uses Python's last and first date for the infinities, and psycopg and psycopg2 fail at values without a Python
class. In dualsql's sessions, these types and loaders replace theirs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta
from functools import cache, partial
from importlib import import_module
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.capabilities import DriverValues
from dualsql.columns.exact import ValueReader, read_document, reads_for_an_application
from dualsql.databases.strict_types import list_of_dates_as_text
from dualsql_client.wire import INFINITIES


class CharByte(str):
    """A value of PostgreSQL's "char" as text; asyncpg reads and binds it as bytes."""

    __slots__ = ()


@contextmanager
def reading_documents(driver: Any, dialect: Any) -> Iterator[None]:
    """In the block, psycopg and psycopg2 read documents exactly, unless the application set a reader."""
    if reads_for_an_application(dialect):
        yield
    elif hasattr(driver, "adapters"):
        # As psycopg.types.json.set_json_loads makes one.
        yield from _with_loaders(
            driver.adapters,
            _OIDS_OF_DOCUMENTS,
            lambda _, own: _exact(own) if getattr(own, "_loads", None) is json.loads else own,
        )
    elif hasattr(driver, "string_types"):
        yield from _reading_with_psycopg2(driver)
    else:
        yield


def _with_loaders(adapters: Any, oids: Iterable[int], make: Callable[[int, Any], Any]) -> Iterator[None]:
    """With other loaders for these types until it goes on, each made of psycopg's own."""
    own = _register(adapters, oids, make)
    try:
        yield
    finally:
        for oid, loader in own.items():
            adapters.register_loader(oid, loader)


def _register(adapters: Any, oids: Iterable[int], make: Callable[[int, Any], Any]) -> Mapping[int, Any]:
    """Register other loaders for these types; returns those that were registered before."""
    own = {oid: adapters.get_loader(oid, 0) for oid in oids}  # 0: as text, which SQLAlchemy asks for
    for oid, loader in own.items():
        adapters.register_loader(oid, make(oid, loader))
    return own


@cache
def _exact(loader: Any) -> Any:
    return type(loader.__name__, (loader,), {"_loads": read_document})


def _reading_with_psycopg2(connection: Any) -> Iterator[None]:
    from psycopg2 import extensions  # type: ignore[import-untyped]

    types = []
    for oid, lists, kind in ((114, 199, extensions.JSON), (3802, 3807, extensions.JSONB)):
        if oid not in connection.string_types and extensions.string_types.get(oid) is kind:
            document = extensions.new_type((oid,), "DOCUMENT", _read)
            listed = extensions.new_array_type((lists,), "DOCUMENTS", document)
            types += [(oid, document), (lists, listed)]
    for _, one in types:
        extensions.register_type(one, connection)
    try:
        yield
    finally:
        for oid, _ in types:
            connection.string_types.pop(oid, None)


def _read(text: str | None, _: Any) -> Any:
    return None if text is None else read_document(text)


_OIDS_OF_DOCUMENTS = (114, 3802)
"""PostgreSQL's numbers of json and jsonb."""


_DATE, _ZONED = 1082, 1184
_OIDS_OF_INFINITIES = (_DATE, 1114, _ZONED)
"""PostgreSQL's numbers of date, timestamp and timestamptz."""

_CHAR = 18
"""PostgreSQL's number of "char", a type of one byte."""


class ExactDate(types.Date):
    """A date on asyncpg, without its handling of infinities."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _date_text

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _reader_of(coltype) or ValueReader(*_of_asyncpg("date"))


class ExactDateTime(types.DateTime):
    """A timestamp on asyncpg, without its handling of infinities."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _zoned_text if self.timezone else _local_text

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _reader_of(coltype) or ValueReader(*_of_asyncpg("datetime"))


class ExactUntyped(types.NullType):
    """A column without a declared type on asyncpg; dates are recognized by PostgreSQL's number of their type."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _reader_of(coltype)


class _Char:
    """Of types of texts on asyncpg, which returns values of the type "char" (one byte) as bytes."""

    render_bind_cast = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _reader_of(coltype)


class CharText(_Char, types.String):
    """A text."""


class CharCHAR(_Char, types.CHAR):
    """A text in a column declared as CHAR."""


def _reader_of(code: object) -> Callable[[Any], Any] | None:
    """What reads values of the type of this number, whatever type the application states."""
    if code == _CHAR:
        return _char
    if code not in _OIDS_OF_INFINITIES:
        return None
    return ValueReader(*_of_asyncpg("date" if code == _DATE else "datetime"))


def _char(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    return CharByte(value.strip(b"\x00").decode() if value < b"\x80" else f"\\{value[0]:03o}")


def bound_as_text(type_: Any) -> str | None:
    """The type with which a parameter is sent before it is cast; None if it is sent with its own."""
    return "TEXT" if isinstance(type_, ExactDate | ExactDateTime) else list_of_dates_as_text(type_)


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
    """An instant without a zone, interpreted in the zone of this process, as asyncpg does."""
    try:
        return value.astimezone()
    except (OverflowError, ValueError):  # the ends of year 1 and year 9999 have no other zone
        return value.replace(tzinfo=UTC)


def _word(value: Any, expected: str) -> Any:
    if value is None or value in INFINITIES:
        return value
    raise TypeError(f"Expected {expected}, got {type(value).__name__}.")


def _of_asyncpg(kind: str) -> tuple[Any, Any]:
    """asyncpg's objects for infinity and -infinity."""
    from asyncpg.pgproto import pgproto  # type: ignore[import-untyped]

    return getattr(pgproto, f"infinity_{kind}"), getattr(pgproto, f"negative_infinity_{kind}")


Unreadable = Callable[[str], Any]
"""What stands for a value that Python has no class for, of its text."""


@contextmanager
def loading_exactly(driver: Any, unreadable: Unreadable) -> Iterator[None]:
    """In the block, the connection returns values without a Python class as PostgreSQL's text.

    Infinities are plain text, all others the result of `unreadable`.

    Afterwards, a connection of psycopg or psycopg2 has its own loaders again. Other drivers are not changed.
    """
    if hasattr(driver, "adapters"):
        yield from _with_loaders(driver.adapters, ODD, _or_texts(driver.adapters, unreadable))
    elif hasattr(driver, "string_types"):
        yield from _loading_with_psycopg2(driver, unreadable)
    else:
        yield


def load_exactly(adapters: Any, unreadable: Unreadable) -> None:
    """The same for good, for a connection of psycopg that only dualsql uses."""
    _register(adapters, ODD, _or_texts(adapters, unreadable))


def _or_texts(adapters: Any, unreadable: Unreadable) -> Callable[[int, Any], Any]:
    texts = adapters.get_loader(_TEXT_ARRAY, 0)
    return lambda oid, own: _or_text(oid, own, texts, unreadable)


def _loading_with_psycopg2(connection: Any, unreadable: Unreadable) -> Iterator[None]:
    from psycopg2 import extensions

    own = dict(connection.string_types)
    for oid in ODD:
        reader = own.get(oid) or extensions.string_types[oid]
        load = _or_word(oid, reader, extensions.UNICODEARRAY, unreadable)
        extensions.register_type(extensions.new_type((oid,), "VALUE_OR_TEXT", load), connection)
    try:
        yield
    finally:
        connection.string_types.clear()
        connection.string_types.update(own)


def _or_word(oid: int, reader: Any, texts: Any, unreadable: Unreadable) -> Callable[[Any, Any], Any]:
    is_odd: Any = INFINITIES.__contains__ if oid in _OIDS_OF_INFINITIES else re.compile(_ODD[oid]).match
    failures = _failures("psycopg2")
    reader = _in_utc(reader) if oid == _ZONED else reader

    def load(value: Any, cursor: Any) -> Any:
        if value is None:
            return None
        if not is_odd(value):
            try:
                return reader(value, cursor)
            except failures:
                pass
        return _spelled(oid, value, partial(texts, value, cursor), unreadable)

    return load


@cache
def _or_text(oid: int, loader: Any, texts: Any, unreadable: Unreadable) -> Any:
    """A loader that returns the text if `loader` fails or changes the value."""
    from psycopg.adapt import Loader

    is_odd = re.compile(_ODD.get(oid, "").encode()).match
    failures = _failures("psycopg")

    class OrText(Loader):
        def __init__(self, number: int, context: Any = None) -> None:
            super().__init__(number, context)
            load = loader(number, context).load
            self._load = _in_utc(load) if oid == _ZONED else load
            self._context = context

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except failures:
                return self._as_text(data)

        def _as_text(self, data: Any) -> Any:
            listed = partial(texts(_TEXT_ARRAY, self._context).load, data)
            return _spelled(oid, bytes(data).decode(), listed, unreadable)

    class OddOrText(OrText):
        def load(self, data: Any) -> Any:
            return self._as_text(data) if is_odd(data) else super().load(data)

    return OddOrText if oid in _ODD else OrText


def _failures(driver: str) -> tuple[type[Exception], ...]:
    """The driver's exceptions for a value that it cannot read."""
    module: Any = import_module(driver)
    return (ValueError, OverflowError, NotImplementedError, module.DataError, module.NotSupportedError)


def _in_utc(reader: Callable[..., Any]) -> Callable[..., Any]:
    """The instant in UTC, as asyncpg returns it; the other drivers use the session's zone."""

    def load(*arguments: Any) -> Any:
        moment = reader(*arguments)
        return moment.astimezone(UTC) if type(moment) is datetime else moment

    return load


_TEXT_ARRAY = 1009
"""PostgreSQL's number of an array of texts."""

_ODD: Mapping[int, str] = {
    **dict.fromkeys((1083, 1266), "24"),
    1186: "-?[0-9]+ (?:year|mon)|-?inf",
    **dict.fromkeys((1182, 1115, 1185), ".*?(?:BC|[0-9]{5,}-)"),
    **dict.fromkeys((1183, 1270), ".*?24:00:00"),
    1187: ".*?(?:year|mon)",
}
"""By PostgreSQL's number of a type, their arrays last: the beginning of a text that is not given to the driver.

psycopg2 makes 00:00 of 24:00, and both make 30 days of a month. At dates both of them fail.
"""

ODD = frozenset((*_OIDS_OF_INFINITIES, *_ODD))
"""PostgreSQL's numbers of all these types."""


def _spelled(oid: int, text: str, listed: Callable[[], Any], unreadable: Unreadable) -> Any:
    """The text as it is shown with asyncpg; see `dualsql.databases.postgresql.streams`."""
    if oid in _OIDS_OF_INFINITIES and text in INFINITIES:
        return text
    match oid:
        case 1114:
            return unreadable(text.replace(" ", "T", 1))
        case 1184:
            return _instant(text, unreadable)
        case 1186:
            return unreadable(_duration(text))
        case 1115 | 1185:
            items = [_iso(one) for one in listed()]
            return unreadable(json.dumps(items, separators=(",", ":")))
        case 1182 | 1183 | 1270 | 1187:
            return unreadable(json.dumps(listed(), separators=(",", ":")))
    return unreadable(text)


def _iso(text: Any) -> Any:
    """A timestamp, or a list of them, as to_json() writes it."""
    if not isinstance(text, str):
        return text and [_iso(one) for one in text]
    return re.sub(r"([+-][0-9]{2})( BC)?$", r"\1:00\2", text.replace(" ", "T", 1)) if ":" in text else text


_INSTANT = re.compile(
    r"(?P<year>[0-9]+)-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) (?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r":(?P<second>[0-9]{2})(?P<fraction>\.[0-9]+)?"
    r"(?P<sign>[+-])(?P<hours>[0-9]{2})(?::(?P<minutes>[0-9]{2}))?(?::(?P<seconds>[0-9]{2}))?(?P<bc> BC)?"
)
_PARTS = ("month", "day", "hour", "minute", "second")
_CYCLE = 400
"""Years after which the calendar repeats itself."""


def _instant(text: str, unreadable: Unreadable) -> Any:
    """An instant in UTC; in the session's zone it may be beyond Python's years."""
    match = _INSTANT.fullmatch(text)
    if match is None:  # of another DateStyle
        return unreadable(text)
    year = 1 - int(match["year"]) if match["bc"] else int(match["year"])
    cycles, within = divmod(year, _CYCLE)
    month, day, hour, minute, second = (int(match[part]) for part in _PARTS)
    local = datetime(_CYCLE + within, month, day, hour, minute, second, tzinfo=UTC)
    hours, minutes, seconds = (int(match[part] or 0) for part in ("hours", "minutes", "seconds"))
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    moved = local + offset if match["sign"] == "-" else local - offset
    year = moved.year + (cycles - 1) * _CYCLE
    fraction = match["fraction"] or ""
    if MINYEAR <= year <= MAXYEAR:
        return moved.replace(year=year, microsecond=int(fraction[1:].ljust(6, "0")))
    era, era_year = (" BC", 1 - year) if year < 1 else ("", year)
    return unreadable(f"{era_year:04d}-{moved:%m-%dT%H:%M:%S}{fraction}+00:00{era}")


_DURATION = re.compile(
    r"(?:([+-]?[0-9]+) years? ?)?(?:([+-]?[0-9]+) mons? ?)?(?:([+-]?[0-9]+) days? ?)?"
    r"(?:([+-]?)([0-9]+):([0-9]{2}):([0-9]{2})(\.[0-9]+)?)?"
)


def _duration(text: str) -> str:
    """An interval as its parts, each with its sign."""
    match = _DURATION.fullmatch(text)
    if match is None:  # of another IntervalStyle, or infinite
        return text
    years, months, days, hours, minutes, seconds = (int(match[part] or 0) for part in (1, 2, 3, 5, 6, 7))
    sign, fraction = "-" if match[4] == "-" else "", (match[8] or "").rstrip("0").removesuffix(".")
    times = [f"{sign}{part}" if part else "0" for part in (hours, minutes)]
    last = f"{sign}{seconds}{fraction}" if seconds or fraction else "0"
    return f"P{years}Y{months}M{days}DT{times[0]}H{times[1]}M{last}S"


def _shortest(value: float | None) -> float | None:
    """A float of four bytes with the fewest digits that identify it: 0.1, and not 0.10000000149011612."""
    if value is None or value != value or value in (_INFINITE, -_INFINITE):  # noqa: PLR0124 - NaN
        return value
    if abs(value) in _OF_POWERS:
        return math.copysign(_OF_POWERS[abs(value)], value)
    part, power = math.frexp(value)
    # As PostgreSQL's own text, digits that are half-way to the next number are those of neither.
    above = max(2.0 ** (power - 25), 2.0**-150)
    below = above / 2 if abs(part) == 0.5 and abs(value) > _SMALLEST_NORMAL else above
    for digits in (6, 7, 8, 9) if abs(value) >= _SMALLEST_NORMAL else range(1, 10):
        shortest = float(f"{value:.{digits}g}")
        if -below < abs(shortest) - abs(value) < above:
            return shortest
    return value


def _shortest_items(value: Any) -> Any:
    """A list of such floats, which may have several dimensions."""
    return [_shortest_items(item) for item in value] if isinstance(value, list) else _shortest(value)


_INFINITE = float("inf")
_SMALLEST_NORMAL = 2.0**-126
_OF_POWERS = {2.0**-96: 1.2621775e-29, 2.0**87: 1.5474251e26, 2.0**90: 1.2379401e27}
"""The powers of two whose fewest digits are not the nearest: the number below is at half the distance of that above."""


DRIVERS: Mapping[str, DriverValues] = {
    "asyncpg": DriverValues(
        types={
            types.Date: ExactDate,
            types.DateTime: ExactDateTime,
            types.NullType: ExactUntyped,
            types.String: CharText,
            types.CHAR: CharCHAR,
        },
        # float4, its arrays, and pg_lsn:
        # https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
        processors={
            700: _shortest,
            3220: lambda value: None if value is None else f"{value >> 32:X}/{value & 0xFFFFFFFF:X}",
        },
        readers={1021: _shortest_items},
    ),
    "psycopg": DriverValues(unfit_codes=ODD),
    "psycopg2": DriverValues(unfit_codes=ODD),
}
"""By the name of the driver."""
