"""Parses database URLs and creates engines. Errors never show a URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from dualsql.databases.backends import Backend, backend_named, kind_of_file, known_databases, known_names
from dualsql.errors import ConfigurationError


def async_url(url: str | URL) -> URL:
    """The URL with the async driver of the database; a URL that has one already keeps it.

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
        return backend.adapt_url(parsed) if driver == backend.driver else parsed
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
    """Whether queries on this database run in threads, because it has no async driver."""
    backend = _backend_of(url)
    return backend is not None and not backend.driver and not _is_async(url, preferred=False)


def has_pool(url: URL) -> bool:
    """Whether an engine for the URL has a pool whose size can be set."""
    backend = _backend_of(url)
    return backend is None or backend.has_pool(url)


def reading_options(url: URL) -> dict[str, Any]:
    """Options of an engine that only reads, for `new_engine`: with `connect_args` that the URL does not have."""
    backend = _backend_of(url)
    if backend is None:
        return {}
    given = backend.connect_arguments.get(url.get_driver_name(), {})
    own = {name: value for name, value in given.items() if name not in url.query}
    return {**backend.reading_options, **({"connect_args": own} if own else {})}


def require_there(url: URL) -> None:
    """Raise ConfigurationError if it is clear without connecting that the URL has no database."""
    backend = _backend_of(url)
    if backend is not None:
        backend.require_url(url)


def parsed_url(url: str | URL) -> URL:
    """The parts of a URL.

    Raises:
        ConfigurationError: it is not a URL; or the database is a file, and the URL names a host.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not chained: the cause contains the URL with its password.
        raise ConfigurationError("The database URL is malformed.", hint=_url_for(url)) from None
    backend = _backend_of(parsed)
    if backend is not None and backend.file_suffixes and parsed.host:
        # sqlite://shop.db: two slashes are followed by a host.
        path = f"{parsed.host}/{parsed.database or ''}".rstrip("/")[:200]
        kind = parsed.get_backend_name()
        raise ConfigurationError(
            f"The database URL names a host, and a {kind} database is a file.",
            hint=f"Write three slashes before the path: {kind}:///{path}",
        )
    return parsed


# The name of a file alone has no password to hide.
_FILE = re.compile(r"[\w./\\ -]+", re.ASCII)


def _url_for(given: str | URL) -> str:
    """How to write a URL; of the name of a file, that file's."""
    text = str(given)
    kind = kind_of_file(PurePath(text).suffix) if _FILE.fullmatch(text) else None
    if kind is None:
        return "Write it as driver://user:password@host:port/database."
    return f"Write the file's URL: {kind}:///{text[:200]}"


def server_at(url: URL) -> tuple[str, str | None, str | None]:
    """What two URLs of databases on the same server have in common: kind, host and port."""

    def one(name: str) -> str | None:
        found = url.query.get(name)
        return found if found is None or isinstance(found, str) else ",".join(found)

    port = one("port") if url.port is None else str(url.port)
    return url.get_backend_name(), url.host or one("host"), port


PREFER_PRIMARY = "prefer-primary"
"""A value of `target_session_attrs` that is dualsql's own: a server that takes writes, and without one any other."""


def has_several_hosts(url: URL) -> bool:
    """Whether the URL names several hosts, of which one is asked."""
    hosts = url.query.get("host", ())
    return len(hosts.split(",") if isinstance(hosts, str) else hosts) > 1


def most_connections(pool: object) -> int:
    """How many connections a pool opens at most; 1 for one without a size."""
    size = getattr(pool, "size", None)
    return int(size()) + max(0, int(getattr(pool, "_max_overflow", 0))) if callable(size) else 1


def is_exhausted(pool: object) -> bool:
    """Whether all connections are in use that a pool opens; never for one without a size or a limit."""
    if not isinstance(pool, QueuePool) or int(getattr(pool, "_max_overflow", 0)) < 0:
        return False
    return pool.checkedout() >= most_connections(pool)


def _backend_of(url: URL) -> Backend | None:
    return backend_named(url.get_backend_name())


def _is_async(url: URL, *, preferred: bool = True) -> bool:
    """Whether SQLAlchemy can use the driver asynchronously."""
    try:
        return bool(url.get_dialect(_is_async=preferred).is_async)
    except (SQLAlchemyError, ImportError):
        return False


# After a restart of the database, the pool has dead connections; this detects them before use.
_OF_ANY_SERVER = {"pool_pre_ping": True}


_SEVERAL_HOSTS = "Write several hosts as ?host=a,b&port=5432,5433 or as ?host=a:5432&host=b:5433."


def new_engine(url: URL, **options: Any) -> AsyncEngine:
    """An async engine for `url`, which must name an async driver (see `async_url`).

    Raises:
        ConfigurationError: the driver is not installed, or does not take the URL.
    """
    backend = _backend_of(url)
    own = _OF_ANY_SERVER if backend is None else backend.engine_options
    beyond = {} if backend is None else backend.arguments_beyond(url)
    if beyond:
        options["connect_args"] = {**beyond, **options.get("connect_args", {})}
    try:
        # The text of an error is logged; bound values, such as a tenant's, must not be.
        engine = create_async_engine(url, hide_parameters=True, **{**own, **options})
    except ArgumentError:
        # Not chained, as in `parsed_url`. Of several hosts, each needs a port, in one of two forms.
        raise ConfigurationError("The database URL is malformed.", hint=_SEVERAL_HOSTS) from None
    except ImportError as error:
        driver = url.get_driver_name()
        package = backend.package if backend is not None and driver == backend.driver else driver
        raise ConfigurationError(
            f"The driver {driver} is not installed.", hint=f"Install it: pip install {package}"
        ) from error
    _call_when_opened(engine.sync_engine, None if backend is None else backend.opened)
    return engine


def new_synchronous_engine(
    url: URL, *, opened: Callable[[Any], None] | None = None, **options: Any
) -> Engine:
    """A synchronous engine for `url`.

    Args:
        opened: is called with each new connection of the driver, instead of `Backend.opened`.

    Raises:
        ConfigurationError: the driver is not installed.
    """
    backend = _backend_of(url)
    own = {} if backend is None else backend.engine_options
    try:
        adapted = url if backend is None else backend.adapt_url(url)
        engine = create_engine(adapted, hide_parameters=True, **{**own, **options})
    except (ImportError, NoSuchModuleError) as error:
        driver = url.drivername if isinstance(error, NoSuchModuleError) else url.get_driver_name()
        package = driver if backend is None else backend.package or driver
        raise ConfigurationError(
            f"The driver {driver} is not installed.", hint=f"Install it: pip install {package}"
        ) from error
    _call_when_opened(engine, opened or (None if backend is None else backend.opened))
    return engine


def _call_when_opened(engine: Engine, opened: Callable[[Any], None] | None) -> None:
    if opened is not None:
        event.listen(engine, "connect", lambda connection, _: opened(connection))
