"""The DuckDB file of a kept result: written once, then opened as a database that nothing can change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, BigInteger, Column, ColumnElement, MetaData, Table, select

from dualsql.databases.backends import backend_named
from dualsql.databases.engines import new_synchronous_engine
from dualsql.databases.source import QueryLimits, Source
from dualsql.databases.threads import ThreadedEngine
from dualsql.errors import ConfigurationError, TamperedError, require_package
from dualsql.freeze import Registry
from dualsql.freeze.document import AnySelect
from dualsql.kept.cells import KeptMeanings, face_of, sql_type
from dualsql.plan import Shape
from dualsql.plan.order import sole_table
from dualsql.resource import RELATION
from dualsql.tenancy import ActiveRules
from dualsql.tenancy.compiler import TableForms

TABLE = "kept_rows"
_NUMBER = "n"
"""The hidden column that numbers the rows from 0, in the order of the run."""

_HOW = 'pip install "dualsql[kept]"'
# DuckDB otherwise fetches extensions from the network when a statement needs one.
_WRITING: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "512MB",
}
_READING = {
    "read_only": True,
    "config": {
        "enable_external_access": "false",
        "lock_configuration": "true",
        # Streams read the rows in the order in which they were written, without sorting them.
        "preserve_insertion_order": "true",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": "512MB",
    },
}
_CONNECTIONS = 4
"""Connections to one file that are kept open."""


def require_packages() -> None:
    """Raise ConfigurationError if a package is missing that keeping results needs."""
    for package in ("duckdb", "duckdb_sqlalchemy", "pyarrow"):
        require_package(package, "Keeping results needs packages that are not installed.", hint=_HOW)


class KeptFileWriter:
    """Writes rows to a new file. Its methods take long and are called one after the other, in any thread.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, path: Path) -> None:
        import duckdb

        self.rows = 0
        self._path = path
        self._connection = duckdb.connect(str(path), config=_WRITING)
        self._schema: Any = None

    def begin(self, schema: Any, cells: Sequence[str]) -> None:
        """Make the table: a column for each of `cells`."""
        self._schema = schema
        columns = "".join(f", c{place} {sql_type(cell)}" for place, cell in enumerate(cells))
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
        found = 0
        for path in (self._path, self._path.with_name(f"{self._path.name}.wal")):
            if path.exists():
                found += path.stat().st_size
        return found

    def finish(self, cells: Sequence[str]) -> list[str]:
        """Close the file. Returns how the cells of each column are kept now: decimals of one scale as numbers."""
        found = list(cells)
        for place, cell in enumerate(cells):
            if cell == "decimal" and (scale := self._scale(f"c{place}")) is not None:
                self._connection.execute(f"ALTER TABLE {TABLE} ALTER c{place} TYPE DECIMAL(38, {scale})")
                found[place] = f"decimal:{scale}"
        self._connection.execute("COMMIT")
        # The digest is that of one file: nothing may stay in the write-ahead log.
        self._connection.execute("CHECKPOINT")
        self._connection.close()
        return found

    def close(self) -> None:
        """Stop writing; the file is not complete."""
        self._connection.close()

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


class FileState(NamedTuple):
    """What changes when a file is written to or replaced."""

    device: int
    inode: int
    size: int
    written: int
    # The time of the last change of the inode, which no program can set, as utime() sets `written` (inode(7)).
    changed: int


def state_of(path: Path) -> FileState | None:
    """The present state of a file; None if it does not exist."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file. It takes long.

    Raises:
        TamperedError: it is a link.
        OSError: it cannot be read.
    """
    if path.is_symlink():
        raise TamperedError("A kept result is a link to another file.")
    # The link may have been put there since.
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    digest = sha256()
    with os.fdopen(opened, "rb") as file:
        while part := file.read(1024 * 1024):
            digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class KeptFile:
    """An open file.

    Attributes:
        state: when its digest was checked.
        source: the file as a database.
    """

    state: FileState
    source: Source


class KeptStatement(NamedTuple):
    """The rows of a file in their order, the column that numbers them, and the rules of their table: none."""

    select: AnySelect
    number: ColumnElement[int]
    rules: ActiveRules


def kept_statement(live: Shape, cells: Sequence[str]) -> KeptStatement:
    """The statement for a file. Questions name its columns and its table as those of the live statement."""
    columns = live.columns
    table = Table(
        TABLE,
        MetaData(),
        Column(_NUMBER, BigInteger, primary_key=True, autoincrement=False),
        *(
            Column(f"c{place}", face_of(cell, column))
            for place, (cell, column) in enumerate(zip(cells, columns, strict=True))
        ),
    )
    original: Any = sole_table(live.select)
    rows = table.alias(RELATION if original is None else original.name)
    named = [rows.c[f"c{place}"].label(column.name) for place, column in enumerate(columns)]
    # Not open: nothing but this table can be read, and no text of SQL.
    rules = ActiveRules(TableForms([table], conditions={}, masks={}, is_open=False))
    return KeptStatement(select(*named).order_by(rows.c[_NUMBER]), rows.c[_NUMBER], rules)


async def open_file(name: str, path: Path, state: FileState, limits: QueryLimits) -> Source:
    """Open a file as a database that can only be read.

    Args:
        name: of the source that its rows came from.

    Raises:
        TamperedError: it was replaced since `state` was seen.
    """
    backend = backend_named("duckdb")
    if backend is None:
        raise ConfigurationError("Keeping results needs packages that are not installed.", hint=_HOW)
    made = new_synchronous_engine(
        URL.create("duckdb", database=str(path)),
        connect_args=_READING,
        pool_size=_CONNECTIONS,
        max_overflow=limits.connections,
    )
    engine: Any = ThreadedEngine(made)
    backend.guard.prepare(made)
    source = Source(
        name=name,
        engine=engine,
        registry=Registry(MetaData()),
        backend=backend,
        limits=limits,
        owns_engine=True,
        lock=None,
        meanings=KeptMeanings(
            made.dialect,
            keeps_zones=backend.capabilities.keeps_zones,
            floors_in_doubles=backend.capabilities.floors_in_doubles,
        ),
    )
    try:
        async with engine.connect():
            pass
        # After DuckDB has opened it: what is read is what the digest was computed of.
        if state_of(path) != state:
            raise TamperedError("A kept result was replaced while it was opened.")
    except BaseException:
        await source.close()
        raise
    return source
