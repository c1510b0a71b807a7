"""Rows of pages, kept for a while where the operator asks for it; the rule: only the very same question is the same.

A question is the statement with its bound values, its window among them, the rules it runs under, their values, the
settings that the database's own policies read, and the database. Whoever sees other rows, or sees them masked, asks
another one.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from dualsql.execute import Rows, Source
from dualsql.narrowing import Narrowing
from dualsql.settings import ResultCache
from dualsql.statement import AnySelect

# Their representation says all there is to them: 1 is not 1.0 nor True, and 1.0 not 1.00, though they are equal.
_PLAIN = (bool, int, float, str, bytes, Decimal, datetime, date, time_of_day, timedelta, UUID, type(None))

_FIXED = 256
"""Bytes of a page without its values, and of a row."""


class _Kept(NamedTuple):
    rows: Rows
    is_fixed: bool
    weight: int
    ends_at: float


class Results:
    """The pages that were read last, within the bounds of `settings`."""

    def __init__(self, settings: ResultCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = settings.ttl.total_seconds()
        self._most_bytes = settings.maximum_bytes
        self._clock = clock
        self._kept: OrderedDict[object, _Kept] = OrderedDict()
        self.bytes = 0

    def get(self, question: object) -> Rows | None:
        """The rows that answered the question a short time ago; the caller's to do with as it likes."""
        found = self._kept.get(question)
        if found is None:
            return None
        if found.ends_at <= self._clock():
            self._drop(question)
            return None
        self._kept.move_to_end(question)
        return found.rows if found.is_fixed else deepcopy(found.rows)

    def keep(self, question: object, rows: Rows) -> None:
        """Keep the answer, if there is room for it."""
        self._drop(question)
        weight = _FIXED + sum(_FIXED + _weight(row) for row in rows)
        if weight > self._most_bytes:
            return
        # Rows of SQLAlchemy hold on to their result.
        own = tuple(tuple(row) for row in rows)
        is_fixed = all(type(value) in _PLAIN for row in own for value in row)
        # What a page shows may be changed by whoever gets it.
        copied = own if is_fixed else deepcopy(own)
        self._kept[question] = _Kept(copied, is_fixed, weight, self._clock() + self._seconds)
        self.bytes += weight
        while self.bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, question: object) -> None:
        found = self._kept.pop(question, None)
        if found is not None:
            self.bytes -= found.weight


def question_of(select: AnySelect, narrowing: Narrowing, source: Source) -> object | None:
    """What makes the question; None where it cannot be told from any other."""
    key = select._generate_cache_key()
    if key is None:
        return None
    bound = _written(parameter.effective_value for parameter in key.bindparams)
    values = _written(part for name in sorted(narrowing.values) for part in (name, narrowing.values[name]))
    if bound is None or values is None:
        return None
    return key.key, bound, narrowing.form, values, tuple(narrowing.settings), source.name


def _written(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """The values, each told from every other; None where one has no such form."""
    found: list[Any] = []
    for value in values:
        if type(value) in _PLAIN:
            found.append((type(value), repr(value)))
        elif type(value) in {list, tuple} and (parts := _written(value)) is not None:
            found.append((type(value), parts))
        else:
            return None
    return tuple(found)


def _weight(value: Any) -> int:
    """Bytes of a value and of all it holds."""
    own = sys.getsizeof(value)
    if isinstance(value, str | bytes):
        return own
    if isinstance(value, Mapping):
        return own + sum(_weight(part) for pair in value.items() for part in pair)
    if isinstance(value, Iterable):
        return own + sum(map(_weight, value))
    return own
