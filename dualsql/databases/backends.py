"""The description of a database (`Backend`), and the registry of all databases.

A `Backend` has the capabilities of the database, its `Guard` (read-only mode, time limit) and its readers of rows.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Dialect, Engine, PoolProxiedConnection, Table, inspect as inspector_of
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.databases.table import IN_MEMORY, OWN
from dualsql.errors import ConfigurationError, LimitExceededError, QueryExecutionError
from dualsql.formats.cells import Processor

if TYPE_CHECKING:
    from dualsql.databases.streams import StreamBackend, StreamJob


_NUMBER = re.compile(r"(?:_+[0-9]+)+$")

_SHORTEST_CUT = 60
"""Bytes of the names that PostgreSQL cuts: to 63, less what is left of a character."""

_log = logging.getLogger(__name__)


class ColumnTypes(tuple[SQLType, ...]):  # noqa: SLOT001 - a subclass of tuple has none that hold something
    """The types of the columns of a compiled statement, in order.

    Attributes:
        uncoded: by dialect, the processors of these types where the driver tells no codes.
    """

    def __init__(self, _: Iterable[SQLType] = ()) -> None:
        self.uncoded: WeakKeyDictionary[Dialect, list[tuple[int, Processor]]] = WeakKeyDictionary()


_TYPES: WeakKeyDictionary[Any, ColumnTypes] = WeakKeyDictionary()
"""By compiled statement."""


def _types_of(compiled: Any) -> ColumnTypes:
    found = _TYPES.get(compiled)
    if found is None:
        # Once for a statement that SQLAlchemy's cache gives again and again, with `uncoded`.
        found = ColumnTypes(column.type for column in internals.result_columns_of(compiled))
        _TYPES[compiled] = found
    return found


@dataclass(frozen=True, slots=True)
class DriverStatement:
    """A compiled statement with its parameters, for the driver.

    Attributes:
        parameters: a tuple, or a mapping if the driver (psycopg) takes them by name.
        types: the types of the columns, in order.
        described: the names of the columns; see `require_described`.
    """

    sql: str
    parameters: Any
    types: ColumnTypes
    dialect: Dialect
    described: Sequence[str]

    def processors(self, codes: Sequence[Any] | None = None) -> list[tuple[int, Processor]]:
        """SQLAlchemy's result processors by position of the column, for the driver's codes of their types."""
        known = self.types.uncoded.get(self.dialect) if codes is None else None
        if known is not None:
            return known
        read = [
            (position, internals.result_processor(type_, self.dialect, codes and codes[position]))
            for position, type_ in enumerate(self.types)
        ]
        found = [(position, processor) for position, processor in read if processor is not None]
        if codes is None:
            self.types.uncoded[self.dialect] = found
        return found


def require_described(found: Sequence[str], described: Sequence[str]) -> None:
    """Before a row is read, raise QueryExecutionError if the database returns other columns than described.

    Args:
        found: the names that the driver reports.
        described: the names from `dualsql.columns.result.driver_names`.
    """
    if len(found) == len(described) and all(map(_is_described, found, described)):
        return
    _log.error("The database returned the columns %r where %r are described.", list(found), list(described))
    raise QueryExecutionError(
        f"The database returned {len(found)} columns that differ from the {len(described)} columns of the result.",
        hint="No row was sent. Tell the operator: the server's log names the columns.",
        developer_hint="No row was sent. Each literal_column() has to stand for one column. If the statement has none, "
        "this is a bug in dualsql: report the columns that the log names.",
    )


def _is_described(found: str, described: str) -> bool:
    if found == described or not described:
        return True
    # SQLAlchemy may prefix the table's name and append a number, and PostgreSQL cuts long names.
    one, other = (_NUMBER.sub("", name.casefold()) for name in (found, described))
    is_cut = len(found.encode()) >= _SHORTEST_CUT and described.startswith(found)
    return one == other or one.endswith("_" + other) or is_cut


def is_listened_to(engine: Any, connection: Any = None) -> bool:
    """Whether the engine has event listeners for execution, so that statements must go through SQLAlchemy."""
    return bool(
        internals.has_events(engine)
        or internals.has_events(engine.dialect)
        or (connection and internals.has_events(connection))
    )


def driver_statement(
    dialect: Dialect, statement: Any, values: Mapping[str, Any], cache: Any, described: Sequence[str]
) -> DriverStatement | None:
    """The statement compiled on `dialect` with its values; None if its columns cannot be matched by position."""
    # Sorted, as Connection._execute_clauseelement() does (engine/base.py): both find the same entry of the cache.
    found = internals.compiled_with_cache(statement, dialect, cache, sorted(values))
    compiled = found.compiled
    if not internals.has_columns_by_position(compiled):
        return None
    own: Any = type(dialect)
    no_connection: Any = _NoConnection(dialect)
    bindings = [dict(values)] if values else []
    context = internals.unsent_context(
        _context(own), no_connection, statement=statement, found=found, values=bindings
    )
    bound = context.parameters[0]
    parameters = tuple(bound) if compiled.positional else bound
    return DriverStatement(context.statement, parameters, _types_of(compiled), dialect, described)


def fingerprint(dialect: Dialect, statement: Any, values: Mapping[str, Any], cache: Any) -> str:
    """A hash of the statement's SQL, which has placeholders for its values: the same for all callers and pages."""
    compiled = internals.compiled_with_cache(statement, dialect, cache, sorted(values)).compiled
    return sha256(str(compiled).encode("utf-8", "backslashreplace")).hexdigest()[:16]


class _NoConnection(NamedTuple):
    """The attributes of a connection that an execution context reads before it executes."""

    dialect: Dialect


def _no_cursor(_: Any) -> None:
    """No cursor: a context would open one at once, which only SQLAlchemy's greenlet may do."""


@cache
def _context(dialect: Any) -> Any:
    """An execution context of the dialect that is not used to execute."""
    plain = dialect.execution_ctx_cls
    return type(f"Unsent{plain.__name__}", (plain,), {"create_cursor": _no_cursor})


_STOP_PAUSE, _STOP_ATTEMPTS = 0.01, 200


class FailureKind(Enum):
    """The meaning of a driver's error."""

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
    PART = auto()
    """Another server, which the database asks for a part of the rows, did not answer."""
    FULL = auto()
    """The database ran out of disk or memory."""
    UNSUITED = auto()
    """The statement asks of a value what its type does not have: an operator, a function, a conversion."""
    GROUPING = auto()
    """An aggregate is not allowed where it stands, or a column beside aggregates is not in GROUP BY."""
    SORTING = auto()
    """The rows of a SELECT DISTINCT are sorted by what is not selected."""
    WINDOW = auto()
    """A window function is not allowed where it stands, as in WHERE."""
    DIVISION = auto()
    """The statement divides by zero."""
    OVERFLOW = auto()
    """A number that the statement computes is out of the range of its type."""
    ARGUMENT = auto()
    """A function of the statement is not defined for a value that it is given."""
    SEVERAL_ROWS = auto()
    """A subquery that stands for one value gives more than one row."""
    VALUE = auto()
    """A value is none of the type that it is converted to, or compared with."""
    SIZE = auto()
    """A value was larger than the connection allows."""


class Refusal(Enum):
    """Why a database refuses a connection."""

    USER = auto()
    """The user may not connect, or the password is another one."""
    DATABASE = auto()
    """The server has no such database."""
    ROLE = auto()
    """The database has no such role."""
    HOST = auto()
    """Nobody answers at that address."""
    POOLER = auto()
    """A pooler between gives each transaction another session, and the driver counts on one."""


def too_large() -> LimitExceededError:
    """The error for rows that are too large for memory."""
    return LimitExceededError(
        "The rows are too large for one page.",
        hint="Select fewer or shorter columns or fewer rows, or use a stream.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """The terms of one session.

    Attributes:
        limit: how long each statement may run.
        settings: names and values that the database's own policies read, for this transaction only.
    """

    limit: timedelta
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def milliseconds(self) -> int:
        """The limit in milliseconds; never 0, which most databases take as "no limit"."""
        return max(1, math.ceil(self.limit.total_seconds() * 1000))


TableName = tuple[str | None, str]
"""The schema of a table, None for the database's own, and its name."""


class Guard(ABC):
    """Makes sessions of one kind of database read-only and limits their time."""

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to prepare
        """Make an engine read-only permanently. Called once, for engines that dualsql made."""

    @abstractmethod
    def read_only(
        self, connection: AsyncConnection, terms: SessionTerms
    ) -> AbstractAsyncContextManager[None]:
        """A read-only transaction on `terms`, open from the first line of the block. It also covers statements that a
        stream backend runs on the driver's connection. Afterwards, all settings of the connection are restored.

        Where `Backend.reading_options` turns the pool's ping off, it sends a statement before the block: that shows
        whether the connection is alive.
        """

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """Stop the statement that `working` waits for, also in the database. Returns when `working` has ended."""
        working.cancel()
        await asyncio.wait({working})

    def without_read_ahead(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block waits for a slow reader, keep the driver from reading ahead."""
        return nullcontext()

    async def close_result(self, result: Any) -> None:
        """Close a stream's result, read to its end or not. Never raises: the session ends next."""
        with suppress(Exception):
            await result.close()

    def tolerant_reading(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block reads rows through SQLAlchemy, a value that the driver cannot read becomes an Unfit."""
        return nullcontext()

    def limited_bytes(self, connection: AsyncConnection, most: int) -> AbstractContextManager[None]:
        """While the block reads a page, limit the bytes from the database, if they can be counted.

        Raises:
            LimitExceededError: the limit was exceeded; see `too_large`.
        """
        return nullcontext()

    def look(self, connection: Connection) -> None:
        """Let the database read its catalogue, as every user may, and as a file that was removed cannot."""
        inspector_of(connection).has_table("dualsql_health")

    def may_assume(self, role: str, connection: Connection) -> bool:
        """Whether the connection's user may take the role; called if the database has roles."""
        raise NotImplementedError

    async def row_numbers(self, _connection: AsyncConnection) -> Mapping[TableName, str]:
        """The names of the columns that number the rows of tables; see `Capabilities.row_number`."""
        return {}

    async def connection_limit(self, _connection: AsyncConnection) -> int | None:
        """How many connections the session's user may open; None for no limit, or where it is not known."""
        return None

    async def writable_tables(
        self, _connection: AsyncConnection, _tables: Sequence[Table]
    ) -> Sequence[str] | None:
        """The tables that the session's user could change without the guard; None for a database without users.

        A database that has roles must tell them.
        """
        return None

    async def tables_without_policies(
        self, connection: AsyncConnection, tables: Sequence[Any]
    ) -> Sequence[Any]:
        """The tables that no policy restricts for the session's user; called if the database has row-level security."""
        raise NotImplementedError

    async def has_policies(self, connection: AsyncConnection) -> bool:
        """Whether policies restrict the session's user on any table; called if the database has row-level security."""
        raise NotImplementedError

    async def is_pooled(self, connection: AsyncConnection) -> bool:
        """Whether a pooler is seen between the driver and the database."""
        return False

    def refusal_of(self, error: BaseException | None) -> Refusal | None:
        """Why the database refused a connection, from the driver's `error`; None for any other reason."""
        return None

    @abstractmethod
    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        """The meaning of the driver's `error`; None for any other failure."""


async def repeat_until_done(working: asyncio.Future[Any], attempt: Callable[[], Any]) -> None:
    """Repeat an attempt to stop a statement until `working` has ended: one that has not begun cannot be stopped.

    After two seconds, `working` is not waiting for the database, and is cancelled.
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
    """The driver's connection of an open connection."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.connection.driver_connection


def memory_of(connection: AsyncConnection) -> dict[Any, Any]:
    """A dict that lives as long as the driver's connection."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.info


Run = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def spare_connection(connection: AsyncConnection) -> AsyncIterator[Run]:
    """A function that runs statements on a new connection, made like those of the pool and closed at the end."""
    opened = connection.sync_connection
    assert opened is not None
    call = greenlet_spawn if connection.dialect.is_async else asyncio.to_thread
    # The engine's own pool may have none to spare, and a statement is to be stopped now.
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
    # Returned to the pool, it would stay open unused.
    spare.detach()
    spare.close()


Rows = Sequence[Sequence[Any]]

ENTRY_POINTS = "dualsql.databases"
"""The group of entry points of databases: dualsql's own, and those that other packages add.

The name of an entry point is SQLAlchemy's name of the dialect (`dialect.name`); its object is a `Backend`.
"""


class PageReaderBusyError(Exception):
    """A page reader is busy with a long statement: the page uses the pool."""


class PageReader(Protocol):
    """Reads pages without the engine's pool."""

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement that is known to be fast; None for any other one, which `fetch` runs."""

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows:
        """All rows of a statement, with the time limit `limit`.

        Raises:
            PageReaderBusyError: the statement was not started in time, and will not be started.
        """

    def abandon(self) -> None:
        """Stop at once, because the event loop has ended."""

    async def close(self) -> None:
        """Stop, and wait for the end."""


class FileImport(Protocol):
    """Copies files of rows into a new database of one file. Paths are literal: a name with `*` is no pattern.

    Attributes:
        error: the class of what the methods raise for a file that cannot be read.
    """

    error: type[Exception]

    def add_parquet(self, path: Path, table: str) -> None:
        """Copy a Parquet file into a new table."""

    def add_csv(self, path: Path, table: str, *, has_tabs: bool) -> None:
        """Copy CSV whose first row holds the names into a new table. `has_tabs`: values are separated by tabs."""

    def add_cells(self, path: Path, table: str, columns: Mapping[str, str]) -> None:
        """Copy CSV without a row of names into a new table of these columns, whose SQL types are given."""

    def interrupt(self) -> None:
        """Stop the copy, from another thread."""

    def close(self) -> None:
        """Close the database."""


class ExactFetch(NamedTuple):
    """How pages are read again if a driver returns other values than the database has.

    Attributes:
        is_known_for: whether columns of these types, on this dialect, are better read so at once: else the query runs
            twice, 1,160 ms where it takes 650.
        is_needed_for: whether the driver changes values of types with these codes.
        is_needed_after: whether these rows, from columns with these codes on this dialect, have such values.
        fetch: reads all rows of a statement exactly.
    """

    is_known_for: Callable[[Sequence[SQLType], Dialect], bool]
    is_needed_for: Callable[[Sequence[Any]], bool]
    is_needed_after: Callable[[Rows, Sequence[Any], Dialect], bool]
    fetch: Callable[[AsyncConnection, DriverStatement], Awaitable[Rows]]


def _as_given(url: URL) -> URL:
    return url


def _no_arguments(_: URL) -> Mapping[str, Any]:
    return {}


def _anything(_: URL) -> None:
    """Accept any URL, for databases whose first connection reports a wrong one."""


def _has_pool(_: URL) -> bool:
    return True


def _no_reader(_: Engine) -> PageReader | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of database: what it can do, and how it is opened, limited and read.

    Attributes:
        capabilities: what its SQL can do.
        guard: makes its sessions read-only and limits their time.
        has_read_only_sessions: its sessions refuse to write, which is tried at each start. Without them a source needs
            `Settings.unproved_read_only`, and nothing is tried.
        driver: its async driver, for URLs that name none or a synchronous one. Without one (empty), its queries run in
            threads.
        package: what `pip install` takes to bring that driver.
        spellings: names that URLs have for it and SQLAlchemy does not know, and SQLAlchemy's names.
        file_suffixes: of files that are such a database, with the dot.
        open_import: makes a database of one file, into which other files are copied; None if it has no such databases.
            It raises ImportError if a package is not installed.
        engine_options: of engines that dualsql makes, as `create_engine` takes them.
        reading_options: the same, for engines that only read.
        adapt_url: the URL as its driver takes it.
        arguments_beyond: the `connect_args` of engines for the URL that it does not have itself.
        opened: is called with each new connection of the driver, on engines that dualsql makes.
        connect_arguments: by driver: for connections that read, such as the name under which the database lists them.
        require_url: raises ConfigurationError for a URL that leads nowhere, or where connecting would make a database.
        has_pool: whether an engine for the URL has a pool whose size can be set.
        page_reader: reads pages of an engine that dualsql made, if there is a faster way than the pool.
        stream_backends: by driver: a function that chooses the stream backend of a statement; by default SQLAlchemy.
        exact_fetches: by driver: see `ExactFetch`.
    """

    capabilities: Capabilities
    guard: Guard
    has_read_only_sessions: bool = True
    driver: str = ""
    package: str = ""
    spellings: Mapping[str, str] = field(default_factory=dict)
    file_suffixes: tuple[str, ...] = ()
    open_import: Callable[[Path], FileImport] | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    reading_options: Mapping[str, Any] = field(default_factory=dict)
    adapt_url: Callable[[URL], URL] = _as_given
    arguments_beyond: Callable[[URL], Mapping[str, Any]] = _no_arguments
    opened: Callable[[Any], None] | None = None
    connect_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    require_url: Callable[[URL], None] = _anything
    has_pool: Callable[[URL], bool] = _has_pool
    page_reader: Callable[[Engine], PageReader | None] = _no_reader
    stream_backends: Mapping[
        str, Callable[[StreamJob, AsyncConnection, DriverStatement], Awaitable[StreamBackend]]
    ] = field(default_factory=dict)
    exact_fetches: Mapping[str, ExactFetch] = field(default_factory=dict)


_OTHER = "dualsql.databases.other"
"""The module of the databases that nobody wrote a file for."""

_NAMED_GUARD = "dualsql.databases.added_guard"
"""The module of `NamedGuard`, which names the guard of another package in its errors."""

UNOPENED_URL = IN_MEMORY
"""The database of a server that is made to check its options or to describe its routes, and never started."""

_loaded: dict[str, Backend | None] = {}


def backend_named(name: str) -> Backend | None:
    """The database with this name in SQLAlchemy or in URLs; None if there is no such dialect.

    A dialect that nobody wrote a file for is `dualsql.databases.other`'s.

    Raises:
        ConfigurationError: the entry point of that name cannot be loaded, or is not a Backend.
    """
    try:
        return _loaded[name]
    except KeyError:
        entry = next((each for each in _entries() if each.name == name), None)
        found = _loaded[name] = _other(name) if entry is None else _backend_at(entry)
        return found


def backend_of(dialect: Dialect) -> Backend | None:
    """The dialect's database; None if SQLAlchemy finds no dialect by its name."""
    return backend_named(dialect.name)


def known_names() -> list[str]:
    """SQLAlchemy's names of all databases."""
    return [name for name, backend in _known() if name not in backend.spellings]


def known_databases() -> list[str]:
    """The names of all databases for people."""
    return list(dict.fromkeys(backend.capabilities.name for _, backend in _known()))


def kind_of_file(suffix: str) -> str | None:
    """What SQLAlchemy calls the databases that are files with this suffix."""
    return next((name for name, backend in _known() if suffix.lower() in backend.file_suffixes), None)


class FileDatabase(NamedTuple):
    """The database into which files are copied.

    Attributes:
        name: SQLAlchemy's.
        suffix: of its own file.
        open_import: see `Backend.open_import`.
    """

    name: str
    suffix: str
    open_import: Callable[[Path], FileImport]


def database_of_files() -> FileDatabase:
    """The first database into which files can be copied."""
    return next(
        FileDatabase(name, backend.file_suffixes[0], backend.open_import)
        for name, backend in _known()
        if backend.open_import is not None
    )


def _entries() -> Iterator[EntryPoint]:
    """All databases, dualsql's own first: another package cannot replace one of them. None is loaded yet."""
    for name, value in OWN.items():
        yield EntryPoint(name, value, ENTRY_POINTS)
    yield from entry_points(group=ENTRY_POINTS)


def _known() -> Iterator[tuple[str, Backend]]:
    for name in dict.fromkeys(entry.name for entry in _entries()):
        # A database that cannot be loaded is reported when it is opened.
        with suppress(ConfigurationError):
            backend = backend_named(name)
            if backend is not None:
                yield name, backend


def _other(name: str) -> Backend | None:
    found: Backend | None = import_module(_OTHER).backend_for(name)
    return found


def _backend_at(entry: EntryPoint) -> Backend:
    try:
        found = entry.load()
    except Exception as error:
        raise ConfigurationError(
            f"The database {entry.name[:40]!r} cannot be loaded: the package that provides it failed.",
            hint=f"Its entry point is {entry.value[:80]!r}, in the group {ENTRY_POINTS}.",
        ) from error
    if not isinstance(found, Backend):
        raise ConfigurationError(
            f"The entry point {entry.value[:80]!r} is not a database.",
            hint="It must be a dualsql.databases.Backend.",
        )
    if OWN.get(entry.name) == entry.value:
        return found
    # The errors of another package's guard name it.
    return replace(found, guard=import_module(_NAMED_GUARD).NamedGuard(found.guard))
