"""What dualsql knows of one kind of database, and the registry of all kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import URL, Dialect, Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities
from dualsql.databases.guard import Guard
from dualsql.errors import ConfigurationError

if TYPE_CHECKING:
    from dualsql.databases.driver import DriverStatement
    from dualsql.databases.stream_job import Lane, StreamJob

Rows = Sequence[Sequence[Any]]

ENTRY_POINTS = "dualsql.databases"
"""The group of entry points by which another package adds a database.

An entry point is called as SQLAlchemy calls the dialect (`dialect.name`), and stands for a `Backend`.
"""


class HeldUpError(Exception):
    """A page reader is busy with something long: the page takes another way."""


class PageReader(Protocol):
    """Reads pages without the engine's pool."""

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement that is known to be quick; None for another, which `fetch` takes."""

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows:
        """All rows of a statement that ends after `limit`.

        Raises:
            HeldUpError: it was not begun in time, and is not going to be.
        """

    def abandon(self) -> None:
        """End at once; the event loop has ended."""

    async def close(self) -> None:
        """End, and wait until it has."""


class ExactFetch(NamedTuple):
    """How pages are read again where a driver gives other values than the database has.

    Attributes:
        is_needed_for: whether the driver reads values of types with these codes as others.
        is_needed_after: whether these rows, read from columns with these codes on this dialect, have such values.
        fetch: all rows of a statement, exactly.
    """

    is_needed_for: Callable[[Sequence[Any]], bool]
    is_needed_after: Callable[[Rows, Sequence[Any], Dialect], bool]
    fetch: Callable[[AsyncConnection, DriverStatement], Awaitable[Rows]]


def _as_given(url: URL) -> URL:
    return url


def _anything(_: URL) -> None:
    """For databases that tell at the first connection that they are not there."""


def _has_pool(_: URL) -> bool:
    return True


def _no_reader(_: Engine) -> PageReader | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of database: what it can do, and how it is opened, kept in bounds and read.

    Attributes:
        capabilities: what its SQL can do.
        guard: keeps its sessions read-only and bounded in time.
        driver: its async driver, for URLs that name none or a synchronous one; empty: it has none, and its queries run
            in threads.
        package: what `pip install` takes to bring that driver.
        spellings: names that URLs have for it and SQLAlchemy does not know, and SQLAlchemy's names.
        engine_options: of engines that dualsql makes, as `create_engine` takes them.
        adapt_url: the URL as its driver takes it.
        require_url: raises ConfigurationError for a URL that leads nowhere, or where connecting would make a database.
        has_pool: whether an engine on the URL has a pool whose size can be chosen.
        page_reader: what reads the pages of an engine that dualsql made, where there is a shorter way than the pool.
        stream_backends: by driver: chooses what streams the rows of a statement. Without one SQLAlchemy does.
        exact_fetches: by driver: see `ExactFetch`.
    """

    capabilities: Capabilities
    guard: Guard
    driver: str = ""
    package: str = ""
    spellings: Mapping[str, str] = field(default_factory=dict)
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    adapt_url: Callable[[URL], URL] = _as_given
    require_url: Callable[[URL], None] = _anything
    has_pool: Callable[[URL], bool] = _has_pool
    page_reader: Callable[[Engine], PageReader | None] = _no_reader
    stream_backends: Mapping[
        str, Callable[[StreamJob, AsyncConnection, DriverStatement], Awaitable[Lane]]
    ] = field(default_factory=dict)
    exact_fetches: Mapping[str, ExactFetch] = field(default_factory=dict)


_BUILT_IN: Mapping[str, str] = {
    "sqlite": "dualsql.databases.sqlite",
    "postgresql": "dualsql.databases.postgresql",
    "postgres": "dualsql.databases.postgresql",
    "mysql": "dualsql.databases.mariadb",
    "mariadb": "dualsql.databases.mariadb",
    "duckdb": "dualsql.databases.duckdb",
}
"""Modules that have a BACKEND, by SQLAlchemy's name of the dialect, or a name that URLs have for it.

Each is loaded when it is first asked for.
"""

_loaded: dict[str, Backend | None] = {}


def backend_named(name: str) -> Backend | None:
    """The database that SQLAlchemy, or a URL, calls so; None for one that dualsql does not know.

    Raises:
        ConfigurationError: another package's entry point of that name cannot be loaded, or is no Backend.
    """
    try:
        return _loaded[name]
    except KeyError:
        found = _loaded[name] = _built_in(name) if name in _BUILT_IN else _added(name)
        return found


def backend_of(dialect: Dialect) -> Backend | None:
    """The dialect's database, or None for one that dualsql does not know."""
    return backend_named(dialect.name)


def known_names() -> list[str]:
    """What SQLAlchemy calls the databases that there are."""
    return [name for name, backend in _known() if name not in backend.spellings]


def known_databases() -> list[str]:
    """What people call them."""
    return list(dict.fromkeys(backend.capabilities.name for _, backend in _known()))


def _known() -> Iterator[tuple[str, Backend]]:
    for name in dict.fromkeys([*_BUILT_IN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))]):
        # Of one that cannot be loaded its own users are told.
        with suppress(ConfigurationError):
            backend = backend_named(name)
            if backend is not None:
                yield name, backend


def _built_in(name: str) -> Backend:
    found: Backend = import_module(_BUILT_IN[name]).BACKEND
    return found


def _added(name: str) -> Backend | None:
    """A database that another package adds. None of them can take the place of a built-in one."""
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        try:
            found = entry.load()
        except Exception as error:
            raise ConfigurationError(
                f"The database {name[:40]!r} of another package cannot be loaded.",
                hint=f"Its entry point is {entry.value[:80]!r}, in the group {ENTRY_POINTS}.",
            ) from error
        if not isinstance(found, Backend):
            raise ConfigurationError(
                f"The entry point {entry.value[:80]!r} is no database.",
                hint="It must be a dualsql.databases.Backend.",
            )
        return found
    return None
