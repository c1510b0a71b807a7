"""Build the demo's database; the rule: building twice changes nothing."""

from __future__ import annotations

import asyncio
import csv
import gzip
import os
import secrets
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, delete, insert, inspect, select

from dualsql.demo.schema import Base, FieldOfStudy, Institution, Program
from dualsql.engines import new_engine
from dualsql.store import upgrade
from dualsql.urls import async_url

VERSION = "2026-06-10/1"
"""The release of the College Scorecard, and the number of our extract of it."""

_BATCH = 10_000
_FILES: dict[str, type[Base]] = {
    "institutions": Institution,
    "fields_of_study": FieldOfStudy,
    "programs": Program,
}
_loaded = Table("demo_release", MetaData(), Column("version", String(40), primary_key=True))


def default_folder() -> Path:
    """Where the demo keeps its database and its secret: the user's own cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "dualsql"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def sqlite_url(folder: Path) -> str:
    """The demo's database as a file in `folder`."""
    return f"sqlite:///{folder / 'demo.db'}"


def demo_database() -> str:
    """The URL of the demo's own SQLite database, built on first use. For examples, outside an event loop."""
    url = sqlite_url(default_folder())
    asyncio.run(build(url))
    return url


async def build(url: str) -> None:
    """Create the tables, dualsql's own included, and load the data, unless it is there already."""
    engine = new_engine(async_url(url))
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_load)
            await connection.run_sync(upgrade)
    finally:
        await engine.dispose()


def _load(connection: Connection) -> None:
    if _is_loaded(connection):
        return
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection)
    for name, entity in _FILES.items():
        for batch in _batches(name, entity):
            connection.execute(insert(entity), batch)
    _loaded.create(connection, checkfirst=True)
    connection.execute(delete(_loaded))
    connection.execute(insert(_loaded), {"version": VERSION})


def _is_loaded(connection: Connection) -> bool:
    if not inspect(connection).has_table(_loaded.name):
        return False
    return connection.execute(select(_loaded.c.version)).scalar() == VERSION


def _batches(name: str, entity: type[Base]) -> Iterator[list[dict[str, Any]]]:
    readers = [(column.name, column.type.python_type) for column in entity.__table__.columns]
    batch: list[dict[str, Any]] = []
    for line in _lines(name):
        batch.append(
            {key: read(cell) if cell else None for (key, read), cell in zip(readers, line, strict=True)}
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
    """The secret that signs the demo's resources: made once, readable by its owner only."""
    path = folder / "demo.secret"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32))
    return path.read_text().strip()
