"""What the values of types are, on one database and in one application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from dualsql.columns.own_types import (
    Computation,
    Meaning,
    SQLType,
    implementations,
    is_decorator,
    package_of,
    stored_type,
    without_driver,
)


class Meanings:
    """The meanings of types on one database.

    Args:
        dialect: the dialect for calling the types' code. keeps_zones: the database returns an instant with its zone.
        converters: by class of values that have no JSON form, the function that gives them one. comparable: classes of
        types whose stored values, as the application declares, compare and sort as the shown ones. computation: how the
        database computes.
    """

    def __init__(
        self,
        dialect: Dialect | None = None,
        *,
        keeps_zones: bool = False,
        converters: Mapping[type[Any], Callable[[Any], Any]] | None = None,
        comparable: Iterable[type[SQLType]] = (),
        computation: Computation | None = None,
    ) -> None:
        self.computation = computation or Computation()
        self.converters = dict(converters or {})
        self._dialect = dialect or DefaultDialect()
        self._declaring = without_driver(self._dialect)
        self._keeps_zones = keeps_zones
        self._comparable = tuple(comparable)
        # Each document that is thawed has type objects of its own.
        self._meaning = lru_cache(10_000)(self._determined)
        self.columns: MutableMapping[tuple[str, Any], Any] = LRUCache(10_000)  # see `result_columns`

    def of(self, type_: SQLType) -> Meaning:
        """The meaning of `type_`, determined at first use."""
        return self._meaning(type_)

    def stored_type(self, type_: SQLType) -> SQLType:
        """The type for this database, without the application's code."""
        return stored_type(type_, self._declaring)

    def converted(self, value: Any) -> Any:
        """A value with a JSON form, made by the application's converters."""
        for cls, convert in self.converters.items():
            if isinstance(value, cls):
                return convert(value)
        if isinstance(value, dict):
            return {key: self.converted(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.converted(item) for item in value]
        return value

    def _determined(self, type_: SQLType) -> Meaning:
        stored = self.stored_type(type_)
        first = next(implementations(type_, self._dialect))
        # The package of the dialect, too: duckdb_sqlalchemy brings types of its own.
        if not is_decorator(first) and package_of(first) in ("sqlalchemy", package_of(self._dialect)):
            return Meaning(shown=stored, stored=stored)
        from dualsql.columns.trials import tried_meaning

        meaning = tried_meaning(type_, self._dialect, stored, keeps_zones=self._keeps_zones)
        if meaning.reads is None or not isinstance(type_, self._comparable):
            return meaning
        return meaning._replace(keeps_order=True, keeps_equality=True, keeps_null=True)


STANDARD = Meanings()
"""The default, without declarations of an application and without a database."""
