"""Times and dates that orjson writes in another way than Python. Loaded with the first rows that are written.

orjson 3.13 makes 01:24:17.70000 of the time of day 01:24:17.070000, and leaves the seconds out of a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence, Set
from decimal import Decimal
from operator import itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn, is_sqlalchemys_own
from dualsql.formats.cells import loose_encodings
from dualsql.formats.row_objects import has_odd_zone
from dualsql.formats.writer import Rows

_SCALARS = (bool, int, float, str, Decimal, UUID, bytes, dt.timedelta)
_WITHOUT_TIMES = frozenset({type(None), dt.date, *_SCALARS})
_PROOFS: dict[type[Any], Callable[[Sequence[Any]], Any]] = {str: "".join}


def classes_of(cells: Sequence[Any]) -> Set[type[Any]]:
    """The classes of one or more cells; none if their sum or join shows that all are numbers or texts.

    That takes half the time of a look at each.
    """
    try:
        _PROOFS.get(type(cells[0]), sum)(cells)
    except (TypeError, ArithmeticError):
        return set(map(type, cells))
    return set()


def are_odd_times(classes: Set[type[Any]], cells: Iterable[Any]) -> bool:
    """Whether Python has to write the times and dates in cells of these classes, whatever their column announces."""
    others = classes - _WITHOUT_TIMES
    if not others:
        return False
    # Lists and objects may hold times, too.
    return not all(issubclass(kind, (*_SCALARS, dt.datetime)) for kind in others) or has_odd_zone(cells)


def have_odd_times(columns: Iterable[Sequence[Any]]) -> bool:
    """Whether some columns have odd times; see `are_odd_times`."""
    return any(are_odd_times(classes_of(cells), cells) for cells in columns)


def checked_places(columns: Sequence[ResultColumn], dialect: Dialect) -> Set[int]:
    """Positions of columns whose cells are as the database stores them, in any of its classes: no time is one."""
    encodings = loose_encodings(dialect)
    return {
        place
        for place, column in enumerate(columns)
        if column.encoding in encodings and is_sqlalchemys_own(column.type, dialect)
    }


def columns_at(places: Sequence[int], width: int) -> Callable[[Rows], Iterable[Sequence[Any]]]:
    """The function that returns the columns at these positions of rows of that width."""
    if len(places) == width:
        return lambda rows: zip(*rows)  # noqa: B905 - rows are equally long
    return lambda rows: [list(map(itemgetter(place), rows)) for place in places] if rows else []
