"""Nothing is changed through a session, whatever is sent on it, and whoever made the engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import QueuePool, StaticPool, column, create_engine, func, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import SingletonThreadPool

from dualsql import ConfigurationError, DualResponseServer, ForbiddenSQLError, Registry
from dualsql.databases.driver import driver_of
from dualsql.databases.duckdb import MOST_SPILL
from dualsql.databases.guard import FailureKind
from dualsql.databases.session import read_only
from dualsql.databases.source import Database, Source, open_source
from tests.databases.conftest import fill_synchronously
from tests.databases.kinds import ASYNCHRONOUS, MakeServer
from tests.schools import SCHOOLS, Base, School, create, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server

WRITES = (
    "DELETE FROM visits",
    "INSERT INTO visits (day) VALUES ('2026')",
    "UPDATE schools SET name = ''",
    "CREATE TABLE made_by_a_reader (x INTEGER)",
    "DROP TABLE visits",
    "CREATE VIEW made_by_a_reader AS SELECT 1",
    "CREATE INDEX made_by_a_reader ON visits (day)",
    "ALTER TABLE visits ADD COLUMN x INTEGER",
)


async def test_what_the_driver_runs_itself_is_in_the_same_transaction(driver: str, source: Source) -> None:
    """The fast stream backends use the driver's own connection."""
    async with read_only(source, None) as connection:
        with pytest.raises(Exception, match=r"(?i)read.?only"):
            await _write(driver_of(connection), driver)


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_session_of_duckdb_is_one_transaction(tmp_path: Path, is_own: bool) -> None:
    """The pool begins it for an engine that dualsql made; an engine of the application keeps its pool."""
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
    closed = {"enable_external_access": "false", "lock_configuration": "true"}
    database: Database = url if is_own else create_engine(url, connect_args={"config": closed})
    source, seen = open_source("x", database, Registry(Base.metadata)), []
    try:
        for _ in range(3):
            async with read_only(source, None) as connection:
                in_session = [await connection.execute(text("SELECT txid_current()")) for _ in range(2)]
                seen += [{row.scalar_one() for row in in_session}]
                with pytest.raises(SQLAlchemyError, match="within a transaction"):
                    await connection.execute(text("BEGIN"))
    finally:
        await source.engine.dispose()
    assert [len(each) for each in seen] == [1, 1, 1] and len(set.union(*seen)) == 3


async def _write(connection: Any, driver: str) -> None:
    if driver == "asyncmy":
        async with connection.cursor() as cursor:
            await cursor.execute(WRITES[0])
    elif driver in ASYNCHRONOUS:
        await connection.execute(WRITES[0])
    else:
        connection.cursor().execute(WRITES[0])


async def test_every_write_is_refused_as_one(source: Source) -> None:
    for write in WRITES:
        async with read_only(source, None) as connection:
            with pytest.raises(Exception, match=r"(?i)read.?only") as raised:
                await connection.execute(text(write))
        assert source.guard.failure_kind(getattr(raised.value, "orig", raised.value)) is FailureKind.WRITE
    async with read_only(source, None) as connection:
        assert (await connection.execute(select(func.count()).select_from(School))).scalar_one() == 23
        assert (await connection.execute(text("SELECT count(*) FROM visits"))).scalar_one() == 18


@pytest.mark.quick(1)
async def test_the_application_s_engine_still_writes(make_server: MakeServer, database: Database) -> None:
    if isinstance(database, str):
        return  # dualsql made the engine, and the file is open for reading only
    server = await make_server()
    for _ in range(20):
        await server.create_response(select(School), name="x")
    delete: Any = text(WRITES[0])
    if isinstance(database, AsyncEngine):
        async with database.begin() as connection:
            assert (await connection.execute(delete)).rowcount == 18
        return
    with database.begin() as synchronous:  # type: ignore[union-attr]
        assert synchronous.execute(delete).rowcount == 18


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "sneaky", ["SELECT 1 AS x; DELETE FROM visits", "SELECT 1 AS x) AS y; COMMIT; DELETE FROM visits; -- "]
)
async def test_a_second_statement_hidden_in_text(make_server: MakeServer, sneaky: str) -> None:
    server = await make_server(allow_text=True)
    with pytest.raises(Exception, match=r"(?i)semicolon|could not run"):
        await server.create_response(text(sneaky).columns(column("x")), name="sneaky")
    async with read_only(server.parts.sources["default"], None) as connection:
        assert (await connection.execute(text("SELECT count(*) FROM visits"))).scalar_one() == 18


async def test_mariadb_is_sent_no_text_with_a_semicolon(mariadb_url: str) -> None:
    engine = create_async_engine(mariadb_url)
    await fill(engine)
    async with create_server(engine, base_url=BASE_URL, tables=Base, allow_text=True) as server:
        with pytest.raises(ForbiddenSQLError, match="semicolon"):
            await server.create_response(text("SELECT ';' AS x").columns(column("x")), name="x")
    await engine.dispose()


# DuckDB reads and writes files from inside a SELECT ---------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.duckdb'",
        "EXPORT DATABASE '{folder}/export'",
        "INSTALL httpfs",
        "LOAD '{file}'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
    ],
)
async def test_duckdb_has_no_files(tmp_path: Path, statement: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a,b\n1,2\n")
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
    async with (
        DualResponseServer(url, base_url=BASE_URL, tables=Base) as server,
        read_only(server.parts.sources["default"], None) as connection,
    ):
        with pytest.raises(Exception, match=r"(?i)permission|disabled|locked|cannot"):
            await connection.execute(text(statement.format(file=secret, folder=tmp_path)))
    assert _names_in(tmp_path) == {"secret.txt", "schools.duckdb"}


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_duckdb_engine_that_has_files_is_refused(tmp_path: Path) -> None:
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
    engine = create_engine(url)
    with pytest.raises(ConfigurationError, match="read and write files") as raised:
        async with DualResponseServer(engine, base_url=BASE_URL, tables=Base):
            pass
    assert "enable_external_access" in raised.value.hint
    engine.dispose()


async def test_a_duckdb_engine_that_has_none_is_taken(tmp_path: Path) -> None:
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
    closed = {"enable_external_access": "false", "lock_configuration": "true"}
    engine = create_engine(url, connect_args={"config": closed})
    async with DualResponseServer(engine, base_url=BASE_URL, tables=Base) as server:
        assert (await server.create_response(select(School), name="x")).total_count == len(SCHOOLS)
        async with read_only(server.parts.sources["default"], None) as connection:
            with pytest.raises(Exception, match="read-only mode"):
                await connection.execute(text(WRITES[0]))
    engine.dispose()


# A database in memory, and threads --------------------------------------------------------------------------


@pytest.mark.parametrize("pool", [SingletonThreadPool, StaticPool])
def test_one_connection_for_each_thread_or_for_all_is_refused(pool: Any) -> None:
    """With one for all, a page beside a thread of the application that fetches rows stopped both, and each session
    rolled back what the application had not committed.
    """
    engine = create_engine("sqlite://", poolclass=pool, connect_args={"check_same_thread": False})
    with pytest.raises(ConfigurationError, match="one connection for") as refused:
        DualResponseServer(engine, base_url=BASE_URL, tables=Base)
    assert "StaticPool" not in str(refused.value)
    assert "QueuePool" in str(refused.value)
    engine.dispose()


@pytest.mark.quick(1)
async def test_connections_of_their_own_share_a_database_in_memory() -> None:
    """As the hint says: the application fetches rows in a thread meanwhile, and keeps what it has not committed."""
    engine = create_engine(
        "sqlite:///file:shared?mode=memory&cache=shared&uri=true",
        poolclass=QueuePool,
        connect_args={"check_same_thread": False},
    )
    left = Event()
    with engine.connect() as connection:
        create(connection)
        connection.commit()

        def read() -> int:
            return sum(len(connection.execute(select(School)).all()) for _ in iter(left.is_set, True))

        async with DualResponseServer(engine, base_url=BASE_URL, tables=Base) as server:
            reading = asyncio.ensure_future(asyncio.to_thread(read))
            response = await server.create_response(select(School).order_by(School.name), name="x")
            for _ in range(100):
                assert (await server.read_page(response.resource_id, None)).row_count == len(SCHOOLS)
            left.set()
            rows = await reading
    assert rows
    engine.dispose()


_LIMIT = "SELECT parse_formatted_bytes(current_setting('memory_limit'))"


@pytest.mark.quick(1)
@pytest.mark.parametrize(("asked", "most"), [("", 0.25), ("?memory_limit=10MB", 0.01)])
async def test_a_duckdb_of_a_url_takes_a_part_of_the_memory(tmp_path: Path, asked: str, most: float) -> None:
    """It runs in the server's process: what takes all memory ends every other query as well."""
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb")
    with create_engine("duckdb://").connect() as unlimited:
        default: Any = unlimited.exec_driver_sql(_LIMIT).scalar()
    async with (
        DualResponseServer(url + asked, base_url=BASE_URL, tables=Base) as server,
        read_only(server.parts.sources["default"], None) as connection,
    ):
        limit: Any = (await connection.exec_driver_sql(_LIMIT)).scalar()
    assert limit <= 1.01 * default / 0.8 * most, "by itself, it takes 80 % of the memory"


_SPILL = "SELECT parse_formatted_bytes(current_setting('max_temp_directory_size'))"


_SORT = "SELECT md5(i::TEXT) AS m FROM range(2000000) t(i) ORDER BY m OFFSET 1999999"


async def _why_a_sort_failed(url: str) -> FailureKind | None:
    async with DualResponseServer(url, base_url=BASE_URL, tables=Base) as server:
        source = server.parts.sources["default"]
        async with read_only(source, None) as connection:
            bound: Any = (await connection.exec_driver_sql(_SPILL)).scalar()
            assert bound <= MOST_SPILL
            try:
                await connection.execute(text(_SORT))
            except SQLAlchemyError as error:
                return source.guard.failure_kind(error.__cause__)
    return None


@pytest.mark.long
async def test_what_queries_of_duckdb_write_to_the_disk_is_bounded(tmp_path: Path) -> None:
    """DuckDB 2.0 shows the bound that a URL sets, and does not obey it; by itself it takes 90 % of the free disk."""
    url = fill_synchronously(f"duckdb:///{tmp_path}/schools.duckdb") + "?memory_limit=60MB"
    assert await _why_a_sort_failed(url) is None
    assert await _why_a_sort_failed(f"{url}&max_temp_directory_size=5MB") is FailureKind.FULL
    assert _names_in(tmp_path) <= {"schools.duckdb", "schools.duckdb.tmp"}
