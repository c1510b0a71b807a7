"""A synchronous engine in worker threads, one for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Self, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    CursorResult,
    Dialect,
    Engine,
    Executable,
    Pool,
    Result,
    create_engine,
    event,
)
from sqlalchemy.exc import NoSuchModuleError

from dualsql.databases.backends import backend_named
from dualsql.errors import ConfigurationError

T = TypeVar("T")

_SETTLING = 5.0
"""Seconds that a caller or a shutdown waits for a connection: a database that does not answer must not hold it up."""

_MOST_IDLE = 4
"""Threads of an engine that wait for the next connection: to start one takes up to 0.3 ms."""


def new_synchronous_engine(
    url: URL, *, opened: Callable[[Any], None] | None = None, **options: Any
) -> Engine:
    """A synchronous engine for `url`.

    Args:
        opened: is called with each new connection of the driver, instead of `Backend.opened`.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    backend = backend_named(url.get_backend_name())
    own = {} if backend is None else backend.engine_options
    try:
        adapted = url if backend is None else backend.adapt_url(url)
        engine = create_engine(adapted, hide_parameters=True, **{**own, **options})
    except (ImportError, NoSuchModuleError) as error:
        driver = url.drivername  # as it stands there, of a dialect that SQLAlchemy does not know
        with suppress(ImportError, NoSuchModuleError):
            driver = url.get_driver_name()
        package = driver if backend is None else backend.package or driver
        raise ConfigurationError(
            f"The driver {driver} is not installed.", hint=f"Install it: pip install {package}"
        ) from error
    opened = opened or (None if backend is None else backend.opened)
    if opened is not None:
        event.listen(engine, "connect", lambda connection, _: opened(connection))
    return engine


class ThreadedEngine:
    """A synchronous engine whose connections are awaited: what dualsql uses of SQLAlchemy's AsyncEngine."""

    def __init__(self, engine: Engine) -> None:
        self.sync_engine = engine
        self._late: set[Future[None]] = set()
        self._idle: list[ThreadPoolExecutor] = []

    @property
    def dialect(self) -> Dialect:
        """The engine's own."""
        return self.sync_engine.dialect

    @property
    def url(self) -> URL:
        """The engine's own."""
        return self.sync_engine.url

    @property
    def pool(self) -> Pool:
        """The engine's own."""
        return self.sync_engine.pool

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ThreadedConnection]:
        """A connection of the pool, with a thread of its own for the length of the block."""
        # One thread, as drivers such as sqlite3 ask of a connection.
        thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="dualsql")
        is_idle = False
        try:
            connection = ThreadedConnection(await self._open(thread), thread)
            try:
                yield connection
            finally:
                is_idle = await self._close(connection)
        finally:
            if is_idle and len(self._idle) < _MOST_IDLE:
                self._idle.append(thread)
            else:
                thread.shutdown(wait=False)

    async def settle(self) -> None:
        """Wait until connections that came after their caller was cancelled are in the pool, for a few seconds at most.

        One that comes into a pool that was disposed is never closed.
        """
        late = [asyncio.wrap_future(each) for each in tuple(self._late)]
        if late:
            await asyncio.wait(late, timeout=_SETTLING)

    async def dispose(self) -> None:
        """Close the pool's connections, and end the threads that none has."""
        while self._idle:
            self._idle.pop().shutdown(wait=False)
        await asyncio.to_thread(self.sync_engine.dispose)

    async def _close(self, connection: ThreadedConnection) -> bool:
        """Wait until a connection is given back, a few seconds at most: its thread may still run a statement.

        Not every driver can stop one. A cancellation does not withdraw the close behind it. Returns whether it is back.
        """
        closing = connection.submit(self._release, connection)
        closed = asyncio.wrap_future(closing)
        try:
            await asyncio.wait({closed}, timeout=_SETTLING)
        finally:
            if not closed.done():
                self._note(closing)
        if closed.done():
            closed.result()
        return closed.done()

    def _release(self, connection: ThreadedConnection) -> None:
        """In its thread: give a connection back."""
        connection.sync_connection.close()

    def _note(self, late: Future[None]) -> None:
        self._late.add(late)
        late.add_done_callback(self._late.discard)

    async def _open(self, thread: ThreadPoolExecutor) -> Connection:
        opening = thread.submit(self.sync_engine.connect)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # A thread that waits for the pool cannot be cancelled: it gives back what it gets.
            closing = thread.submit(_give_back, opening)
            self._note(closing)
            raise


def _give_back(opening: Future[Connection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        with suppress(Exception):  # no caller is left for the error
            opening.result().close()


class ThreadedConnection:
    """A connection whose every call runs in its thread.

    Attributes:
        is_used_up: its transaction has failed, or has a result that may not be read to its end.
    """

    def __init__(self, connection: Connection, thread: ThreadPoolExecutor) -> None:
        self.sync_connection = connection
        self._thread = thread
        self.is_used_up = False
        self._last: Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether its thread still works on a call, whose caller may have left."""
        return self._last is not None and not self._last.done()

    @property
    def dialect(self) -> Dialect:
        """The connection's own, once it was given one."""
        return self.sync_connection.dialect

    async def execution_options(self, **options: Any) -> Self:
        """Set options of the connection, in place."""
        await self.run(self.sync_connection.execution_options, **options)
        return self

    async def execute(
        self, statement: Executable, parameters: Any = None, *, execution_options: Any = None
    ) -> Result[Any]:
        """All rows of `statement`, in memory."""
        options = execution_options or {}
        return await self.run(
            lambda: _buffer(self.sync_connection.execute(statement, parameters, execution_options=options))
        )

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> Result[Any]:
        """All rows of `statement`, in memory."""
        return await self.run(lambda: _buffer(self.sync_connection.exec_driver_sql(statement, parameters)))

    async def stream(
        self, statement: Executable, parameters: Any = None, *, execution_options: Any = None
    ) -> ThreadedResult:
        """The rows of `statement`, as they are asked for."""
        self.is_used_up = True
        options = {**(execution_options or {}), "stream_results": True}
        result = await self.run(
            self.sync_connection.execute, statement, parameters, execution_options=options
        )
        return ThreadedResult(result, self)

    async def invalidate(self) -> None:
        """Close the driver's connection instead of giving it back."""
        await self.run(self.sync_connection.invalidate)

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        """Call `work` with the connection, in its thread. Returns its result."""
        return await self.run(work, self.sync_connection)

    async def run(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call `work` in the connection's thread. Returns its result."""
        return await asyncio.wrap_future(self.submit(work, *arguments, **options))

    def submit(self, work: Callable[..., T], *arguments: Any, **options: Any) -> Future[T]:
        """As `run`, without waiting."""
        self._last = future = self._thread.submit(work, *arguments, **options)
        return future


class ThreadedResult:
    """Rows that are fetched in their connection's thread."""

    def __init__(self, result: CursorResult[Any], connection: ThreadedConnection) -> None:
        self._result = result
        self._connection = connection

    @property
    def driver_cursor(self) -> Any:
        """The driver's cursor; None once it is closed."""
        return self._result.cursor

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._result.keys())

    def fetchmany(self, size: int) -> Sequence[tuple[Any, ...]]:
        """At most so many of the next rows; to be called in the connection's thread, by `run`."""
        return [tuple(row) for row in self._result.fetchmany(size)]

    async def run(self, work: Callable[[], T]) -> T:
        """Call `work` in the connection's thread. Returns its result."""
        return await self._connection.run(work)

    async def close(self) -> None:
        """Ask for no more rows."""
        await self._connection.run(self._result.close)


def _buffer(result: CursorResult[Any]) -> Result[Any]:
    # A frozen result has its rows and needs no cursor, so it can be read outside of the thread.
    return result.freeze()() if result.returns_rows else result
