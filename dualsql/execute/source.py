"""A named database that stored statements run on; the rule: it can be kept read-only, or it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, event, util
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool, SingletonThreadPool, StaticPool

from dualsql.dialects import FORBID_WRITES, Capabilities, capabilities_of
from dualsql.engines import new_engine
from dualsql.errors import ConfigurationError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.statement import Statement
from dualsql.urls import async_url

Database = AsyncEngine | URL | str
"""How an application names a database."""

# Apart from the application's own compiled statements: a forged one could not poison those.
_COMPILED_STATEMENTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One database and what may be named in it.

    Attributes:
        read_only_statements: run around each session, for an engine that is not read-only by itself.
        owns_engine: made here from a URL, so disposed here.
        turn: taken by every session when the pool has one connection for all.
        finishing: sessions whose caller was cancelled, on their way to give back their connection.
    """

    name: str
    engine: AsyncEngine
    registry: Registry
    capabilities: Capabilities
    read_only_statements: tuple[str, str] | None
    owns_engine: bool
    turn: asyncio.Lock | None
    finishing: set[asyncio.Future[None]] = field(default_factory=set)
    compiled: Any = field(default_factory=lambda: util.LRUCache(_COMPILED_STATEMENTS))

    def freeze(self, statement: Statement) -> bytes:
        """The statement as a document, verified on this database's dialect."""
        return freeze(statement, self.registry, dialect=self.engine.dialect)

    def thaw(self, document: bytes) -> Statement:
        """The statement a document stands for."""
        return thaw(document, self.registry)

    def has_room(self) -> bool:
        """Whether a second session can run beside the one that is open."""
        pool = self.engine.pool
        if isinstance(pool, QueuePool):
            return pool.checkedout() < pool.size()
        return not isinstance(pool, StaticPool | SingletonThreadPool)

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` go on after its caller was cancelled."""
        task = asyncio.ensure_future(work)
        self.finishing.add(task)
        task.add_done_callback(self.finishing.discard)

    async def close(self) -> None:
        """Wait for sessions that are being stopped, and give back what was opened here."""
        await asyncio.gather(*self.finishing, return_exceptions=True)
        if self.owns_engine:
            await self.engine.dispose()


def open_source(name: str, database: Database, registry: Registry) -> Source:
    """Make a source of an engine or a URL.

    Raises:
        ConfigurationError: dualsql does not know how to keep this database read-only, or it is not there.
    """
    if isinstance(database, Engine):
        raise ConfigurationError(
            "A synchronous engine was given.", hint="Use create_async_engine(), or pass the URL itself."
        )
    owned = not isinstance(database, AsyncEngine)
    engine = _engine_for(async_url(database)) if not isinstance(database, AsyncEngine) else database
    capabilities = capabilities_of(engine.dialect)
    if capabilities is None:
        raise ConfigurationError(
            f"dualsql cannot keep a {engine.dialect.name} database read-only.",
            hint="Use SQLite, PostgreSQL or MariaDB.",
        )
    by_construction = owned and engine.dialect.name == "sqlite"
    return Source(
        name=name,
        engine=engine,
        registry=registry,
        capabilities=capabilities,
        read_only_statements=None if by_construction else capabilities.read_only_statements,
        owns_engine=owned,
        turn=asyncio.Lock() if isinstance(engine.pool, StaticPool) else None,
    )


def _engine_for(url: URL) -> AsyncEngine:
    engine = new_engine(url)
    if url.get_backend_name() == "sqlite":
        _require_file(url)
        event.listen(engine.sync_engine, "connect", _forbid_writes)
    return engine


def _require_file(url: URL) -> None:
    # SQLite would make an empty database of a misspelt path.
    path = url.database or ":memory:"
    if path != ":memory:" and not path.startswith("file:") and not Path(path).is_file():
        raise ConfigurationError(
            f"There is no SQLite database at {path!r}.", hint="Check the path in the URL."
        )


def _forbid_writes(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(FORBID_WRITES)
    cursor.close()


def chosen_source(sources: Mapping[str, Source], name: str | None) -> Source:
    """The source of that name; the only one there is, when no name is given.

    Raises:
        ConfigurationError: there is none, or there are several.
    """
    if name is None and len(sources) == 1:
        return next(iter(sources.values()))
    if name is None or name not in sources:
        raise ConfigurationError(
            f"There is no source {name!r}.", hint=f"Name one of: {', '.join(sorted(sources))}."
        )
    return sources[name]


def open_sources(databases: Database | Mapping[str, Database], registry: Registry) -> dict[str, Source]:
    """One source named "default", or one for each name of a mapping."""
    named = databases if isinstance(databases, Mapping) else {"default": databases}
    if not named:
        raise ConfigurationError("No database was given.")
    return {name: open_source(name, database, registry) for name, database in named.items()}
