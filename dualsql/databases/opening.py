"""Makes the sources of a server of the URLs and engines that an application names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import URL, Engine
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import StaticPool

from dualsql.capabilities import Capabilities
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType
from dualsql.databases.backends import backend_of
from dualsql.databases.engines import reading_engine, threaded
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
    owned = False
    if isinstance(database, AsyncEngine):
        engine = database
    elif isinstance(database, Engine):
        engine = threaded(database)
    else:
        given: object = database
        if not isinstance(given, str | URL):
            refuse_mistaken("databases", given)
        engine, owned = reading_engine(database, pool_options(settings)), True
    backend = backend_of(engine.dialect)
    if backend is None:
        from dualsql.databases.url_errors import unknown_database

        raise unknown_database(engine.dialect.name)
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
        fast=backend.page_reader(engine.sync_engine) if owned else None,
        role=role,
        # A StaticPool has one connection for all: two sessions would share a transaction.
        lock=asyncio.Lock() if isinstance(engine.pool, StaticPool) else None,
        meanings=Meanings(
            engine.dialect,
            keeps_zones=capabilities.keeps_zones,
            converters=registry.converters,
            comparable=registry.comparable,
            computation=replace(capabilities.computation, functions=partial(_type_of_function, capabilities)),
        ),
    )


def _type_of_function(capabilities: Capabilities, name: str, arguments: Sequence[Any]) -> SQLType:
    """See `Computation.functions`. Most statements have no function whose type SQLAlchemy does not know."""
    from dualsql.databases.functions import typed

    return typed(capabilities.text)(name, arguments)


def open_sources(
    databases: Database | Mapping[str, Database], registry: Registry, settings: Settings | None = None
) -> dict[str, Source]:
    """A source named "default", or one for each name in a mapping."""
    named = databases if isinstance(databases, Mapping) else {"default": databases}
    if not named:
        raise ConfigurationError("A database is required.", hint="Pass the URL of a database, or an engine.")
    settings = settings or Settings()
    if settings.unproved_read_only:
        from dualsql.databases.unproved import require_source_names

        require_source_names(settings, named)
    return {name: open_source(name, database, registry, settings) for name, database in named.items()}
