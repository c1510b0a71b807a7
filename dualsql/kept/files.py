"""The DuckDB file of a kept result: written once, then opened as a database that nothing can change."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import file_digest
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    MetaData,
    Table,
    event,
    select,
)

from dualsql.databases.backends import backend_named
from dualsql.databases.slots import QueryLimits
from dualsql.databases.source import Source
from dualsql.databases.threads import ThreadedConnection, ThreadedEngine, new_synchronous_engine
from dualsql.errors import ConfigurationError, DatabaseBusyError, TamperedError
from dualsql.freeze import Registry
from dualsql.freeze.document import AnySelect
from dualsql.kept.cells import SMALL_INTEGERS, KeptMeanings, face_of, sql_type
from dualsql.kept.settings import LEAST_KEEP_MEMORY
from dualsql.kept.storage import NO_FOLLOW, lock_file, require_locks
from dualsql.packages import require_package
from dualsql.plan import Shape
from dualsql.plan.shape import has_own_order
from dualsql.resource import RELATION
from dualsql.tenancy import ActiveRules
from dualsql.tenancy.compiler import TableForms

TABLE = "kept_rows"
_NUMBER = "n"
"""The hidden column that numbers the rows from 0, in the order of the run."""

_HOW = 'pip install "dualsql[kept]"'
# DuckDB otherwise fetches extensions from the network when a statement needs one.
_WRITING = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_READING = {
    **_WRITING,
    "enable_external_access": "false",
    # Streams read the rows in the order in which they were written, without sorting them.
    "preserve_insertion_order": "true",
}
_CONNECTIONS = 4
"""Connections to one file that are kept open."""


def require_packages() -> None:
    """Raise ConfigurationError if a package or a means of the system is missing that keeping results needs."""
    require_locks()
    for package in ("duckdb", "duckdb_sqlalchemy", "pyarrow"):
        require_package(package, "Keeping results needs packages that are not installed.", hint=_HOW)


class KeptFileWriter:
    """Writes rows to a new file. Its methods take long and are called one after the other, in any thread.

    Args:
        shares: say how many bytes of memory and disk DuckDB may use.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, path: Path, shares: MemoryShares) -> None:
        import duckdb

        from dualsql.databases.duckdb import bound_spill
        from dualsql_client.database_files import hide_progress_bar

        self.rows = 0
        self._path = path
        config: dict[str, Any] = {**_WRITING, "memory_limit": f"{shares.size}B"}
        self._connection = duckdb.connect(str(path), config=config)
        hide_progress_bar(self._connection)
        bound_spill(self._connection, shares.spill)
        self._schema: Any = None

    def begin(self, schema: Any, cells: Sequence[str]) -> None:
        """Make the table: a column for each of `cells`."""
        self._schema = schema
        columns = "".join(f", c{index} {sql_type(cell)}" for index, cell in enumerate(cells))
        # One transaction: each one that ends waits for the disk.
        self._connection.execute("BEGIN")
        self._connection.execute(f"CREATE TABLE {TABLE} ({_NUMBER} BIGINT{columns})")

    def add(self, data: bytes) -> None:
        """Add the rows of a serialized batch."""
        import pyarrow as pa

        batch = pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
        numbers = pa.array(range(self.rows, self.rows + batch.num_rows), pa.int64())
        numbered = pa.Table.from_arrays([numbers, *batch.columns], names=[_NUMBER, *self._schema.names])
        self._connection.register("batch", numbered)
        self._connection.execute(f"INSERT INTO {TABLE} SELECT * FROM batch")
        self._connection.unregister("batch")
        self.rows += batch.num_rows

    @property
    def size(self) -> int:
        """Bytes that were written to the file so far."""
        size = 0
        for path in (self._path, self._path.with_name(f"{self._path.name}.wal")):
            if path.exists():
                size += path.stat().st_size
        return size

    def finish(self, cells: Sequence[str]) -> list[str]:
        """Close the file. Returns how the cells of each column are kept now: decimals of one scale as numbers."""
        exact_cells = list(cells)
        for index, cell in enumerate(cells):
            if cell == "integer" and self._is_small(f"c{index}"):
                exact_cells[index] = SMALL_INTEGERS
            elif cell == "decimal" and (scale := self._scale(f"c{index}")) is not None:
                self._connection.execute(f"ALTER TABLE {TABLE} ALTER c{index} TYPE DECIMAL(38, {scale})")
                exact_cells[index] = f"decimal:{scale}"
        self._connection.execute("COMMIT")
        # The digest is that of one file: nothing may stay in the write-ahead log.
        self._connection.execute("CHECKPOINT")
        self._connection.close()
        return exact_cells

    def close(self) -> None:
        """Stop writing; the file is not complete."""
        self._connection.close()

    def _is_small(self, column: str) -> bool:
        """Whether each sum of whole numbers of a column is exact in doubles."""
        least, most = self._connection.execute(
            f"SELECT min({column}), max({column}) FROM {TABLE}"
        ).fetchall()[0]
        return least is not None and max(-least, most) * self.rows <= 2**53

    def _scale(self, column: str) -> int | None:
        """The digits after the point of every number of a column; None if they differ, or a number has too many."""
        ask = f"SELECT {column} FROM {TABLE} WHERE {column} IS NOT NULL LIMIT 1"
        first = self._connection.execute(ask).fetchone()
        scale = 0 if first is None else len(first[0].partition(".")[2])
        if scale > 38:
            return None
        # try_cast rounds digits beyond the scale (1.256 becomes 1.26), so the texts are compared.
        same = f"CAST(try_cast({column} AS DECIMAL(38, {scale})) AS VARCHAR) IS NOT DISTINCT FROM {column}"
        ask = f"SELECT coalesce(bool_and({same}), true) FROM {TABLE}"
        return scale if self._connection.execute(ask).fetchone() == (True,) else None


_LEAST_SHARE = LEAST_KEEP_MEMORY // 2
"""Bytes of memory for one file."""
_MOST_SHARES = 16


class MemoryShares:
    """Shares of equal size, each for one file that is read or written.

    A file that is read holds its share from its first connection until it is closed. If none is left, the file that
    was read the longest ago is closed, of those that have no reader now; if all are read, the next one waits.

    Args:
        total: bytes of memory for all.
        disk: bytes for what does not fit there.

    Attributes:
        size: bytes of a share. spill: bytes on disk of a share.
        writing: a semaphore of the shares for writing.
    """

    def __init__(self, total: int, disk: int) -> None:
        number = min(_MOST_SHARES, total // _LEAST_SHARE)
        writers = max(1, number // 4)
        self.size, self.spill = total // number, disk // number
        self.writing = asyncio.Semaphore(writers)
        self._most = number - writers
        self._holders: OrderedDict[SharingEngine, None] = OrderedDict()
        self._coming = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def share(self, engine: SharingEngine) -> AsyncIterator[None]:
        """The share of an engine during the block, in which it has connections in use."""
        if engine not in self._holders:
            async with self._coming:
                if engine not in self._holders:
                    await self._make_room()
                    self._holders[engine] = None
        self._holders.move_to_end(engine)
        engine.readers += 1
        try:
            yield
        finally:
            engine.readers -= 1
            self._freed.set()
            if engine.is_closed:
                self.leave(engine)

    def leave(self, engine: SharingEngine) -> None:
        """An engine was closed. It keeps its share while it has readers."""
        if not engine.readers and engine in self._holders:
            del self._holders[engine]
            self._freed.set()

    async def _make_room(self) -> None:
        while len(self._holders) >= self._most:
            idle = next((engine for engine in self._holders if not engine.readers), None)
            if idle is None:
                self._freed.clear()
                await self._freed.wait()
                continue
            # Another reader of the file waits behind this one for a share.
            del self._holders[idle]
            await asyncio.shield(ThreadedEngine.dispose(idle))  # its idle connections: it may be read again


class _ClosedError(Exception):
    """The pool has no open connection."""


class SharingEngine(ThreadedEngine):
    """The engine of one file, whose connections need a share of the memory.

    Args:
        check: called before the first statement of each connection; raises what is wrong with the file.
        begin: ends the transaction of a driver's connection, with what it holds, and begins another one.

    Attributes:
        readers: connections in use. is_closed: it was disposed.
    """

    def __init__(
        self, engine: Engine, shares: MemoryShares, check: Callable[[], None], begin: Callable[[Any], None]
    ) -> None:
        super().__init__(engine)
        dialect: Any = engine.dialect
        # An event "do_connect" would be one of execution to what chooses a stream backend.
        self._connect_driver, dialect.connect = dialect.connect, self._connect_in_thread
        self._shares = shares
        self._check = check
        self._begin = begin
        self.readers = 0
        self.is_closed = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ThreadedConnection]:
        async with self._shares.share(self), super().connect() as connection:
            try:
                self._check()
                yield connection
            except BaseException:
                connection.is_used_up = True
                raise

    def _connect_in_thread(self, *arguments: Any, **options: Any) -> Any:
        """A new connection of the driver; not in the event loop, which would stand still for 60 ms."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._connect_driver(*arguments, **options)
        raise _ClosedError

    async def _open(self, thread: ThreadPoolExecutor) -> Connection:
        pool: Any = self.pool
        if pool.checkedin():
            # Of one that is open, nothing is sent: its transaction goes on.
            with suppress(_ClosedError):
                return self.sync_engine.connect()
        return await super()._open(thread)

    async def _close(self, connection: ThreadedConnection) -> bool:
        if connection.is_busy or connection.is_used_up or self.is_closed:
            return await super()._close(connection)
        connection.sync_connection.close()
        return True

    def _release(self, connection: ThreadedConnection) -> None:
        driver = connection.sync_connection
        try:
            if connection.is_used_up and not driver.invalidated:
                self._begin(driver.connection.driver_connection)
        except Exception:  # noqa: BLE001 - it cannot be used, whatever the reason is
            driver.invalidate()
        if self.is_closed:  # in a pool that was disposed, it would stay open
            driver.invalidate()
        super()._release(connection)

    async def dispose(self) -> None:
        self.is_closed = True
        await super().dispose()
        self._shares.leave(self)


class FileState(NamedTuple):
    """A state that changes when a file is written to or replaced."""

    device: int
    inode: int
    size: int
    modified: int
    # The time of the last change of the inode, which no program can set, as utime() sets `modified` (inode(7)).
    changed: int


def state_of(path: Path) -> FileState | None:
    """The present state of a file; None if it does not exist."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return _state(status)


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def hold(path: Path) -> FileIO | None:
    """Open a file, which its storage leaves where it is until it is closed; None if it is not there any more.

    Raises:
        TamperedError: it is a link.
        OSError: it cannot be read.
    """
    if path.is_symlink():
        raise TamperedError("A kept result is a link to another file.")
    try:
        # The link may have been put there since.
        file = FileIO(os.open(path, os.O_RDONLY | NO_FOLLOW))
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError):
        lock_file(file, waits=False)
        # No other process reads the file: what DuckDB has written beside it is of processes that ended.
        shutil.rmtree(path.with_name(f"{path.name}.tmp"), ignore_errors=True)
    lock_file(file, is_shared=True)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
            return file
    file.close()
    return None


def digest_of(file: FileIO) -> tuple[FileState, str]:
    """The state of an open file, and its SHA-256. It takes long."""
    return _state(os.fstat(file.fileno())), file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class KeptFile:
    """An open file.

    Attributes:
        state: when its digest was checked.
        source: the file as a database.
        handle: keeps it where it is.
    """

    state: FileState
    source: Source
    handle: FileIO

    @property
    def is_read(self) -> bool:
        """Whether it has readers."""
        engine: Any = self.source.engine
        return bool(engine.readers)

    async def close(self) -> None:
        """Close it, once what reads it has ended."""
        await self.source.close()
        self.handle.close()

    def abandon(self) -> None:
        """Drop its connections, whose event loop has ended."""
        self.source.abandon()
        self.handle.close()


class KeptStatement(NamedTuple):
    """The rows of a file in their order, the column that numbers them, and the rules of their table: none."""

    select: AnySelect
    number: ColumnElement[int]
    rules: ActiveRules


def statement_of_file(live: Shape, cells: Sequence[str]) -> KeptStatement:
    """The statement for a file. Questions name its columns as those of the live statement."""
    columns = live.columns
    table = Table(
        TABLE,
        MetaData(),
        Column(_NUMBER, BigInteger, primary_key=True, autoincrement=False),
        *(
            Column(f"c{index}", face_of(cell, column))
            for index, (cell, column) in enumerate(zip(cells, columns, strict=True))
        ),
    )
    rows = table.alias(RELATION)
    outputs = [rows.c[f"c{index}"].label(column.name) for index, column in enumerate(columns)]
    # Not open: nothing but this table can be read, and no text of SQL.
    rules = ActiveRules(TableForms([table], conditions={}, masks={}, is_open=False))
    statement = select(*outputs)
    if has_own_order(live.select):
        statement = statement.order_by(rows.c[_NUMBER])
    # Else it only breaks ties, in the direction of the keys before it, as the keys of the live statement do.
    return KeptStatement(statement, rows.c[_NUMBER], rules)


async def open_file(
    name: str, path: Path, state: FileState, limits: QueryLimits, shares: MemoryShares
) -> Source:
    """Open a file as a database that can only be read.

    Args:
        name: of the source that its rows came from.

    Raises:
        DatabaseBusyError: as many files as may be open are being read.
        TamperedError: it was replaced since `state` was seen.
    """
    backend = backend_named("duckdb")
    if backend is None:
        raise ConfigurationError("Keeping results needs packages that are not installed.", hint=_HOW)
    from dualsql.databases.duckdb import begin_again, begin_once, close_instance

    file_engine = new_synchronous_engine(
        URL.create("duckdb", database=str(path)),
        opened=lambda connection: close_instance(connection, shares.spill),
        connect_args={"read_only": True, "config": {**_READING, "memory_limit": f"{shares.size}B"}},
        pool_size=_CONNECTIONS,
        max_overflow=limits.connections,
        skip_autocommit_rollback=True,
    )
    # Nothing changes the file: a connection has one transaction, as long as it is open.
    event.listen(file_engine, "connect", begin_once)

    def check() -> None:
        if state_of(path) not in (state, None):
            raise TamperedError("A kept result was replaced while it was open.")

    engine: Any = SharingEngine(file_engine, shares, check, begin_again)
    source = Source(
        name=name,
        engine=engine,
        registry=Registry(MetaData()),
        backend=backend,
        capabilities=backend.capabilities,
        limits=limits,
        owns_engine=True,
        lock=None,
        meanings=KeptMeanings(
            file_engine.dialect,
            keeps_zones=backend.capabilities.keeps_zones,
            computation=backend.capabilities.computation,
        ),
    )
    try:
        async with asyncio.timeout(limits.connection_timeout.total_seconds()), engine.connect():
            pass
        # After DuckDB has opened it: what is read is what the digest was computed of.
        check()
    except TimeoutError as error:
        await source.close()
        raise DatabaseBusyError("Too many kept results are read at once.") from error
    except BaseException:
        await source.close()
        raise
    return source
