"""Database URLs as people write them, and the engines made of them. An error never shows the URL."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.databases.backends import Backend, backend_named, kind_of_file, known_databases, known_names
from dualsql.errors import ConfigurationError


def async_url(url: str | URL) -> URL:
    """The same database by its async driver; a URL that has an async driver keeps it.

    Raises:
        ConfigurationError: it is not a URL, or no async driver is known for the database.
    """
    parsed = parsed_url(url)
    name, _, driver = parsed.drivername.partition("+")
    backend = backend_named(name)
    if backend is None:
        raise unknown_database(name)
    name = backend.spellings.get(name, name)
    parsed = parsed.set(drivername=f"{name}+{driver}" if driver else name)
    if driver and _is_async(parsed):
        return parsed
    if not backend.driver:
        raise ConfigurationError(
            f"dualsql knows no async driver for the database {name[:40]!r}.",
            hint=f"Use one of {', '.join(sorted(filter(_has_async_driver, known_names())))}.",
        )
    return backend.adapt_url(parsed.set(drivername=f"{name}+{backend.driver}"))


def unknown_database(name: str) -> ConfigurationError:
    """The error for a kind of database that dualsql does not know how to keep read-only."""
    *others, last = known_databases()
    return ConfigurationError(
        f"dualsql cannot keep the database {name[:40]!r} read-only.",
        hint=f"Supported databases: {', '.join(others)} and {last}.",
    )


def _has_async_driver(name: str) -> bool:
    backend = backend_named(name)
    return backend is not None and bool(backend.driver)


def is_synchronous(url: URL) -> bool:
    """Whether queries on this database run in threads, as it has no async driver."""
    backend = _backend_of(url)
    return backend is not None and not backend.driver


def has_pool(url: URL) -> bool:
    """Whether an engine on the URL has a pool whose size can be chosen."""
    backend = _backend_of(url)
    return backend is None or backend.has_pool(url)


def require_there(url: URL) -> None:
    """Raise ConfigurationError for a URL that leads to no database, as far as that can be told without connecting."""
    backend = _backend_of(url)
    if backend is not None:
        backend.require_url(url)


def parsed_url(url: str | URL) -> URL:
    """The parts of a URL.

    Raises:
        ConfigurationError: it is not a URL.
    """
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # The cause quotes the URL and with it the password: it is not chained.
        raise ConfigurationError("The database URL is malformed.", hint=_url_for(url)) from None


# The name of a file alone has no password to hide.
_FILE = re.compile(r"[\w./\\ -]+", re.ASCII)


def _url_for(given: str | URL) -> str:
    """How to write a URL; of the name of a file, that file's."""
    text = str(given)
    kind = kind_of_file(PurePath(text).suffix) if _FILE.fullmatch(text) else None
    if kind is None:
        return "Write it as driver://user:password@host:port/database."
    return f"Write the file's URL: {kind}:///{text[:200]}"


def _backend_of(url: URL) -> Backend | None:
    return backend_named(url.get_backend_name())


def _is_async(url: URL) -> bool:
    """Whether SQLAlchemy knows the driver and can await it; a driver that serves both ways counts."""
    try:
        return bool(url.get_dialect(_is_async=True).is_async)
    except (SQLAlchemyError, ImportError):
        return False


# A restarted server leaves dead connections in the pool: they are found before they are used.
_OF_ANY_SERVER = {"pool_pre_ping": True}


def new_engine(url: URL, **options: Any) -> AsyncEngine:
    """An async engine on `url`, which names an async driver already (see `async_url`).

    Raises:
        ConfigurationError: the driver is not installed.
    """
    backend = _backend_of(url)
    own = _OF_ANY_SERVER if backend is None else backend.engine_options
    try:
        # An error's text reaches the log; bound values, a tenant's among them, must not.
        return create_async_engine(url, hide_parameters=True, **{**own, **options})
    except ImportError as error:
        driver = url.get_driver_name()
        package = backend.package if backend is not None and driver == backend.driver else driver
        raise ConfigurationError(
            f"The driver {driver} is not installed.", hint=f"Install it: pip install {package}"
        ) from error


def new_synchronous_engine(url: URL, **options: Any) -> Engine:
    """An engine on `url`, whose database has no async driver.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    backend = _backend_of(url)
    own = {} if backend is None else backend.engine_options
    try:
        return create_engine(url, hide_parameters=True, **{**own, **options})
    except (ImportError, NoSuchModuleError) as error:
        name = url.get_backend_name()
        package = name if backend is None else backend.package
        raise ConfigurationError(
            f"The driver of {name} is not installed.", hint=f"Install it: pip install {package}"
        ) from error
