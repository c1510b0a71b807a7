"""A cache of the pages read last, for databases whose rows may be a moment old (`Settings.result_cache`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import WeighedCache
from dualsql.databases.source import Source
from dualsql.formats.writer import Rows
from dualsql.freeze.document import AnySelect
from dualsql.freeze.values import EXACT, exact_forms
from dualsql.settings import ResultCache
from dualsql.tenancy import ActiveRules

_FIXED = 256
"""Bytes of memory of a page without its values, and of a row."""


class _CachedPage(NamedTuple):
    rows: Rows
    is_fixed: bool
    ends_at: float


class RowCache:
    """Caches the pages read last, within the limits of `settings`."""

    def __init__(self, settings: ResultCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = settings.ttl.total_seconds()
        self._clock = clock
        self.pages: WeighedCache[object, _CachedPage] = WeighedCache(settings.maximum_bytes)

    async def page(
        self, select: AnySelect, rules: ActiveRules, source: Source, fetch: Callable[[], Awaitable[Rows]]
    ) -> tuple[Rows, bool]:
        """The rows of a page, and whether they come from the cache; if not, `fetch` reads them."""
        key = self.key_of(select, rules, source)
        if key is None:
            return await fetch(), False
        cached = self.get(key)
        if cached is not None:
            return cached, True
        # No lock: of readers who miss at the same time, each asks the database.
        rows = await fetch()
        self.keep(key, rows)
        return rows, False

    @staticmethod
    def key_of(select: AnySelect, rules: ActiveRules, source: Source) -> object | None:
        """What a page is cached by; None if the statement has no unambiguous key."""
        select_key = internals.cache_key(select)
        if select_key is None:
            return None
        # SQLAlchemy's key has places for bound values and not the values (sqlalchemy/sql/cache_key.py).
        bound = exact_forms(parameter.effective_value for parameter in select_key.bindparams)
        values = exact_forms(part for name in sorted(rules.values) for part in (name, rules.values[name]))
        if bound is None or values is None:
            return None
        return select_key.key, bound, rules.form, values, tuple(rules.settings), source.name

    def get(self, key: object) -> Rows | None:
        """The cached rows, which the caller may change; None if there are none."""
        page = self.pages.get(key)
        if page is None:
            return None
        if page.ends_at <= self._clock():
            self.pages.remove(key)
            return None
        return page.rows if page.is_fixed else deepcopy(page.rows)

    def keep(self, key: object, rows: Rows) -> None:
        """Cache the rows, if they fit."""
        self.pages.remove(key)
        weight = _FIXED + sum(_FIXED + _weight(row) for row in rows)
        if weight > self.pages.most:
            return
        # Rows of SQLAlchemy keep a reference to their result.
        own = tuple(tuple(row) for row in rows)
        is_fixed = all(type(value) in EXACT for row in own for value in row)
        # A copy: the caller may change the rows.
        copied = own if is_fixed else deepcopy(own)
        self.pages.put(key, _CachedPage(copied, is_fixed, self._clock() + self._seconds), weight)


def _weight(value: Any) -> int:
    """Bytes of memory of a value and of everything in it."""
    own = sys.getsizeof(value)
    if isinstance(value, str | bytes):
        return own
    if isinstance(value, Mapping):
        return own + sum(_weight(part) for pair in value.items() for part in pair)
    if isinstance(value, Iterable):
        return own + sum(map(_weight, value))
    return own
