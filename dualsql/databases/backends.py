"""The description of a database (`Backend`), and the registry of all databases.

A `Backend` has the capabilities of the database, its `Guard` (read-only mode, time limit) and its readers of rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import URL, Dialect, Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn
from dualsql.databases.driver import DriverStatement
from dualsql.databases.guard import Guard
from dualsql.databases.table import IN_MEMORY, OWN
from dualsql.errors import ConfigurationError
from dualsql.formats.writer import Rows, Writer, WriterOptions

if TYPE_CHECKING:
    from dualsql.databases.fetch import Fetch
    from dualsql.databases.files import FileImport
    from dualsql.databases.streams import StreamBackend, StreamJob


ENTRY_POINTS = "dualsql.databases"
"""The group of entry points of databases: dualsql's own, and those that other packages add.

The name of an entry point is SQLAlchemy's name of the dialect (`dialect.name`); its object is a `Backend`.
"""


class PageReaderBusyError(Exception):
    """A page reader is busy with a long statement: the page uses the pool."""


class PageReader(Protocol):
    """Reads pages of a database, and streams of Arrow batches, in another way than through the engine's pool."""

    def fetch_at_once(self, sent: DriverStatement, limit: timedelta) -> Rows | None:
        """All rows of a statement that is known to be fast; None for any other one, which `fetch` runs."""

    async def fetch(self, sent: DriverStatement, limit: timedelta) -> Rows:
        """All rows of a statement, with the time limit `limit`.

        Raises:
            PageReaderBusyError: the statement was not started in time, and will not be started.
        """

    def stream_backend(
        self, job: StreamJob, sent: DriverStatement, seconds: float, *, otherwise: StreamBackend
    ) -> StreamBackend:
        """A backend for a writer of Arrow batches, or `otherwise`, which streams by the pool.

        Args:
            seconds: the time that is left.
        """

    def abandon(self) -> None:
        """Stop at once, because the event loop has ended."""

    async def close(self) -> None:
        """Stop, and wait for the end."""


class CopiedWriter(Protocol):
    """Makes the writer of rows that the database wrote itself before they were kept elsewhere, in the same spelling."""

    def __call__(
        self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions, kinds: Sequence[int]
    ) -> Writer:
        """`kinds`: the database's own number of the type of each column."""


def _as_given(url: URL) -> URL:
    return url


def _no_arguments(_: URL) -> Mapping[str, Any]:
    return {}


def _anything(_: URL) -> None:
    """Accept any URL, for databases whose first connection reports a wrong one."""


def _not_in_place(_database: Path, _files: Sequence[Path]) -> None:
    """Read nothing, for databases without such views."""


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
        read_in_place: lets the views of such a database read files, until they change.
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
        row_fetches: by driver: reads all rows of a statement, where the driver changes values that SQLAlchemy gets.
        copied_writers: by format: see `CopiedWriter`.
        described_type: the type of a column by its type code in the driver's `cursor.description`; NullType where the
            code does not tell. None for a database that describes no columns.
    """

    capabilities: Capabilities
    guard: Guard
    has_read_only_sessions: bool = True
    driver: str = ""
    package: str = ""
    spellings: Mapping[str, str] = field(default_factory=dict)
    file_suffixes: tuple[str, ...] = ()
    open_import: Callable[[Path], FileImport] | None = None
    read_in_place: Callable[[Path, Sequence[Path]], None] = _not_in_place
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
    row_fetches: Mapping[str, Callable[[Fetch, AsyncConnection], Awaitable[Rows]]] = field(
        default_factory=dict
    )
    copied_writers: Mapping[str, CopiedWriter] = field(default_factory=dict)
    described_type: Callable[[Any], SQLType] | None = None


_OTHER = "dualsql.databases.other"
"""The module of the databases that nobody wrote a file for."""

_NAMED_GUARD = "dualsql.databases.added_guard"
"""The module of `NamedGuard`, which names the guard of another package in its errors."""

UNOPENED_URL = IN_MEMORY
"""The database of a server that is made to check its options or to describe its routes, and never started."""

_loaded: dict[str, Backend | None] = {}


def backend_named(name: str) -> Backend | None:
    """The database with this name in SQLAlchemy or in URLs; None if there is no such dialect.

    A dialect that nobody wrote a file for is `dualsql.databases.other`'s. Some dialects have the name of their driver
    after a dot, such as `firebird.firebird`, which no URL has.

    Raises:
        ConfigurationError: the entry point of that name cannot be loaded, or is not a Backend.
    """
    try:
        return _loaded[name]
    except KeyError:
        bare = name.partition(".")[0]
        entry = next((each for each in _entries() if each.name in (name, bare)), None)
        found = _loaded[name] = _other(bare) if entry is None else _backend_at(entry)
        return found


def backend_of(dialect: Dialect) -> Backend | None:
    """The dialect's database; None if SQLAlchemy finds no dialect by its name."""
    return backend_named(dialect.name)


def known_names() -> list[str]:
    """SQLAlchemy's names of all databases."""
    return [name for name, backend in known_backends() if name not in backend.spellings]


def known_databases() -> list[str]:
    """The names of all databases for people."""
    return list(dict.fromkeys(backend.capabilities.name for _, backend in known_backends()))


def kind_of_file(suffix: str) -> str | None:
    """What SQLAlchemy calls the databases that are files with this suffix."""
    return next((name for name, backend in known_backends() if suffix.lower() in backend.file_suffixes), None)


def _entries() -> Iterator[EntryPoint]:
    """All databases, dualsql's own first: another package cannot replace one of them. None is loaded yet."""
    for name, value in OWN.items():
        yield EntryPoint(name, value, ENTRY_POINTS)
    yield from entry_points(group=ENTRY_POINTS)


def known_backends() -> Iterator[tuple[str, Backend]]:
    """All databases that can be loaded, by SQLAlchemy's name and by the names that URLs have."""
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
