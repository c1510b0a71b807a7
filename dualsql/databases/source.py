"""A named database that stored statements run on, and how it is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from sqlalchemy import URL, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool, SingletonThreadPool, StaticPool

from dualsql import plan
from dualsql.capabilities import Capabilities
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import is_open
from dualsql.databases.backends import Backend, PageReader
from dualsql.databases.driver import CompiledStatements
from dualsql.databases.engines import most_connections, reading_engine, supported_backend, threaded
from dualsql.databases.guard import FailureKind, Guard
from dualsql.databases.slots import QueryLimits, pool_options
from dualsql.errors import ConfigurationError, refuse_mistaken
from dualsql.formats.cells import RecordMaker
from dualsql.freeze import Proofs, Registry, freeze, thaw
from dualsql.freeze.document import Statement
from dualsql.settings import Settings

T = TypeVar("T")


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
        record_maker: the maker of records of a tuple of columns, made before or now.
        finishing: sessions that end behind their caller, until their connection is returned.
        guard: makes its sessions read-only and limits their time.
        capabilities: what its SQL can do; from its start on, with the row numbers and constraints of its tables.
    """

    name: str
    engine: AsyncEngine
    registry: Registry
    backend: Backend
    capabilities: Capabilities
    limits: QueryLimits
    owns_engine: bool
    lock: asyncio.Lock | None
    fast: PageReader | None = None
    role: str | None = None
    finishing: set[asyncio.Future[Any]] = field(default_factory=set)
    compiled: Any = field(default_factory=CompiledStatements)
    meanings: Meanings = STANDARD
    record_maker: Callable[..., RecordMaker] = field(default_factory=lambda: lru_cache(1_000)(RecordMaker))
    proofs: Proofs = field(default_factory=Proofs)
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        self.guard = self.backend.guard

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        """What an error means; stream backends get the driver's errors, and SQLAlchemy wraps them."""
        return self.guard.failure_kind(error.orig if isinstance(error, DBAPIError) else error)

    def freeze(self, statement: Statement) -> bytes:
        """The statement with its columns written out, as a document verified on this database's dialect."""
        if (known := self.proofs.known(statement)) is not None:
            return known
        written = plan.written_out(statement)
        if written is not statement and (known := self.proofs.known(written)) is not None:
            return known
        document = freeze(written, self.registry, dialect=self.engine.dialect, proofs=self.proofs)
        if written is not statement and not is_open(statement):
            self.proofs.note_renamed(statement, written)
        return document

    def thaw(self, document: bytes) -> Statement:
        """The statement of a document."""
        return thaw(document, self.registry, self.proofs)

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

    @property
    def may_end_behind(self) -> bool:
        """Whether a session may end after its caller has gone on, who might dispose of an engine of its own."""
        return self.owns_engine and self.guard.ends_behind

    def finish(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> asyncio.Future[T]:
        """Let `work` run to its end, even if its caller is cancelled; closing the source waits for it."""
        task = asyncio.ensure_future(work)
        self.finishing.add(task)
        task.add_done_callback(self.finishing.discard)
        return task

    def renewed(self, settings: Settings) -> Source:
        """The same database for another event loop, after `close` or `abandon`."""
        engine, most_bytes = self.engine.sync_engine, settings.maximum_page_bytes
        return replace(
            self,
            limits=QueryLimits(settings, self.backend.most_statements),
            lock=None if self.lock is None else asyncio.Lock(),
            fast=None if self.fast is None else self.backend.page_reader(engine, most_bytes),
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

    async def _close(self, finishing: Sequence[asyncio.Future[Any]]) -> None:
        if finishing:
            await asyncio.wait(finishing)
        settle = getattr(self.engine, "settle", None)  # of a ThreadedEngine
        if settle is not None:
            await settle()
        if self.fast is not None:
            self.fast.close()
        if self.owns_engine:
            await self.engine.dispose()


class Sources(dict[str, Source]):
    """The databases of a server by name. An unknown name raises ConfigurationError."""

    def __missing__(self, name: str | None) -> Source:
        several = "source is required: this server has several databases."
        message = several if name is None else f"There is no source {name!r}."
        raise ConfigurationError(message, hint=f"Use one of: {', '.join(sorted(self))}.")

    def chosen(self, name: str | None) -> Source:
        """The source with that name; without a name, the only one. Raises ConfigurationError if there are several."""
        if name is not None:
            return self[name]
        return next(iter(self.values())) if len(self) == 1 else self.__missing__(None)


Database = AsyncEngine | Engine | URL | str
"""How an application names a database."""


def open_source(
    name: str, database: Database, registry: Registry, settings: Settings | None = None
) -> Source:
    """Make a source of an engine or a URL.

    Raises:
        ConfigurationError: dualsql cannot keep this database read-only, or it does not exist.
    """
    settings = settings or Settings()
    engine, owns_engine = _engine_of(database, settings)
    backend = supported_backend(engine.dialect.name)
    capabilities = backend.capabilities
    if not backend.has_read_only_sessions:
        from dualsql.databases.unproved import require_allowed

        require_allowed(name, capabilities.name, registry, settings)
    role = settings.read_only_roles.get(name)
    if role is not None and (backend.rights is None or not backend.rights.has_roles):
        raise ConfigurationError(
            f"read_only_role is not supported: {capabilities.name} has no roles that a session can take.",
            hint="Use a database user that may only read.",
        )
    # An application's engine also writes elsewhere: only its sessions here are made read-only.
    if owns_engine:
        backend.guard.prepare(engine.sync_engine)

    return Source(
        name=name,
        engine=engine,
        registry=registry,
        backend=backend,
        capabilities=capabilities,
        limits=QueryLimits(settings, backend.most_statements),
        owns_engine=owns_engine,
        # Reading beside an application's engine would bypass its events and its pool.
        fast=backend.page_reader(engine.sync_engine, settings.maximum_page_bytes) if owns_engine else None,
        role=role,
        # A StaticPool has one connection for all: two sessions would share a transaction.
        lock=asyncio.Lock() if isinstance(engine.pool, StaticPool) else None,
        meanings=Meanings(
            engine.dialect,
            keeps_zones=capabilities.keeps_zones,
            converters=registry.converters,
            comparable=registry.comparable,
            computation=capabilities.computation._replace(functions=partial(_type_of_function, capabilities)),
        ),
    )


def _engine_of(database: Database, settings: Settings) -> tuple[AsyncEngine, bool]:
    """The engine, and whether it was made here."""
    if isinstance(database, AsyncEngine):
        return database, False
    if isinstance(database, Engine):
        return threaded(database), False
    argument: object = database
    if not isinstance(argument, str | URL):
        refuse_mistaken("databases", argument)
    return reading_engine(database, pool_options(settings)), True


def _type_of_function(capabilities: Capabilities, name: str, arguments: Sequence[Any]) -> SQLType:
    """See `Computation.functions`. Most statements have no function whose type SQLAlchemy does not know."""
    from dualsql.databases.functions import type_of_call

    return type_of_call(name, arguments, capabilities.text)


def open_sources(
    databases: Database | Mapping[str, Database], registry: Registry, settings: Settings
) -> Sources:
    """A source named "default", or one for each name in a mapping."""
    by_name = databases if isinstance(databases, Mapping) else {"default": databases}
    if not by_name:
        raise ConfigurationError("A database is required.", hint="Pass the URL of a database, or an engine.")
    if settings.unproved_read_only:
        from dualsql.databases.unproved import require_source_names

        require_source_names(settings, by_name)
    return Sources((name, open_source(name, each, registry, settings)) for name, each in by_name.items())
