"""What drivers give, made values by SQLAlchemy's types; what these cannot read is an Unfit, and fails no row.

The processors stand in the memory that a dialect has of its types. Each dialect that statements run on here is a
copy, so the application's own statements raise what they always did.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import types

from dualsql.columns import DriverValue
from dualsql.formats.cells import Rows, Unfit
from dualsql.infinities import ODD, Reader

Processor = Callable[[Any], Any]

_GIVE_UNFITS = frozenset({"psycopg", "psycopg2"})
"""Drivers whose loaders do; see `dualsql.infinities`."""


@dataclass(frozen=True, slots=True)
class Tolerant:
    """SQLAlchemy's processor of a type, and an Unfit where it fails."""

    processor: Processor

    def __call__(self, value: Any) -> Any:
        try:
            return self.processor(value)
        # Each type raises errors of its own: a date ValueError, an enumeration LookupError.
        except Exception:  # noqa: BLE001
            return Unfit.of(value)


def processed(rows: Sequence[Sequence[Any]], processors: Sequence[tuple[int, Processor]]) -> Rows:
    """The driver's rows with SQLAlchemy's processors applied, which know NULL themselves."""
    processors = [(place, one) for place, one in processors if _is_needed(one, place, rows)]
    if not processors:
        return rows
    found = [list(row) for row in rows]
    for place, processor in processors:
        if isinstance(processor, Tolerant):
            _process_tolerantly(rows, found, place, processor)
            continue
        for row in found:
            row[place] = processor(row[place])
    return found


def _process_tolerantly(
    rows: Sequence[Sequence[Any]], found: Sequence[list[Any]], place: int, tolerant: Tolerant
) -> None:
    processor = tolerant.processor
    try:
        for row in found:
            row[place] = processor(row[place])
    except Exception:  # noqa: BLE001 - see Tolerant
        for raw, row in zip(rows, found, strict=True):
            row[place] = tolerant(raw[place])


def _is_needed(processor: Processor, place: int, rows: Rows) -> bool:
    # Almost no date is an infinity: asked for all rows at once, that costs a tenth of processing each.
    return not isinstance(processor, Reader) or processor.changes_any(list(map(itemgetter(place), rows)))


def read_tolerantly(dialect: Any) -> None:
    """Give a copy of an engine's dialect the processors of this module."""
    dialect._type_memos = _Memos(dialect.driver)  # noqa: SLF001


class _Memos(WeakKeyDictionary[Any, Any]):
    """What a dialect remembers of its types."""

    def __init__(self, driver: str) -> None:
        super().__init__()
        self._by_code = _BY_CODE.get(driver, {})
        self._odd = ODD if driver in _GIVE_UNFITS else frozenset()

    def __setitem__(self, type_: Any, memo: Any) -> None:
        impl: Any = memo["impl"]
        # A decorator's own code says what its values are; what it raises is its author's to know.
        is_foreign = isinstance(impl, types.TypeDecorator) and not isinstance(impl, types.Interval)
        if is_foreign:
            impl.__dict__["result_processor"] = self._spared(impl.result_processor)
        elif not isinstance(type_, DriverValue):
            impl.__dict__["result_processor"] = self._tolerant(impl.result_processor)
        super().__setitem__(type_, memo)

    def _spared(self, own: Callable[[Any, Any], Processor | None]) -> Callable[[Any, Any], Processor | None]:
        """The application's own code, which never sees an Unfit."""

        def result_processor(dialect: Any, code: Any) -> Processor | None:
            processor = own(dialect, code)
            if processor is None or code not in self._odd:
                return processor
            return lambda value: value if type(value) is Unfit else processor(value)

        return result_processor

    def _tolerant(
        self, own: Callable[[Any, Any], Processor | None]
    ) -> Callable[[Any, Any], Processor | None]:
        def result_processor(dialect: Any, code: Any) -> Processor | None:
            processor = own(dialect, code)
            read = self._by_code.get(code)
            if read is not None and (processor is None or isinstance(processor, Reader)):
                processor = read
            if processor is None or isinstance(processor, Tolerant | Reader):
                return processor
            return Tolerant(processor)

        return result_processor


# --- values that a driver gives in another form than their database shows ------------------------------------------


def _shortest(value: float | None) -> float | None:
    """A number of four bytes with the fewest digits that are it: 0.1, and not 0.10000000149011612."""
    if value is None or value != value or value in (_INFINITE, -_INFINITE):  # noqa: PLR0124 - NaN
        return value
    for digits in (6, 7, 8, 9) if abs(value) >= _SMALLEST_NORMAL else range(1, 10):
        found = float(f"{value:.{digits}g}")
        if abs(found) <= _LARGEST_SINGLE and struct.unpack("f", struct.pack("f", found))[0] == value:
            return found
    return value


_INFINITE = float("inf")
_SMALLEST_NORMAL = 2.0**-126
_LARGEST_SINGLE = 3.4028235677973366e38
"""Beyond it, struct finds no number of four bytes: half a step above the largest."""


def _log_position(value: int | None) -> str | None:
    return None if value is None else f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


def _bits(value: Any) -> Any:
    """Bits as a number, which MariaDB compares them with."""
    return int.from_bytes(value) if isinstance(value, bytes) else value


def _time_text(value: Any) -> Any:
    """A TIME as MariaDB writes and reads it: up to 838 hours, of either sign."""
    if not isinstance(value, timedelta):
        return value
    length, sign = abs(value), "-" if value < timedelta() else ""
    minutes, seconds = divmod(length // timedelta(seconds=1), 60)
    fraction = f".{length.microseconds:06d}" if length.microseconds else ""
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"


# https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
# https://mariadb.com/docs/server/reference/clientserver-protocol/4-server-response-packets/result-set-packets
_ASYNCPG = {700: _shortest, 3220: _log_position}
_MARIADB = {11: _time_text, 16: _bits}
_BY_CODE: Mapping[str, Mapping[Any, Processor]] = {
    "asyncpg": _ASYNCPG,
    **dict.fromkeys(("asyncmy", "aiomysql", "pymysql", "mysqldb"), _MARIADB),
}
"""By driver, and by its code of a column's type: float4 and pg_lsn; TIME and BIT."""
