"""Database URLs as people write them, and the engines made of them. An error never shows the URL."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.columns.exact import read_document
from dualsql.errors import ConfigurationError

# The async driver of each database, chosen when the URL names none or only a synchronous one.
ASYNC_DRIVERS = {
    "sqlite": "aiosqlite",
    "postgresql": "asyncpg",
    "mysql": "asyncmy",
    "mariadb": "asyncmy",
}

# Databases that have no async driver: their queries run in threads.
SYNCHRONOUS = frozenset({"duckdb"})

# Spellings that hosting services hand out and SQLAlchemy does not know.
ALIASES = {"postgres": "postgresql"}


def async_url(url: str | URL) -> URL:
    """The same database by its async driver; a URL that has an async driver keeps it.

    libpq's `sslmode=` becomes asyncpg's `ssl=`, which takes the same words.

    Raises:
        ConfigurationError: it is not a URL, or no async driver is known for the database.
    """
    parsed = parsed_url(url)
    backend, _, driver = parsed.drivername.partition("+")
    backend = ALIASES.get(backend, backend)
    parsed = parsed.set(drivername=f"{backend}+{driver}" if driver else backend)
    if driver and _is_async(parsed):
        return parsed
    if backend not in ASYNC_DRIVERS:
        raise ConfigurationError(
            f"No async driver is known for the database {backend[:40]!r}.",
            hint=f"Use one of {', '.join(sorted(ASYNC_DRIVERS))}.",
        )
    return _as_asyncpg_wants(parsed.set(drivername=f"{backend}+{ASYNC_DRIVERS[backend]}"))


def is_synchronous(url: URL) -> bool:
    """Whether queries on this database run in threads."""
    return url.get_backend_name() in SYNCHRONOUS


def parsed_url(url: str | URL) -> URL:
    """The parts of a URL.

    Raises:
        ConfigurationError: it is not a URL.
    """
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # The cause quotes the URL and with it the password: it is not chained.
        raise ConfigurationError(
            "The database URL cannot be read.", hint="Write it as driver://user:password@host:port/database."
        ) from None


def _is_async(url: URL) -> bool:
    """Whether SQLAlchemy knows the driver and can await it; a driver that serves both ways counts."""
    try:
        return bool(url.get_dialect(_is_async=True).is_async)
    except (SQLAlchemyError, ImportError):
        return False


def _as_asyncpg_wants(url: URL) -> URL:
    sslmode = url.query.get("sslmode")
    if url.drivername != "postgresql+asyncpg" or sslmode is None:
        return url
    return url.difference_update_query(["sslmode"]).update_query_dict({"ssl": sslmode})


_EXTRAS = {"asyncmy": "'dualsql[mariadb]'"}
"""Of a driver, what brings it."""


def new_engine(url: URL, **options: Any) -> AsyncEngine:
    """An async engine on `url`, which names an async driver already (see `dualsql.databases.engines`).

    Raises:
        ConfigurationError: the driver is not installed.
    """
    try:
        # An error's text reaches the log; bound values, a tenant's among them, must not.
        # A restarted server leaves dead connections in the pool: they are found before they are used.
        has_server = url.get_backend_name() != "sqlite"
        if url.get_backend_name() == "postgresql":
            options.setdefault("json_deserializer", read_document)
        return create_async_engine(url, hide_parameters=True, pool_pre_ping=has_server, **options)
    except ImportError as error:
        driver = url.get_driver_name()
        raise ConfigurationError(
            f"The driver {driver} is not installed.",
            hint=f"Install it: pip install {_EXTRAS.get(driver, driver)}",
        ) from error


def new_synchronous_engine(url: URL, **options: Any) -> Engine:
    """An engine on `url`, whose database has no async driver.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    try:
        return create_engine(url, hide_parameters=True, **options)
    except (ImportError, NoSuchModuleError) as error:
        backend = url.get_backend_name()
        raise ConfigurationError(
            f"The driver of {backend} is not installed.", hint=f"Install it: pip install 'dualsql[{backend}]'"
        ) from error
