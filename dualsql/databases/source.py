"""A named database that stored statements run on, and the limits of concurrent queries."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from sqlalchemy import util
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool, SingletonThreadPool, StaticPool

from dualsql import plan
from dualsql.capabilities import Capabilities
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.databases.backends import Backend, PageReader
from dualsql.databases.engines import most_connections
from dualsql.databases.guard import FailureKind, Guard, TableName
from dualsql.databases.slots import Queue, Slots
from dualsql.errors import ConfigurationError
from dualsql.freeze import Proofs, Registry, freeze, thaw
from dualsql.freeze.document import Statement
from dualsql.settings import Settings

TEXT_THREADS = 1
"""Of a process. With two, which share the interpreter's lock, the event loop waited 57 ms and not 20 (99 % of 4 s)."""
_MOST_WAITING_TEXTS = 64
"""Steps of texts; the longest takes 75 ms."""


class QueryLimits:
    """The slots for queries on one source, which callers share; see `dualsql.databases.slots`.

    Streams have slots of their own, so that slow readers do not delay pages. Background queries have their own too.

    Attributes:
        connection_timeout: how long a session waits for a connection of the pool.
        page_bytes: the maximum bytes of the rows of a page.
        longest_stream: the time limit of a statement whose session has no limit of its own.
        connections: how many connections all slots together use at most.
        slow_seconds: a statement that runs longer is logged.
        queries, streams: their slots.
        texts: the slots for work on callers' SQL texts; see `dualsql.databases.text_threads`.
        background: the limits of queries that may run in the background.
    """

    def __init__(self, settings: Settings) -> None:
        queue = Queue(settings.maximum_queued_queries, settings.queue_timeout)
        number = settings.maximum_concurrent_queries
        self.queries = Slots("query", number, queue, for_reading=number // 5)
        self.streams = Slots("stream", settings.maximum_streams, queue)
        self.texts = Slots("text", TEXT_THREADS, Queue(_MOST_WAITING_TEXTS, settings.queue_timeout))
        self.connection_timeout = settings.queue_timeout
        self.page_bytes = settings.maximum_page_bytes
        self.longest_stream = settings.maximum_stream_duration
        self.slow_seconds = settings.slow_query.total_seconds()
        self.connections = sum(pool_options(settings).values())
        # All but the slots is that of the source, also the queue.
        self.background: QueryLimits = copy(self)
        self.background.queries = Slots("background", settings.maximum_pending, queue)
        self.background.background = self.background

    def slot(self, *, for_stream: bool = False) -> AbstractAsyncContextManager[None]:
        """A slot for one session during the block.

        Raises:
            TooManyQueriesError: too many wait already, or none became free in `Settings.queue_timeout`.
        """
        return (self.streams if for_stream else self.queries).taken()

    def has_room(self) -> bool:
        """Whether a query would be served without waiting.

        Always false for those in the background: a count beside the sample would take another query's slot.
        """
        return self is not self.background and self.queries.has_room()


def pool_options(settings: Settings) -> dict[str, int]:
    """Pool options: one connection for each slot."""
    number = settings.maximum_concurrent_queries
    return {"pool_size": number, "max_overflow": settings.maximum_streams + settings.maximum_pending}


_COMPILED_STATEMENTS = 500
_LARGE = 2_000
"""Characters of SQL."""
_MOST_LARGE = 250_000
"""Characters, in all. A full garbage collection visits all objects of the statements."""


class CompiledStatements:
    """SQLAlchemy's cache of compiled statements for one source, which keeps few large ones.

    It is not the application's own, so that a forged statement cannot affect that one. Large statements are bounded by
    their characters, and beside the others: they drop one another only.
    """

    def __init__(self) -> None:
        self._small: Any = util.LRUCache(_COMPILED_STATEMENTS)
        self._large: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()  # of the large ones: a worker thread compiles them

    @property
    def large_characters(self) -> int:
        """The characters of all large statements."""
        return sum(len(compiled.string) for compiled in self._large.values())

    def get(self, key: Any) -> Any:
        """The compiled statement of that key; None if it is not kept."""
        compiled = self._small.get(key)
        if compiled is None and self._large:
            with self._lock:
                compiled = self._large.get(key)
                if compiled is not None:
                    self._large.move_to_end(key)
        return compiled

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(compiled.string) <= _LARGE:
            self._small[key] = compiled
            return
        with self._lock:
            self._large[key] = compiled
            self._large.move_to_end(key)
            # The last one stays whatever its size: who compiled it is about to use it.
            while self.large_characters > _MOST_LARGE and len(self._large) > 1:
                self._large.popitem(last=False)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Source:
    """A database and its registry.

    Attributes:
        engine: for a database without an async driver, a ThreadedEngine with the same methods.
        backend: the kind of database.
        limits: the limits of concurrent queries.
        owns_engine: it was made here from a URL, and is disposed here.
        lock: held by every session if the pool has a single connection.
        fast: reads statements without the pool, if the database supports it.
        role: the role that its sessions take.
        meanings: how the application's own types convert values.
        finishing: sessions whose caller was cancelled, until their connection is returned.
        row_numbers: the names of the columns that number the rows of tables; see `Guard.row_numbers`.
        capabilities: what its SQL can do, with the row numbers of its tables.
    """

    name: str
    engine: AsyncEngine
    registry: Registry
    backend: Backend
    limits: QueryLimits
    owns_engine: bool
    lock: asyncio.Lock | None
    fast: PageReader | None = None
    role: str | None = None
    finishing: set[asyncio.Future[None]] = field(default_factory=set)
    compiled: Any = field(default_factory=CompiledStatements)
    meanings: Meanings = STANDARD
    proofs: Proofs = field(default_factory=Proofs)
    row_numbers: dict[TableName, str] = field(default_factory=dict)
    capabilities: Capabilities = field(init=False)

    def __post_init__(self) -> None:
        self.capabilities = replace(self.backend.capabilities, row_number=self._row_number)

    def _row_number(self, table: Any) -> str | None:
        name = self.row_numbers.get((table.schema, table.name))
        return None if name is None or name in table.c else name

    @property
    def guard(self) -> Guard:
        """Makes its sessions read-only and limits their time."""
        return self.backend.guard

    def failure_kind(self, error: BaseException) -> FailureKind | None:
        """What an error means; stream backends get the driver's errors, and SQLAlchemy wraps them."""
        return self.guard.failure_kind(error.orig if isinstance(error, DBAPIError) else error)

    def freeze(self, statement: Statement) -> bytes:
        """The statement with its columns written out, as a document verified on this database's dialect."""
        written = plan.written_out(statement)
        return freeze(written, self.registry, dialect=self.engine.dialect, proofs=self.proofs)

    def thaw(self, document: bytes) -> Statement:
        """The statement of a document."""
        return thaw(document, self.registry)

    def has_room(self) -> bool:
        """Whether a second session can run beside the one that is open."""
        if not self.limits.has_room():
            return False
        pool = self.engine.pool
        if isinstance(pool, QueuePool):
            # Without the overflow, which is for streams and slow queries (see pool_options).
            return pool.checkedout() < pool.size()
        return not isinstance(pool, StaticPool | SingletonThreadPool)

    @property
    def maximum_connections(self) -> int:
        """How many connections are open at most."""
        pool = self.engine.pool
        if self.owns_engine and isinstance(pool, QueuePool):
            return self.limits.connections
        return most_connections(pool)

    def in_background(self) -> Source:
        """The same database with the slots for background queries."""
        return replace(self, limits=self.limits.background, fast=None)

    def finish(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Let `work` run to its end, even if its caller is cancelled."""
        task = asyncio.ensure_future(work)
        self.finishing.add(task)
        task.add_done_callback(self.finishing.discard)
        return task

    def renewed(self, settings: Settings) -> Source:
        """The same database for another event loop, after `close` or `abandon`."""
        return replace(
            self,
            limits=QueryLimits(settings),
            lock=None if self.lock is None else asyncio.Lock(),
            fast=None if self.fast is None else self.backend.page_reader(self.engine.sync_engine),
            finishing=set(),
        )

    def abandon(self) -> None:
        """Drop connections whose event loop has ended."""
        if self.fast is not None:
            self.fast.close()
        if self.owns_engine:
            self.engine.sync_engine.dispose(close=False)

    async def close(self) -> None:
        """Wait for sessions that are being stopped, and close what was opened here.

        It continues if its caller is cancelled: hosts give a server a few seconds to end, and its queries must end too.
        """
        await asyncio.shield(self.finish(self._close(list(self.finishing))))

    async def _close(self, finishing: Sequence[asyncio.Future[None]]) -> None:
        if finishing:
            await asyncio.wait(finishing)
        settle = getattr(self.engine, "settle", None)  # of a ThreadedEngine
        if settle is not None:
            await settle()
        if self.fast is not None:
            self.fast.close()
        if self.owns_engine:
            await self.engine.dispose()


def chosen_source(sources: Mapping[str, Source], name: str | None) -> Source:
    """The source with that name; without a name, the only source.

    Raises:
        ConfigurationError: there is no such source, or there are several and no name is given.
    """
    if name is None and len(sources) == 1:
        return next(iter(sources.values()))
    if name is None or name not in sources:
        raise ConfigurationError(
            "source is required: this server has several databases."
            if name is None
            else f"There is no source {name!r}.",
            hint=f"Use one of: {', '.join(sorted(sources))}.",
        )
    return sources[name]


USED = "dualsql_used"
"""In `Connection.info` of a connection of the driver that has worked, and may be dead when it is used again."""
