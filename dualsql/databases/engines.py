"""Parses database URLs and creates engines. Errors never show a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import URL, Engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from dualsql.databases.backends import Backend, backend_named
from dualsql.errors import ConfigurationError


def parsed_url(url: str | URL) -> URL:
    """The parts of a URL.

    Raises:
        ConfigurationError: it is not a URL, or its host is none; or the database is a file, and the URL names a host.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        from dualsql.databases.url_errors import malformed_url

        # Not chained: the cause contains the URL with its password.
        raise malformed_url(url) from None
    backend = backend_named(parsed.get_backend_name())
    if parsed.host and ("@" in parsed.host or (backend is not None and backend.file_suffixes)):
        from dualsql.databases.url_errors import wrong_host

        raise wrong_host(parsed)
    return parsed


def supported_backend(name: str) -> Backend:
    """The database with this name in SQLAlchemy or in URLs.

    Raises:
        ConfigurationError: there is no such dialect, or its entry point cannot be loaded.
    """
    backend = backend_named(name)
    if backend is None:
        from dualsql.databases.url_errors import unknown_database

        raise unknown_database(name)
    return backend


def async_url(url: str | URL) -> URL:
    """The URL with the async driver of the database; a URL that has one already keeps it.

    Raises:
        ConfigurationError: it is not a URL, or no async driver is known for the database.
    """
    parsed = parsed_url(url)
    name, _, driver = parsed.drivername.partition("+")
    backend = supported_backend(name)
    name = backend.spellings.get(name, name)
    parsed = parsed.set(drivername=f"{name}+{driver}" if driver else name)
    if driver and _is_async(parsed):
        return backend.adapt_url(parsed) if driver == backend.driver else parsed
    if not backend.driver:
        from dualsql.databases.url_errors import without_async_driver

        raise without_async_driver(name)
    return backend.adapt_url(parsed.set(drivername=f"{name}+{backend.driver}"))


def _is_async(url: URL, *, preferred: bool = True) -> bool:
    """Whether SQLAlchemy can use the driver asynchronously."""
    try:
        return bool(url.get_dialect(_is_async=preferred).is_async)
    except (SQLAlchemyError, ImportError):
        return False


def reading_engine(database: str | URL, pool_options: Mapping[str, int]) -> AsyncEngine:
    """An engine that only reads. Where the database has no async driver, its queries run in threads.

    Raises:
        ConfigurationError: it is not a URL, the URL has no database, or the driver is not installed.
    """
    url, options = parsed_url(database), dict[str, Any](pool_options)
    backend = supported_backend(url.get_backend_name())
    backend.require_url(url)
    if not backend.driver and not _is_async(url, preferred=False):
        from dualsql.databases.threads import new_synchronous_engine

        return threaded(new_synchronous_engine(url, **options))
    url = async_url(url)
    options = {**backend.reading_options, **(options if backend.has_pool(url) else {})}
    arguments = backend.connect_arguments.get(url.get_driver_name(), {})
    if missing := {name: value for name, value in arguments.items() if name not in url.query}:
        options["connect_args"] = missing
    return new_engine(url, **options)


def threaded(engine: Engine) -> AsyncEngine:
    """A synchronous engine with the methods that are used of an AsyncEngine, which run in threads.

    Raises:
        ConfigurationError: its pool has one connection for each thread, or one for all.
    """
    # With one for all, a session would roll back what the application has not committed, and of two threads in one
    # connection of sqlite3, each waits for the other for ever: for Python's lock, and for the connection's.
    if isinstance(engine.pool, SingletonThreadPool | StaticPool):
        which = "each thread" if isinstance(engine.pool, SingletonThreadPool) else "all threads"
        raise ConfigurationError(
            f"This engine has one connection for {which}, and queries run in threads of their own.",
            hint="Use a database file, or a pool of several connections (QueuePool) to one database.",
        )
    from dualsql.databases.threads import ThreadedEngine

    return cast("AsyncEngine", ThreadedEngine(engine))


def new_engine(url: URL, **options: Any) -> AsyncEngine:
    """An async engine for `url`, which must name an async driver (see `async_url`).

    Raises:
        ConfigurationError: there is no such dialect, the driver is not installed, or it does not take the URL.
    """
    backend = supported_backend(url.get_backend_name())
    options = {**backend.engine_options, **options}
    if arguments := backend.arguments_beyond(url):
        options["connect_args"] = {**arguments, **options.get("connect_args", {})}
    try:
        # The text of an error is logged; bound values, such as a tenant's, must not be.
        engine = create_async_engine(url, hide_parameters=True, **options)
    except ArgumentError:
        # Not chained, as in `parsed_url`. Of several hosts, each needs a port, in one of two forms.
        raise ConfigurationError(
            "The database URL is malformed.",
            hint="Write several hosts as ?host=a,b&port=5432,5433 or as ?host=a:5432&host=b:5433.",
        ) from None
    except ImportError as error:
        driver = url.get_driver_name()
        package = backend.package if driver == backend.driver else driver
        raise ConfigurationError(
            f"The driver {driver} is not installed.", hint=f"Install it: pip install {package}"
        ) from error
    if (opened := backend.opened) is not None:
        event.listen(engine.sync_engine, "connect", lambda connection, _: opened(connection))
    return engine


def most_connections(pool: object) -> int:
    """How many connections a pool opens at most; 1 for one without a size."""
    size = getattr(pool, "size", None)
    return int(size()) + max(0, int(getattr(pool, "_max_overflow", 0))) if callable(size) else 1
