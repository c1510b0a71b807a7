"""SQLite refuses more than writes on a connection that dualsql made: files, settings, code."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from dualsql import DualResponseServer
from dualsql.databases.guard import FailureKind
from dualsql.databases.session import read_only
from dualsql.databases.source import Source
from dualsql.databases.sqlite.file_reader import connect
from tests.databases.conftest import fill_synchronously
from tests.schools import Base
from tests.server.conftest import BASE_URL

REFUSED = (
    "ATTACH '{folder}/made.sqlite' AS made",
    "DETACH main",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA wal_checkpoint",
    "PRAGMA optimize",
    "SELECT load_extension('{folder}/x.so')",
    "SELECT fts3_tokenizer('simple')",
    "CREATE VIRTUAL TABLE x USING fts5(y)",
    "VACUUM INTO '{folder}/made.sqlite'",
    "REINDEX",
    "ANALYZE",
    "DELETE FROM visits",
)


@pytest.fixture(params=["sqlite+aiosqlite", "sqlite+pysqlite"])
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Source]:
    """A source of a URL, whose engine dualsql makes."""
    fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite")
    url = f"{request.param}:///{tmp_path}/schools.sqlite"
    async with DualResponseServer(url, base_url=BASE_URL, tables=Base) as server:
        yield server.parts.sources["default"]


@pytest.mark.quick(4)
@pytest.mark.parametrize("statement", REFUSED)
async def test_what_does_more_than_read_is_refused(source: Source, tmp_path: Path, statement: str) -> None:
    async with read_only(source, None) as connection:
        with pytest.raises(DBAPIError) as refusal:
            await connection.execute(text(statement.format(folder=tmp_path)))
    assert source.guard.failure_kind(refusal.value.orig) is FailureKind.WRITE or "function" in str(
        refusal.value
    )
    assert _names_in(tmp_path) == ["schools.sqlite"]


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_what_reads_is_not(source: Source) -> None:
    reads = (
        "SELECT count(*), max(upper(name)) FROM schools",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
        "SELECT value FROM json_each('[1, 2]')",
        "PRAGMA table_info(schools)",
        "PRAGMA query_only",
    )
    for statement in reads:
        async with read_only(source, None) as connection:
            assert (await connection.execute(text(statement))).all()


def test_the_event_loops_own_connection_is_kept_too(tmp_path: Path) -> None:
    engine = create_engine(fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite"))
    connection, _ = connect(engine)
    for statement in REFUSED:
        with pytest.raises(sqlite3.Error):
            connection.execute(statement.format(folder=tmp_path))
    assert connection.execute("SELECT count(*) FROM schools").fetchone() == (23,)
    connection.close()
    engine.dispose()
    assert _names_in(tmp_path) == ["schools.sqlite"]
