"""The description of a database (`Backend`), and the one of each dialect.

A `Backend` has the capabilities of the database, its `Guard` (read-only mode, time limit) and its readers of rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import URL, Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.databases.driver import DriverStatement
from dualsql.databases.guard import Guard
from dualsql.formats.writer import PlainPage, Rows, Writer, WrittenRows

if TYPE_CHECKING:
    from dualsql.databases.fetch import Fetch
    from dualsql.databases.files import FileImport
    from dualsql.databases.rights import UserRights
    from dualsql.databases.streams import StreamBackend, StreamJob


class PageReader(Protocol):
    """Reads statements that are known to be fast in another way than through the engine's pool."""

    def reads(self, statement: DriverStatement) -> bool:
        """Whether the statement is known to be fast; a session reads all others."""

    async def fetch(
        self, statement: DriverStatement, limit: timedelta, page: PlainPage | None = None
    ) -> Rows | WrittenRows | None:
        """All rows of a statement, with the time limit `limit`; None if a session has to read it after all.

        Where a `page` is given, the rows may be written.
        """

    def close(self) -> None:
        """Stop, perhaps because the event loop has ended."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Backend:
    """One kind of database: what it can do, and how it is opened, limited and read.

    Attributes:
        capabilities: what its SQL can do.
        guard: makes its sessions read-only and limits their time.
        rights: asks what the user may do; None for a database without users, or of which that is not known.
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
        most_statements: how many run at once at most, whatever the settings allow.
        has_pool: whether an engine for the URL has a pool whose size can be set.
        page_reader: reads fast statements of an engine that dualsql made, each of at most so many bytes, if there is a
            faster way than the pool.
        stream_backends: by driver: a function that chooses the stream backend of a statement; by default SQLAlchemy.
        row_fetches: by driver: reads all rows of a statement, where the driver changes values that SQLAlchemy gets.
        copied_writers: by format: makes the writer of rows that the database wrote itself before they were kept
            elsewhere, of their columns, the dialect, the options, and the database's own number of each column's type.
        described_type: the type of a column by its type code in the driver's `cursor.description`; NullType where the
            code does not tell. None for a database that describes no columns.
    """

    capabilities: Capabilities
    guard: Guard
    rights: UserRights | None = None
    has_read_only_sessions: bool = True
    driver: str = ""
    package: str = ""
    spellings: Mapping[str, str] = field(default_factory=dict)
    file_suffixes: tuple[str, ...] = ()
    open_import: Callable[[Path], FileImport] | None = None
    read_in_place: Callable[[Path, Sequence[Path]], None] = lambda _database, _files: None
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    reading_options: Mapping[str, Any] = field(default_factory=dict)
    adapt_url: Callable[[URL], URL] = lambda url: url
    arguments_beyond: Callable[[URL], Mapping[str, Any]] = lambda _: {}
    opened: Callable[[Any], None] | None = None
    connect_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    require_url: Callable[[URL], None] = lambda _: None
    most_statements: int | None = None
    has_pool: Callable[[URL], bool] = lambda _: True
    page_reader: Callable[[Engine, int], PageReader | None] = lambda _engine, _page_bytes: None
    stream_backends: Mapping[
        str, Callable[[StreamJob, AsyncConnection, DriverStatement], Awaitable[StreamBackend]]
    ] = field(default_factory=dict)
    row_fetches: Mapping[str, Callable[[Fetch, AsyncConnection], Awaitable[Rows]]] = field(
        default_factory=dict
    )
    copied_writers: Mapping[str, Callable[..., Writer]] = field(default_factory=dict)
    described_type: Callable[[Any], SQLType] | None = None


OWN: Mapping[str, str] = {
    "sqlite": "dualsql.databases.sqlite:BACKEND",
    "postgresql": "dualsql.databases.postgresql:BACKEND",
    "postgres": "dualsql.databases.postgresql:BACKEND",
    "mysql": "dualsql.databases.mariadb:BACKEND",
    "mariadb": "dualsql.databases.mariadb:BACKEND",
    "duckdb": "dualsql.databases.duckdb:BACKEND",
    "hive": "dualsql.databases.spark:BACKEND",
}
"""dualsql's own databases: where the Backend is, by SQLAlchemy's name of the dialect or a name that URLs have for it.

pyproject.toml declares the same rows as entry points. They are read from here: the metadata of an installation can be
older than its code, or left out of a program.
"""

_loaded: dict[str, Backend | None] = {}


def backend_named(name: str) -> Backend | None:
    """The database with this name in SQLAlchemy or in URLs; None if there is no such dialect.

    Some dialects have the name of their driver after a dot, such as `firebird.firebird`, which no URL has.

    Raises:
        ConfigurationError: the entry point of that name cannot be loaded, or is not a Backend.
    """
    if name not in _loaded:
        bare = name.partition(".")[0]
        location = OWN.get(name) or OWN.get(bare)
        if location is None:
            from dualsql.databases.plugins import load_backend

            _loaded[name] = load_backend(name, bare)
        else:
            module, _, attribute = location.partition(":")
            _loaded[name] = getattr(import_module(module), attribute)
    return _loaded[name]
