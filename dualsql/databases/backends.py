"""What the file of one database says of it, and the registry of all databases.

A `Backend` names its capabilities, its `Guard` (read-only, bounded in time) and what reads its rows on its driver.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import URL, Connection, Dialect, Engine, PoolProxiedConnection, Table
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.errors import ConfigurationError, LimitExceededError, QueryExecutionError
from dualsql.formats.cells import Processor

if TYPE_CHECKING:
    from dualsql.databases.streams import Lane, StreamJob


_NUMBER = re.compile(r"(?:_+[0-9]+)+$")

_SHORTEST_CUT = 60
"""Bytes of the names that PostgreSQL cuts: to 63, less what is left of a character."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """A statement as the driver takes it.

    Attributes:
        parameters: a tuple, or a mapping where the driver (psycopg) takes them by name.
        types: of the columns, in order.
        described: their names; see `require_described`.
    """

    sql: str
    parameters: Any
    types: tuple[SQLType, ...]
    dialect: Dialect
    described: Sequence[str]

    def processors(self, codes: Sequence[Any] | None = None) -> list[tuple[int, Processor]]:
        """What SQLAlchemy does to the values of some columns, by position, given the driver's codes of their types."""
        found = [
            (position, internals.result_processor(type_, self.dialect, codes and codes[position]))
            for position, type_ in enumerate(self.types)
        ]
        return [(position, processor) for position, processor in found if processor is not None]


def require_described(found: Sequence[str], described: Sequence[str]) -> None:
    """Raise QueryExecutionError unless the database returns the columns that are described; before a row is read.

    Args:
        found: the names that the driver tells.
        described: the names as `dualsql.columns.result.driver_names` has them.
    """
    if len(found) == len(described) and all(map(_is_described, found, described)):
        return
    _log.error("The database returned the columns %r where %r are described.", list(found), list(described))
    raise QueryExecutionError(
        f"The database returned {len(found)} columns that differ from the {len(described)} columns of the result.",
        hint="No row was sent. This is a bug in dualsql: report the columns that the server's log names.",
    )


def _is_described(found: str, described: str) -> bool:
    if not described or found == described:
        return True
    # SQLAlchemy may put a table's name in front and a number behind, and PostgreSQL cuts what is long.
    one, other = (_NUMBER.sub("", name.casefold()) for name in (found, described))
    is_cut = len(found.encode()) >= _SHORTEST_CUT and described.startswith(found)
    return one == other or one.endswith("_" + other) or is_cut


def is_listened_to(engine: Any, connection: Any = None) -> bool:
    """Whether somebody listens to what is executed, which then has to go through SQLAlchemy."""
    return bool(
        internals.has_events(engine)
        or internals.has_events(engine.dialect)
        or (connection and internals.has_events(connection))
    )


def driver_statement(
    dialect: Dialect, statement: Any, values: Mapping[str, Any], cache: Any, described: Sequence[str]
) -> DriverStatement | None:
    """The statement compiled on `dialect`, its values bound; None when its columns are not known by their position."""
    found = internals.compiled_with_cache(statement, dialect, cache, sorted(values))
    compiled = found.compiled
    if not internals.has_columns_by_position(compiled):
        return None
    own: Any = type(dialect)
    nowhere: Any = _Nowhere(dialect)
    bindings = [dict(values)] if values else []
    context = internals.unsent_context(
        _context(own), nowhere, statement=statement, found=found, values=bindings
    )
    types = tuple(column.type for column in internals.result_columns_of(compiled))
    bound = context.parameters[0]
    parameters = tuple(bound) if compiled.positional else bound
    return DriverStatement(context.statement, parameters, types, dialect, described)


class _Nowhere(NamedTuple):
    """What a context asks of a connection before it executes."""

    dialect: Dialect


def _no_cursor(_: Any) -> None:
    """A context would open one at once, which only SQLAlchemy's own greenlet may do."""


@cache
def _context(dialect: Any) -> Any:
    """The dialect's execution context, which is not going to execute."""
    plain = dialect.execution_ctx_cls
    return type(f"Unsent{plain.__name__}", (plain,), {"create_cursor": _no_cursor})


_STOP_PAUSE, _STOP_ATTEMPTS = 0.01, 200


class FailureKind(Enum):
    """What a driver's error means to the caller."""

    WRITE = auto()
    """The database refused to change anything."""
    TIMEOUT = auto()
    """The statement was stopped, by its time limit or by the database's operator."""
    BUSY = auto()
    """Something was in the way that may be gone at the next try: a lock, a standby's recovery."""
    BROKEN = auto()
    """The connection ended while it was used."""
    UNREACHABLE = auto()
    """The database is down, starting or stopping."""
    FULL = auto()
    """The database ran out of disk or memory."""
    UNSUITED = auto()
    """The statement asks of a value what its type does not have: an operator, a function, a conversion."""
    DIVISION = auto()
    """The statement divides by zero."""
    OVERFLOW = auto()
    """A number that the statement computes is out of the range of its type."""
    VALUE = auto()
    """A value is none of the type that it is converted to, or compared with."""
    SIZE = auto()
    """A value was larger than the connection allows."""


class Refusal(Enum):
    """Why a database takes no connection."""

    USER = auto()
    """The user may not connect, or the password is another one."""
    DATABASE = auto()
    """The server has no such database."""
    ROLE = auto()
    """The database has no such role."""
    HOST = auto()
    """Nobody answers at that address."""


def too_large() -> LimitExceededError:
    """The error for rows that are too large to be held."""
    return LimitExceededError(
        "The rows are too large for one page.",
        hint="Select fewer or shorter columns or fewer rows, or use a stream.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """What holds in one session.

    Attributes:
        limit: how long each statement may run.
        settings: names and values that the database's own policies read, in this transaction alone.
    """

    limit: timedelta
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def milliseconds(self) -> int:
        """The limit as a whole number; never 0, which means "no limit" to most databases."""
        return max(1, math.ceil(self.limit.total_seconds() * 1000))


class Guard(ABC):
    """Keeps sessions on one kind of database read-only and bounded in time."""

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to prepare
        """Make an engine read-only for good; called once, for engines that dualsql made itself."""

    @abstractmethod
    def kept(self, connection: AsyncConnection, terms: SessionTerms) -> AbstractAsyncContextManager[None]:
        """A read-only transaction on `terms`, open from the first line of the block on: what a lane runs on the
        driver's own connection stands in it too. Nothing of it is left on the connection afterwards."""

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """End the statement that `working` waits for, in the database too; returns when `working` is over."""
        working.cancel()
        await asyncio.wait({working})

    def held(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block waits for a slow reader, the driver reads nothing ahead."""
        return nullcontext()

    async def put_away(self, result: Any) -> None:
        """Close a stream's result, whether it was read to its end or left. Never raises: its session ends next."""
        with suppress(Exception):
            await result.close()

    def reading(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block reads rows by SQLAlchemy, a value that the driver cannot read is an Unfit."""
        return nullcontext()

    def metered(self, connection: AsyncConnection, most: int) -> AbstractContextManager[None]:
        """While the block reads a page, at most so many bytes come from the database, where that can be counted.

        Raises:
            LimitExceededError: more came; see `too_large`.
        """
        return nullcontext()

    def may_take(self, role: str, connection: Connection) -> bool:
        """Whether the connection's user may take the role; asked where there are roles."""
        raise NotImplementedError

    async def writable(self, connection: AsyncConnection, tables: Sequence[Table]) -> Sequence[str]:
        """The tables that the session's role could change without the guard; asked where there are roles."""
        raise NotImplementedError

    async def unsecured(self, connection: AsyncConnection, tables: Sequence[Any]) -> Sequence[Any]:
        """Those of the tables that no policy narrows for the session's user; asked where there is row security."""
        raise NotImplementedError

    def refusal_of(self, error: BaseException | None) -> Refusal | None:
        """Why the database did not take a connection, by the driver's `error`; None for any other reason."""
        return None

    @abstractmethod
    def fault_of(self, error: BaseException | None) -> FailureKind | None:
        """What the driver's `error` means, or None for any other failure."""


async def repeated_until_over(working: asyncio.Future[Any], attempt: Callable[[], Any]) -> None:
    """Make attempts at stopping a statement until `working` is over: what has not begun yet cannot be stopped.

    What goes on for two seconds does not wait for the database, and is cancelled.
    """
    for _ in range(_STOP_ATTEMPTS):
        if working.done():
            return
        attempted = attempt()
        if inspect.isawaitable(attempted):
            await attempted
        await asyncio.wait({working}, timeout=_STOP_PAUSE)
    working.cancel()
    await asyncio.wait({working})


def driver_of(connection: AsyncConnection) -> Any:
    """The driver's connection under one that is open."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.connection.driver_connection


def memory_of(connection: AsyncConnection) -> dict[Any, Any]:
    """A place for notes that live as long as the driver's connection does."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.info


Run = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def spare_connection(connection: AsyncConnection) -> AsyncIterator[Run]:
    """What runs a statement on a connection made just as those of the engine's pool are, and closed at the end."""
    opened = connection.sync_connection
    assert opened is not None
    call = greenlet_spawn if connection.dialect.is_async else asyncio.to_thread
    spare: PoolProxiedConnection = await call(opened.engine.pool.recreate().connect)

    async def run(statement: str) -> None:
        await call(_execute, spare, statement)

    try:
        yield run
    finally:
        await call(_close, spare)


def _execute(spare: PoolProxiedConnection, statement: str) -> None:
    cursor: Any = spare.cursor()
    cursor.execute(statement)
    cursor.close()


def _close(spare: PoolProxiedConnection) -> None:
    # Given back, it would wait in a pool that nobody uses.
    spare.detach()
    spare.close()


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
        file_suffixes: of files that are such a database, with the dot.
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
    file_suffixes: tuple[str, ...] = ()
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


def kind_of_file(suffix: str) -> str | None:
    """What SQLAlchemy calls the databases that are files with this suffix."""
    return next((name for name, backend in _known() if suffix.lower() in backend.file_suffixes), None)


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
                f"The database {name[:40]!r} cannot be loaded: the package that provides it failed.",
                hint=f"Its entry point is {entry.value[:80]!r}, in the group {ENTRY_POINTS}.",
            ) from error
        if not isinstance(found, Backend):
            raise ConfigurationError(
                f"The entry point {entry.value[:80]!r} is not a database.",
                hint="It must be a dualsql.databases.Backend.",
            )
        return found
    return None
