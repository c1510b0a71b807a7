"""Makes the sources of a server of the URLs and engines that an application names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from sqlalchemy import URL, Engine
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import Meanings, SQLType
from dualsql.databases.backends import backend_of
from dualsql.databases.engines import (
    async_url,
    has_pool,
    is_synchronous,
    new_engine,
    new_synchronous_engine,
    parsed_url,
    reading_options,
    require_there,
    unknown_database,
)
from dualsql.databases.source import QueryLimits, Source, pool_options
from dualsql.errors import ConfigurationError, refuse_mistaken
from dualsql.freeze import Registry
from dualsql.settings import Settings

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
    owned = isinstance(database, URL | str)
    engine = _engine_of(database, settings)
    backend = backend_of(engine.dialect)
    if backend is None:
        raise unknown_database(engine.dialect.name)
    capabilities = backend.capabilities
    if not backend.has_read_only_sessions:
        _require_unproved(name, capabilities.name, registry, settings)
    role = settings.read_only_roles.get(name)
    if role is not None and not capabilities.has_roles:
        raise ConfigurationError(
            f"read_only_role is not supported: {capabilities.name} has no roles that a session can take.",
            hint="Use a database user that may only read.",
        )
    # An application's engine also writes elsewhere: only its sessions here are made read-only.
    if owned:
        backend.guard.prepare(engine.sync_engine)
    return Source(
        name=name,
        engine=engine,
        registry=registry,
        backend=backend,
        limits=QueryLimits(settings),
        owns_engine=owned,
        # Reading beside an application's engine would bypass its events and its pool.
        quick=backend.page_reader(engine.sync_engine) if owned else None,
        sampler=backend.page_reader(engine.sync_engine) if owned else None,
        role=role,
        # A StaticPool has one connection for all: two sessions would share a transaction.
        lock=asyncio.Lock() if isinstance(engine.pool, StaticPool) else None,
        meanings=Meanings(
            engine.dialect,
            keeps_zones=capabilities.keeps_zones,
            converters=registry.converters,
            comparable=registry.comparable,
            computation=replace(capabilities.computation, functions=_function_types(capabilities)),
        ),
    )


def _function_types(capabilities: Capabilities) -> Callable[[str, Sequence[Any]], SQLType]:
    """See `Computation.functions`. Most statements have no function whose type SQLAlchemy does not know."""

    @cache
    def types_of_functions() -> Callable[[str, Sequence[Any]], SQLType]:
        from dualsql.databases.functions import typed

        return typed(capabilities.text)

    def type_of(name: str, arguments: Sequence[Any]) -> SQLType:
        return types_of_functions()(name, arguments)

    return type_of


def _require_unproved(name: str, kind: str, registry: Registry, settings: Settings) -> None:
    """Raise ConfigurationError unless a database without read-only sessions is allowed and only SELECTs can be sent."""
    allowed = settings.unproved_read_only
    if not (allowed if isinstance(allowed, bool) else name in allowed):
        raise ConfigurationError(
            f"dualsql knows no read-only sessions of {kind}: nothing proves that the database {name!r} is only read.",
            hint="Use a database user that may only read.",
            developer_hint="Use a database user that may only read, and set unproved_read_only=True, or to the names "
            "of such sources.",
            details={"setting": "unproved_read_only"},
        )
    if registry.allow_text:
        raise ConfigurationError(
            f"allow_text is not supported: no read-only sessions of {kind} are known, and a text may write.",
            hint="Write the statements with select().",
        )


def _engine_of(database: Database, settings: Settings) -> AsyncEngine:
    if isinstance(database, AsyncEngine):
        return database
    if isinstance(database, Engine):
        return _threaded(database)
    given: object = database
    if not isinstance(given, str | URL):
        refuse_mistaken("databases", given)
    url = parsed_url(database)
    pool: Mapping[str, Any] = pool_options(settings)
    if is_synchronous(url):
        return _threaded(new_synchronous_engine(url, **pool))
    url = async_url(url)
    require_there(url)
    return new_engine(url, **reading_options(url), **(pool if has_pool(url) else {}))


def _threaded(engine: Engine) -> AsyncEngine:
    if isinstance(engine.pool, SingletonThreadPool):
        raise ConfigurationError(
            "This engine opens one in-memory database for each thread.",
            hint="Use a database file, or create the engine with poolclass=StaticPool.",
        )
    from dualsql.databases.threads import ThreadedEngine

    # It has the methods that are used.
    return cast("AsyncEngine", ThreadedEngine(engine))


def open_sources(
    databases: Database | Mapping[str, Database], registry: Registry, settings: Settings | None = None
) -> dict[str, Source]:
    """A source named "default", or one for each name in a mapping."""
    named = databases if isinstance(databases, Mapping) else {"default": databases}
    if not named:
        raise ConfigurationError("A database is required.", hint="Pass the URL of a database, or an engine.")
    settings = settings or Settings()
    _require_known(settings, named)
    return {name: open_source(name, database, registry, settings) for name, database in named.items()}


def _require_known(settings: Settings, named: Collection[str]) -> None:
    """Raise ConfigurationError if it is not clear which database has no read-only sessions."""
    unproved = settings.unproved_read_only
    hint = f"Name the databases that have no read-only sessions, of: {', '.join(sorted(named))}."
    if unproved is True and len(named) > 1:
        raise ConfigurationError("unproved_read_only=True is for a server with one database.", hint=hint)
    unknown = [] if isinstance(unproved, bool) else sorted(set(unproved).difference(named))
    if unknown:
        raise ConfigurationError(f"unproved_read_only: there is no source {unknown[0]!r}.", hint=hint)
