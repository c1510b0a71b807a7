"""Compiled statements for drivers, the check of the columns that a database returns, and the driver in use."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Dialect, util
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.own_types import SQLType
from dualsql.formats.cells import Processor

_NUMBER = re.compile(r"(?:_+[0-9]+)+$")

_SHORTEST_CUT = 59
"""Bytes of names that are cut: by SQLAlchemy to 57 with a number, by PostgreSQL to 63 less the rest of a character."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class DriverStatement(NamedTuple):
    """A compiled statement with its parameters, for the driver.

    Attributes:
        parameters: a tuple, or a mapping if the driver (psycopg) takes them by name.
        types: the types of the columns, in order.
        described: the names of the columns; see `require_described`.
    """

    sql: str
    parameters: Any
    types: Sequence[SQLType]
    dialect: Dialect
    described: Sequence[str]

    def __repr__(self) -> str:
        return repr(self.sql)  # the parameters are not for logs

    def processors(self, codes: Sequence[Any] = ()) -> Sequence[tuple[int, Processor]]:
        """SQLAlchemy's result processors by position of the column, for the driver's codes of their types."""
        return _processors(tuple(self.types), self.dialect, tuple(codes))


@lru_cache(256)
def _processors(types: Any, dialect: Dialect, codes: Any) -> Sequence[tuple[int, Processor]]:
    # Without this cache, a page of 13 columns took 4 % more.
    read = map(internals.result_processor, types, repeat(dialect), codes or repeat(None))
    return [(position, processor) for position, processor in enumerate(read) if processor is not None]


def require_described(names: Sequence[str], described: Sequence[str]) -> None:
    """Before a row is read, raise QueryExecutionError if the database returns other columns than described.

    Args:
        names: the names that the driver reports.
        described: the names from `dualsql.columns.result.driver_names`.
    """
    are_same = [*names] == [*described]
    if not are_same and not (len(names) == len(described) and all(map(_is_described, names, described))):
        from dualsql.databases.refused_columns import other_columns

        raise other_columns(names, described)


def _is_described(name: str, described: str) -> bool:
    if name == described or not described:
        return True
    # SQLAlchemy may prefix the table's name and append a number; it and PostgreSQL cut long names.
    one, other = (_NUMBER.sub("", each.casefold()) for each in (name, described))
    is_cut = len(name.encode()) >= _SHORTEST_CUT and described.startswith(re.sub("_[0-9a-f]+$", "", name))
    return one == other or one.endswith("_" + other) or is_cut


def must_use_sqlalchemy(engine: Any, connection: Any = None) -> bool:
    """Whether SQLAlchemy must run statements: the engine has listeners for them, or names for their schemas."""
    return bool(
        "schema_translate_map" in (connection or engine).get_execution_options()
        or internals.has_events(engine)
        or internals.has_events(engine.dialect)
        or (connection and internals.has_events(connection))
    )


Drafts = dict[Dialect, tuple[DriverStatement, Sequence[tuple[int, str, Any]]]]
"""One statement as it was bound before, and where it has the values, of the same names, that each execution gives."""


def driver_statement(
    dialect: Dialect, statement: Any, values: Any, cache: Any, described: Sequence[str], *, drafts: Drafts
) -> DriverStatement | None:
    """The statement compiled on a dialect of `ActiveRules`; None if its columns cannot be matched by position."""
    if (draft := drafts.get(dialect)) is not None:
        parameters = list(draft[0].parameters)
        for place, name, process in draft[1]:
            parameters[place] = values[name] if process is None else process(values[name])
        return DriverStatement(draft[0].sql, tuple(parameters), *draft[0][2:])
    # Sorted, as Connection._execute_clauseelement() does (engine/base.py): both find the same entry of the cache.
    entry = internals.compiled_with_cache(statement, dialect, cache, sorted(values))
    if not internals.has_columns_by_position(compiled := entry[0]):
        return None
    bound = DriverStatement(*internals.bound(entry, values), compiled.column_types, dialect, described)
    if (places := internals.places_of(compiled, values)) is not None:
        drafts[dialect] = bound, places
    return bound


_COMPILED_STATEMENTS = 500
_LARGE = 2_000
"""Characters of SQL."""
_MOST_LARGE = 250_000
"""Characters, in all. A full garbage collection visits all objects of the statements."""


class WeighedCache(Generic[Key, Value]):
    """Keeps the values that were used last, as many as weigh `most` in all; the last one, whatever it weighs.

    Several threads may use it.
    """

    def __init__(self, most: int) -> None:
        self.most, self.weight = most, 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value with that key; None if it is not kept."""
        with self._lock:
            if (entry := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
            return None if entry is None else entry[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Keep a value, in the place of an earlier one with that key."""
        with self._lock:
            self.remove(key)
            self._entries[key] = value, weight
            self.weight += weight
            while self.weight > self.most and len(self._entries) > 1:
                self.remove(next(iter(self._entries)))

    def remove(self, key: Key) -> None:
        """Forget the value with that key, if it is kept."""
        with self._lock:
            _, weight = self._entries.pop(key, (None, 0))
            self.weight -= weight


class CompiledStatements:
    """SQLAlchemy's cache of compiled statements for one source, which keeps few large ones.

    It is not the application's own, so that a forged statement cannot affect that one. Large statements are bounded by
    their characters, and beside the others: they drop one another only.
    """

    def __init__(self) -> None:
        self._small: Any = util.LRUCache(_COMPILED_STATEMENTS)
        self.large: WeighedCache[Any, Any] = WeighedCache(_MOST_LARGE)

    def get(self, key: Any) -> Any:
        """The compiled statement of that key; None if it is not kept."""
        compiled = self._small.get(key)
        return self.large.get(key) if compiled is None else compiled

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(compiled.string) <= _LARGE:
            self._small[key] = compiled
        else:
            self.large.put(key, compiled, len(compiled.string))


def synchronous(connection: AsyncConnection) -> Connection:
    """SQLAlchemy's synchronous connection behind one that is open."""
    assert connection.sync_connection is not None
    return connection.sync_connection


def driver_of(connection: AsyncConnection) -> Any:
    """The driver's connection of an open connection."""
    return synchronous(connection).connection.driver_connection


USED = "dualsql_used"
"""Under this name, `memory_of` a connection has whether it has worked, and may be dead when it is used again."""

ON_STOP = "dualsql_on_stop"
"""Under this name, `memory_of` a connection has the function that stops what another process reads for it."""


def memory_of(connection: AsyncConnection) -> dict[Any, Any]:
    """A dict that lives as long as the driver's connection."""
    return synchronous(connection).info
