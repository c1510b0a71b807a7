"""Readers of single rows: every request reads its resource by the primary key.

Each keeps a connection. What it cannot read, an ordinary connection of the store reads, or reports the error.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from threading import get_ident
from types import MappingProxyType
from typing import Any, Protocol

from sqlalchemy import URL, Dialect, Executable, PoolProxiedConnection
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.sqlite.connection import LOOP_LIMIT, TimeLimit
from dualsql.databases.sqlite.rows import next_rows
from dualsql.store.engines import MissingFileError, identity_of

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_CLOSED = float("inf")
_REST = 1.0
"""Seconds after a failure until the next attempt."""
_DOUBLE = 701
"""PostgreSQL's number of the type."""
_LONGEST_READ = 1.0
"""Seconds for a row from PostgreSQL, with the time that others read."""
_SHORT_TRIP = 0.0005
"""Seconds of a round trip to PostgreSQL at which one connection reads more rows than a process answers requests."""


class RowReader(Protocol):
    """Reads rows by a shorter way than a connection of SQLAlchemy's pool."""

    async def read(self, query: RowQuery, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """The rows of the query with its values, as SQLAlchemy would have read them; None if reading fails."""

    def reopen(self) -> None:
        """Connect anew for the running event loop, if that is another one or the reader was closed."""

    async def close(self) -> None:
        """Give the connection up, and read no more."""


def row_reader(engine: AsyncEngine) -> RowReader | None:
    """The reader for a store's own engine; None without one."""
    if engine.dialect.name == "sqlite":
        return SQLiteRowReader(engine.url)
    return PostgreSQLRowReader(engine) if engine.dialect.driver == "asyncpg" else None


class RowQuery:
    """A statement that is compiled once for each driver, which takes SQLAlchemy longer than SQLite takes to answer it.

    Attributes:
        statement: for other connections than those of the readers.
    """

    def __init__(self, statement: Executable) -> None:
        self.statement = statement

    @cached_property
    def sqlite(self) -> CompiledRowQuery:
        return CompiledRowQuery(self.statement, _SQLITE)

    @cached_property
    def asyncpg(self) -> CompiledRowQuery:
        from sqlalchemy.dialects.postgresql import asyncpg

        return CompiledRowQuery(self.statement, asyncpg.dialect(), _DOUBLE)  # type: ignore[no-untyped-call]


class CompiledRowQuery:
    """A statement in the SQL of one dialect.

    Args:
        number: the driver's code of the type of numbers that are no integers, if SQLAlchemy needs it to read them.

    Attributes:
        sql: with the driver's parameters.
    """

    def __init__(self, statement: Executable, dialect: Dialect, number: int | None = None) -> None:
        compiled: Any = internals.compiled_with_cache(statement, dialect, None, ())[0]
        self.sql: str = compiled.string
        write = {
            name: internals.bind_processor(compiled.binds[name].type, dialect)
            for name in (compiled.positiontup or compiled.binds)
        }
        # Instants and numbers: equal ones are written and read alike, and the same at each request.
        self._bound = {name: process and lru_cache(256)(process) for name, process in write.items()}
        types = {column[0]: column[3] for column in internals.result_columns_of(compiled)}
        self._names = tuple(types)
        read = {name: internals.result_processor(type_, dialect, number) for name, type_ in types.items()}
        self._processes = [(name, lru_cache(256)(read[name])) for name in read if read[name] is not None]

    def parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as the driver has them, in the order of their places in the SQL."""
        return {
            name: values[name] if process is None else process(values[name])
            for name, process in self._bound.items()
        }

    def to_dict(self, row: Sequence[Any]) -> dict[str, Any]:
        """A row of the driver as SQLAlchemy would have read it."""
        values = dict(zip(self._names, row, strict=True))
        for name, process in self._processes:
            values[name] = process(values[name])
        return values


_SQLITE = sqlite.dialect(paramstyle="named")


class SQLiteRowReader:
    """Reads rows of a SQLite file on the event loop.

    SQLite does this faster than a thread wakes up (20 us instead of 2.9 ms, docs/decisions/0012), or a pool gives a
    connection."""

    def __init__(self, url: URL) -> None:
        (self._path,), self._options = _SQLITE.create_connect_args(url)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._clock = TimeLimit()
        self._thread = 0
        self._rests_until = 0.0

    def rows(self, query: RowQuery, values: Mapping[str, Any] = _NO_VALUES) -> list[tuple[Any, ...]] | None:
        """The rows of the query with its values; None if reading fails or takes more than a few milliseconds."""
        now, thread = time.monotonic(), get_ident()
        self._thread = self._thread or thread
        # sqlite3 refuses a connection in another thread than its own.
        if now < self._rests_until or self._thread != thread:
            return None
        self._clock.ends_at = now + LOOP_LIMIT
        try:
            return next_rows(self._connected().execute(query.sqlite.sql, query.sqlite.parameters(values)))
        except (sqlite3.Error, OSError):
            self._disconnect()
            self._rests_until = now + _REST
            return None

    async def read(
        self, query: RowQuery, values: Mapping[str, Any] = _NO_VALUES
    ) -> list[dict[str, Any]] | None:
        rows = self.rows(query, values)
        return None if rows is None else [query.sqlite.to_dict(row) for row in rows]

    def reopen(self) -> None:
        if self._thread != get_ident() or self._rests_until == _CLOSED:
            self._disconnect()
            self._thread, self._rests_until = 0, 0.0

    async def close(self) -> None:
        self._rests_until = _CLOSED
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._thread == get_ident():
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        """The connection; a new one if there is none, or another file in the place of its own."""
        file = identity_of(self._path)
        if self._connection is None or file != self._file:
            self._disconnect()
            if file is None and not self._path.startswith("file:"):
                raise MissingFileError
            options = {**self._options, "timeout": 0, "isolation_level": None, "check_same_thread": True}
            self._connection, self._file = sqlite3.connect(self._path, **options), file
            self._connection.execute("PRAGMA query_only = ON").close()
            (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                # In other modes, readers wait for writers. The store sets WAL when it opens the file.
                raise sqlite3.OperationalError("not in WAL mode yet")
            self._clock.install(self._connection, on_event_loop=True)
        return self._connection


class PostgreSQLRowReader:
    """Reads rows of PostgreSQL by asyncpg, on a connection of the pool that it keeps.

    A row takes a sixth of the CPU that it takes SQLAlchemy with a connection from its pool, and one round trip less,
    because the connection is not tried before. It reads one row each round trip: where these are long, the ordinary
    connections read what would wait.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._connection: PoolProxiedConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._rests_until = 0.0
        self._reads = 0
        self._shortest = float("inf")
        """Seconds of the shortest read: a round trip, without the time that the event loop had no time for it."""

    async def read(
        self, query: RowQuery, values: Mapping[str, Any] = _NO_VALUES
    ) -> list[dict[str, Any]] | None:
        # The third would wait as long as the two round trips take that an ordinary connection needs.
        if self._reads > 1 and self._shortest > _SHORT_TRIP:
            return None
        self._reads += 1
        try:
            async with asyncio.timeout(_LONGEST_READ), self._lock:
                self._loop = asyncio.get_running_loop()
                if time.monotonic() < self._rests_until:
                    return None
                rows = await self._rows(query.asyncpg, values)
        except TimeoutError:
            self._rest()  # asyncpg cancels the query, as for a caller who leaves
            return None
        except Exception:  # noqa: BLE001 - the ordinary connection reports it
            self._disconnect()
            self._rest()
            return None
        finally:
            self._reads -= 1
        return [query.asyncpg.to_dict(row) for row in rows]

    def reopen(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.detach()  # it ended with the other event loop, and no pool is to close it
            self._lock = asyncio.Lock()
        self._rests_until = 0.0

    async def close(self) -> None:
        self._rests_until = _CLOSED
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await greenlet_spawn(connection.close)  # back to the pool

    async def _rows(self, query: CompiledRowQuery, values: Mapping[str, Any]) -> list[Any]:
        if self._connection is None:
            self._connection, self._shortest = await self._connected(), float("inf")
        begun = time.monotonic()
        rows = await self._fetched(self._connection, query.sql, *query.parameters(values).values())
        self._shortest = min(self._shortest, time.monotonic() - begun)
        return rows

    async def _connected(self) -> PoolProxiedConnection:
        connection = await self._engine.raw_connection()
        try:
            if await self._fetched(connection, "SELECT pg_is_in_recovery()") != [(False,)]:
                # A store is read from a standby only while there is no primary, and this connection would stay.
                raise ConnectionError("a standby")
        except BaseException:
            connection.invalidate()
            raise
        return connection

    async def _fetched(self, connection: PoolProxiedConnection, sql: str, *values: object) -> list[Any]:
        prepared, _ = await internals.prepared(connection.dbapi_connection, sql, self._engine.dialect)
        rows: list[Any] = await prepared.fetch(*values)
        return rows

    def _rest(self) -> None:
        self._rests_until = max(self._rests_until, time.monotonic() + _REST)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
