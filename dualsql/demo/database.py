"""The demo's schema, and its database built from CSV files; data/SOURCE.md names their source and licence."""

from __future__ import annotations

import asyncio
import csv
import gzip
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    MetaData,
    String,
    Table,
    delete,
    insert,
    inspect,
    select,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from dualsql.databases.engines import new_engine
from dualsql.errors import ConfigurationError
from dualsql.settings import user_cache
from dualsql.store import upgrade
from dualsql.store.engines import lock, storage_errors, store_url


class Base(DeclarativeBase):
    """All tables the demo's tools may query."""


class Institution(Base):
    """A college or university."""

    __tablename__ = "institutions"

    unitid: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(120), index=True)
    state: Mapped[str | None] = mapped_column(String(2), index=True)
    control: Mapped[str] = mapped_column(String(40))
    programs: Mapped[list[Program]] = relationship(back_populates="institution")


class FieldOfStudy(Base):
    """A subject, by its code in the Classification of Instructional Programs."""

    __tablename__ = "fields_of_study"

    cip_code: Mapped[str] = mapped_column(String(4), primary_key=True)
    title: Mapped[str] = mapped_column(String(160))


class Program(Base):
    """A subject taught at an institution towards one credential."""

    __tablename__ = "programs"

    unitid: Mapped[int] = mapped_column(ForeignKey("institutions.unitid"), primary_key=True)
    cip_code: Mapped[str] = mapped_column(ForeignKey("fields_of_study.cip_code"), primary_key=True)
    credential_level: Mapped[int] = mapped_column(primary_key=True)
    credential: Mapped[str] = mapped_column(String(80))
    completers: Mapped[int | None]
    earnings: Mapped[int | None] = mapped_column(index=True)
    debt: Mapped[int | None]
    institution: Mapped[Institution] = relationship(back_populates="programs")
    field: Mapped[FieldOfStudy] = relationship()


VERSION = "2026-06-10/1"
"""The release of the College Scorecard, and the number of our extract of it."""

_BATCH = 10_000
_release_table = Table("demo_release", MetaData(), Column("version", String(40), primary_key=True))

# Without a lock, two demos that start together would both build. An interrupted build leaves nothing behind.
_LOCK = 7237118251


def default_folder() -> Path:
    """Where the demo keeps its database and its secret: the user's own cache."""
    folder = user_cache()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            "The demo has no folder to work in.", hint="Set XDG_CACHE_HOME to one that can be written to."
        ) from error
    return folder


def sqlite_url(folder: Path) -> str:
    """The demo's database as a file in `folder`."""
    return f"sqlite:///{folder / 'demo.db'}"


def demo_database() -> str:
    """The URL of the demo's own SQLite database, built on first use. For examples; it blocks."""
    url = sqlite_url(default_folder())
    with ThreadPoolExecutor(1) as own_thread:  # a notebook has an event loop in its thread
        own_thread.submit(asyncio.run, build(url)).result()
    return url


async def build(url: str) -> None:
    """Create the tables, dualsql's own included, and load the data, unless it is there already.

    Raises:
        ConfigurationError: the URL cannot be used, or the database has a table of the same name that is not the demo's.
        StorageError: the database failed or is out of reach.
    """
    engine = new_engine(store_url(url))
    try:
        with storage_errors():
            async with engine.begin() as connection:
                await connection.run_sync(lock, _LOCK)
                await connection.run_sync(_load)
                await connection.run_sync(upgrade)
    finally:
        await engine.dispose()


def _load(connection: Connection) -> None:
    if _is_loaded(connection):
        return
    _refuse_foreign_tables(connection)
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection)
    for table in Base.metadata.sorted_tables:
        for batch in _batches(table):
            connection.execute(insert(table), batch)
    _release_table.create(connection, checkfirst=True)
    connection.execute(delete(_release_table))
    connection.execute(insert(_release_table), {"version": VERSION})


def _is_loaded(connection: Connection) -> bool:
    if not inspect(connection).has_table(_release_table.name):
        return False
    return connection.execute(select(_release_table.c.version)).scalar() == VERSION


def _refuse_foreign_tables(connection: Connection) -> None:
    """Raises ConfigurationError for tables of our names in a database that the demo did not build."""
    present = inspect(connection).get_table_names()
    names = sorted(set(present) & set(Base.metadata.tables))
    if names and _release_table.name not in present:
        raise ConfigurationError(
            f"The database has a table {names[0]!r} that the demo did not make.",
            hint="Give the demo an empty database of its own.",
        )


def _batches(table: Table) -> Iterator[list[dict[str, Any]]]:
    readers = [(column.name, column.type.python_type) for column in table.columns]
    batch: list[dict[str, Any]] = []
    for line in _lines(table.name):
        batch.append(
            {key: parse(cell) if cell else None for (key, parse), cell in zip(readers, line, strict=True)}
        )
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _lines(name: str) -> Iterator[list[str]]:
    packed = (files(__package__) / "data" / f"{name}.csv.gz").read_bytes()
    return csv.reader(gzip.decompress(packed).decode().splitlines())


def keep_secret(folder: Path) -> str:
    """The secret that signs the demo's resources. It is made once, and only its owner can read the file."""
    path = folder / "demo.secret"
    if not path.exists():
        # Written to another file (mode 0600), then linked: nobody reads half a secret, and the first one made stays.
        with NamedTemporaryFile("w", dir=folder) as fresh:
            fresh.write(secrets.token_urlsafe(32))
            fresh.flush()
            with suppress(FileExistsError):
                os.link(fresh.name, path)
    return path.read_text().strip()
