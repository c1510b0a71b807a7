"""Which cells fit the type that their column announces. Loaded with the first rows.

Every way to JSON and Arrow asks here; CSV shows the same text for a cell whether it fits or not.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.capabilities import capabilities_of
from dualsql.columns.exact import Unfit
from dualsql.columns.result import ResultColumn
from dualsql.formats.json import unfit
from dualsql.formats.text import LARGEST_EXACT_INTEGER
from dualsql.formats.writer import ExactRows, Rows
from dualsql.sqlalchemy_dialects import ranges
from dualsql_client.wire import INFINITIES

Kinds = tuple[type[Any], ...]

KINDS: Mapping[str, tuple[Kinds, Kinds]] = {
    "integer": ((int,), (bool,)),
    "float": ((float, int), (bool,)),
    "decimal": ((Decimal,), ()),
    "boolean": ((bool,), ()),
    "text": ((str,), ()),
    "date": ((dt.date,), (dt.datetime,)),
    "datetime": ((dt.datetime,), ()),
    "time": ((dt.time,), ()),
    "interval": ((dt.timedelta,), ()),
    "uuid": ((UUID,), ()),
    "base64": ((bytes, bytearray, memoryview), ()),
}
"""By encoding: classes of values, and subclasses of these that do not belong to the encoding."""

_TEXTS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("date", "datetime"), INFINITIES.__contains__),
    "uuid": re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}").fullmatch,
}
"""By encoding: which texts are values, too."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnFit:
    """Which values one column may hold.

    Attributes:
        kinds: their classes; None for any class but Unfit.
        excluded: subclasses of these that the column does not hold.
        texts: which texts are values, too.
    """

    kinds: Kinds | None
    excluded: Kinds = ()
    texts: Callable[[str], object] | None = None

    def holds(self, *columns: Sequence[Any]) -> bool:
        """Whether all values of columns fit; NULL fits every column. 15 to 20 ns a value."""
        classes = set(map(type, chain.from_iterable(columns)))
        if self.kinds is None:
            return Unfit not in classes
        others = classes.difference(self.kinds, (type(None),))
        if str in others and self.texts is not None:
            if not all(self.texts(each) for each in chain.from_iterable(columns) if type(each) is str):
                return False
            others.remove(str)
        if not all(issubclass(kind, self.kinds) and not issubclass(kind, self.excluded) for kind in others):
            return False
        if float not in self.kinds or int not in classes:
            return True
        # A database that computes an integer among doubles has all of its digits; a double may be another number.
        integers = (value for value in chain.from_iterable(columns) if type(value) is int)
        return all(abs(value) <= LARGEST_EXACT_INTEGER or int(float(value)) == value for value in integers)

    def fitted(self, value: Any) -> Any:
        """The value itself, or an Unfit in its place. A whole number of another class, such as 2.0, becomes an int, and
        an int among decimals a Decimal. What has no JSON form stays, and is refused where it is written.
        """
        if self.holds((value,)):
            return value
        if self.kinds == (Decimal,) and type(value) is int:
            return Decimal(value)
        is_whole = self.kinds == (int,) and isinstance(value, Decimal) and value.is_finite()
        if is_whole and value == value.to_integral_value():
            return int(value)
        return unfit(value) or value


def loose_encodings(dialect: Dialect) -> Sequence[str]:
    """The encodings of columns in which the database may hold values of other types."""
    return ("integer", "float", "base64", "text") if capabilities_of(dialect).has_loose_types else ()


def fit_of(column: ResultColumn) -> ColumnFit:
    """The values that the column's encoding allows, before conversion."""
    is_open = isinstance(column.shown, types.Enum | ranges.AbstractRange)
    return _OPEN if is_open else _FITS.get(column.encoding, _OPEN)


_OPEN, _FITS = (
    ColumnFit(None),
    {encoding: ColumnFit(*kinds, _TEXTS.get(encoding)) for encoding, kinds in KINDS.items()},
)


def _are_texts(columns: Sequence[Sequence[Any]]) -> bool:
    try:
        for column in columns:
            "".join(column)
    except TypeError:
        return False
    return True


def _are_whole(columns: Sequence[Sequence[Any]]) -> bool:
    try:
        text = orjson.dumps(columns)
    except TypeError:
        return False
    # In JSON, all else has one of these: NULL and NaN an l, truth values an e, and so have large doubles.
    is_other = b"l" in text or b"e" in text or b"." in text or b'"' in text or b"{" in text
    return not is_other and text.count(b"[") == len(columns) + 1


_PROOFS: Mapping[Kinds | None, Callable[[Sequence[Sequence[Any]]], bool]] = {
    (str,): _are_texts,
    (int,): _are_whole,
}
"""By classes of values: whether columns have nothing else, in a quarter of the time of a look at each cell."""

_FEW = 50
"""Cells of a column that are looked at as fast."""


class Fits:
    """Which values the columns may hold that have to be checked, by position.

    Columns with the same fit are checked at once: 18 columns of 100 rows take 40 microseconds, 65 if each is checked.
    """

    def __init__(self, fits: Mapping[int, ColumnFit]) -> None:
        self._each = fits
        alike: dict[ColumnFit, list[int]] = {}
        for place, fit in fits.items():
            alike.setdefault(fit, []).append(place)
        self._alike = list(alike.items())
        self._unproved: set[int] = set()
        """Columns that had a NULL once: no proof is tried again."""

    def marked(self, rows: Rows) -> Rows:
        """The rows with an Unfit in place of each value that does not fit; the same object if all values fit."""
        if not rows or not self._each or type(rows) is ExactRows:
            return rows
        # Rows are equally long, and strict=True would cost.
        columns = list(zip(*rows))  # noqa: B905
        for fit, unproved in self._alike:
            if len(rows) > _FEW and (are_proved := _PROOFS.get(fit.kinds)):
                tried = [place for place in unproved if place not in self._unproved]
                if not are_proved([columns[place] for place in tried]):
                    self._unproved.update(place for place in tried if not are_proved((columns[place],)))
                unproved = [place for place in unproved if place in self._unproved]
            if unproved and not fit.holds(*[columns[place] for place in unproved]):
                break
        else:
            return rows
        fitted = [list(row) for row in rows]
        for place, fit in self._each.items():
            if not fit.holds(columns[place]):
                for row in fitted:
                    row[place] = fit.fitted(row[place])
        return fitted
