"""Whether the cells of a column are what its encoding says, and those that are not, as text.

A database may hold what its column does not declare: a text in an INTEGER column of SQLite, a date before the year 1.
Such a cell is an `Unfit`: JSON shows its text and names its column in `$unfit`, CSV shows the text, and Arrow and
Parquet, whose types are fixed before the first row, refuse it.
"""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy import types
from sqlalchemy.dialects.postgresql import ranges
from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn, is_sqlalchemys_own
from dualsql.dialects import capabilities_of

Rows = Sequence[Sequence[Any]]
Kinds = tuple[type[Any], ...]

_ZONE = attrgetter("tzinfo")

# By encoding: classes of values, and classes derived from these that are something else.
_KINDS: Mapping[str, tuple[Kinds, Kinds]] = {
    "integer": ((int,), (bool,)),
    "float": ((float, int), (bool,)),
    "decimal": ((Decimal, int), (bool,)),
    "boolean": ((bool,), ()),
    "text": ((str,), ()),
    "date": ((dt.date,), (dt.datetime,)),
    "datetime": ((dt.datetime,), ()),
    "time": ((dt.time,), ()),
    "interval": ((dt.timedelta,), ()),
    "uuid": ((UUID, str), ()),
    "base64": ((bytes, bytearray, memoryview), ()),
}


@dataclass(frozen=True, slots=True)
class Unfit:
    """A cell that is not what its column declares, as text."""

    text: str

    @classmethod
    def of(cls, value: Any) -> Unfit:
        """The cell that holds a value."""
        return value if isinstance(value, cls) else cls(_text(value))


@dataclass(frozen=True, slots=True)
class Fit:
    """What the values of one column may be.

    Attributes:
        kinds: their classes; None for anything but an Unfit.
        strangers: classes derived from these that the column does not hold.
        zone: whether all of them have a zone, or none; None where it does not matter.
        is_list: the values are lists of such values, in one dimension.
    """

    kinds: Kinds | None
    strangers: Kinds = ()
    zone: bool | None = None
    is_list: bool = False

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether all values fit; NULL fits every column. 15 to 20 ns a value."""
        if not self.is_list:
            return self._holds(values)
        lists = [value for value in values if value is not None]
        return set(map(type, lists)) <= {list} and self._holds(list(chain.from_iterable(lists)))

    def fitted(self, value: Any) -> Any:
        """The value itself, or an Unfit in its place; a whole number that came as another kind of number is one."""
        if self.holds((value,)):
            return value
        is_whole = self.kinds == (int,) and isinstance(value, Decimal) and value.is_finite()
        return int(value) if is_whole and value == value.to_integral_value() else Unfit.of(value)

    def _holds(self, values: Sequence[Any]) -> bool:
        found = set(map(type, values))
        found.discard(type(None))
        if not all(map(self._allows, found)):
            return False
        if self.zone is None or not found:
            return True
        zones = set(map(_ZONE, filter(None, values)))
        return None not in zones if self.zone else zones == {None}

    def _allows(self, kind: type[Any]) -> bool:
        if self.kinds is None:
            return kind is not Unfit
        return issubclass(kind, self.kinds) and not issubclass(kind, self.strangers)


def loose_fits(
    columns: Sequence[ResultColumn], dialect: Dialect, *, with_texts: bool
) -> list[tuple[int, Fit]]:
    """What to look at, by position, where the database may hold values of other types than a column's own.

    Args:
        with_texts: texts, too: the only other thing that an engine keeps in a column of texts is bytes.
    """
    abilities = capabilities_of(dialect)
    if abilities is None or not abilities.has_loose_types:
        return []
    looked_at = _LOOSE_OR_TEXT if with_texts else _LOOSE
    return [
        (position, fit_of(column))
        for position, column in enumerate(columns)
        if column.encoding in looked_at and is_sqlalchemys_own(column.type, dialect)
    ]


_LOOSE = frozenset({"integer", "float", "base64"})
_LOOSE_OR_TEXT = _LOOSE | {"text"}


def kinds_of(encoding: str) -> tuple[Kinds, Kinds]:
    """Classes of the values of an encoding, and classes derived from these that are something else."""
    return _KINDS[encoding]


def fit_of(column: ResultColumn) -> Fit:
    """What the column's encoding allows, as the values are before any of them is converted."""
    plain = column.shown
    known = _KINDS.get(column.encoding)
    if known is None or isinstance(plain, types.Enum | ranges.AbstractRange):
        return Fit(None)
    return Fit((*known[0], float, Decimal) if column.is_computed else known[0], known[1])


def marked(rows: Rows, fits: Iterable[tuple[int, Fit]]) -> Rows:
    """The rows with an Unfit in the place of each value that does not fit; the very same rows where all do."""
    bad = [(place, fit) for place, fit in fits if not fit.holds(list(map(itemgetter(place), rows)))]
    if not bad:
        return rows
    found = [list(row) for row in rows]
    for place, fit in bad:
        for row in found:
            row[place] = fit.fitted(row[place])
    return found


class Watch:
    """Sees cells that do not fit while orjson writes them, at no cost to those that do.

    orjson asks how to write what is neither text, number, date nor UUID: an Unfit, bytes in a column of texts, a
    decimal in one of whole numbers.

    Attributes:
        has_seen: such a cell was written.
    """

    def __init__(self, columns: Iterable[ResultColumn], encode: Callable[[Any], Any]) -> None:
        kinds = [fit_of(column).kinds for column in columns]
        is_open = any(found is None for found in kinds)
        self._expected: Kinds = (object,) if is_open else tuple(chain.from_iterable(filter(None, kinds)))
        self._encode = encode
        self.has_seen = False

    def expects(self, kind: type[Any]) -> bool:
        """Whether some column may hold such values."""
        return issubclass(kind, self._expected)

    def encode(self, value: Any) -> Any:
        """What orjson writes in place of the value."""
        if type(value) is Unfit or not isinstance(value, self._expected):
            self.has_seen = True
        return self._encode(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode("ascii")
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value)
