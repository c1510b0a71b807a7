"""Every spelling of a database URL reaches its async driver, and no error repeats the URL."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from dualsql.databases.engines import async_url, new_engine, parsed_url, reading_engine
from dualsql.errors import ConfigurationError
from dualsql.store.engines import store_url
from tests.schools import Base
from tests.servers import create_server


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:///a.db", "sqlite+aiosqlite"),
        ("sqlite://", "sqlite+aiosqlite"),
        ("sqlite+pysqlite:///a.db", "sqlite+aiosqlite"),
        ("sqlite+aiosqlite:///a.db", "sqlite+aiosqlite"),
        ("postgresql://u:p@h/d", "postgresql+asyncpg"),
        ("postgres://u:p@h/d", "postgresql+asyncpg"),
        ("postgres+asyncpg://u:p@h/d", "postgresql+asyncpg"),
        ("postgresql+psycopg2://u:p@h/d", "postgresql+asyncpg"),
        ("postgresql+pg8000://u:p@h/d", "postgresql+asyncpg"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg"),
        ("mysql://u:p@h/d", "mysql+asyncmy"),
        ("mysql+pymysql://u:p@h/d", "mysql+asyncmy"),
        ("mysql+aiomysql://u:p@h/d", "mysql+aiomysql"),
        ("mariadb://u:p@h/d", "mariadb+asyncmy"),
    ],
)
def test_the_driver_is_async(given: str, driver: str) -> None:
    assert async_url(given).drivername == driver


def test_all_but_the_driver_stays() -> None:
    url = async_url("postgres://u:p%40ss@h:5433/d?application_name=x")
    assert (
        url.render_as_string(hide_password=False)
        == "postgresql+asyncpg://u:p%40ss@h:5433/d?application_name=x"
    )


def test_sslmode_becomes_ssl_for_asyncpg_only() -> None:
    assert dict(async_url("postgresql://h/d?sslmode=require&a=b").query) == {"ssl": "require", "a": "b"}
    assert dict(async_url("postgresql+psycopg://h/d?sslmode=require").query) == {"sslmode": "require"}


@pytest.mark.parametrize(
    "given", ["hunter2", "", "://hunter2", "nosuch://u:hunter2@h/d", "nosuch+x://u:hunter2@h/d"]
)
def test_an_unknown_database_is_refused_without_its_url(given: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        async_url(given)
    assert error.value.hint
    assert "hunter2" not in f"{error.value}{error.value.__cause__}"
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("sqlite://shop.db", "sqlite:///shop.db"),
        ("sqlite+aiosqlite://./data/shop.db", "sqlite:///./data/shop.db"),
        ("sqlite://u:hunter2@shop.db", "sqlite:///shop.db"),
        ("duckdb://shop.duckdb", "duckdb:///shop.duckdb"),
    ],
)
def test_a_file_after_two_slashes_is_not_a_host(given: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match="names a host") as error:
        parsed_url(given)
    assert error.value.hint == f"Write three slashes before the path: {hint}"


@pytest.mark.parametrize("password", ["p@hunter2", "hunter2%40/:@#", "@hunter2"])
def test_a_password_with_an_at_sign_is_no_host(password: str) -> None:
    with pytest.raises(ConfigurationError, match="more than one @ before its host") as error:
        parsed_url(f"postgresql://u:{password}@127.0.0.1:5432/d")
    assert "%40" in str(error.value.hint)
    assert "hunter2" not in f"{error.value}{error.value.hint}"


def test_an_ipv6_host_is_in_brackets() -> None:
    assert parsed_url("postgresql://u:p@[::1]:5432/d").host == "::1"
    with pytest.raises(ConfigurationError) as error:
        parsed_url("postgresql://u:p@::1:5432/d")
    assert str(error.value.hint).endswith("An IPv6 host is in brackets: [::1].")


def test_a_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        async_url("postgresql://u:p@h:port/d")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("host=a,b", {"host": "a,b", "port": "5432,5432"}),
        ("host=a,b&port=6000", {"host": "a,b", "port": "6000,6000"}),
        ("host=a,b&port=1,2", {"host": "a,b", "port": "1,2"}),
        ("host=a:1&host=b", {"host": ("a:1", "b:5432")}),
        ("host=a", {"host": "a"}),
        ("host=a:1", {"host": "a:1"}),
    ],
)
@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+asyncpg"])
def test_each_of_several_hosts_has_a_port(scheme: str, query: str, expected: dict[str, object]) -> None:
    url = async_url(f"{scheme}://u@/d?{query}")
    assert dict(url.query) == expected
    new_engine(url)


@pytest.mark.parametrize("query", ["host=a,b&port=1,2,3", "host=a:1&host=b:2&port=1", "host=a,b&port=x"])
def test_hosts_and_ports_that_do_not_fit_are_refused_without_their_url(query: str) -> None:
    with pytest.raises(ConfigurationError, match="malformed") as error:
        new_engine(async_url(f"postgresql://u:secret@/d?{query}"))
    assert "secret" not in str(error.value) and "host=a:5432&host=b:5433" in error.value.hint
    assert error.value.__cause__ is None


def test_a_store_on_several_hosts_looks_for_the_one_that_writes() -> None:
    several, wanted = "postgresql{}://u@/d?host=a,b{}", "target_session_attrs"
    assert store_url(several.format("", "")).query[wanted] == "prefer-primary"
    assert store_url(several.format("+psycopg", "")).query[wanted] == "prefer-primary"
    assert store_url(several.format("", f"&{wanted}=any")).query[wanted] == "any"
    assert wanted not in store_url("postgresql://u@a/d").query


async def test_the_next_host_is_asked_where_the_first_takes_no_connection(postgresql_url: str) -> None:
    folder = make_url(postgresql_url).query["host"]
    several = async_url(postgresql_url.replace(f"host={folder}", f"host=/nowhere,{folder}"))
    async with new_engine(several).connect() as connection:
        assert await connection.scalar(text("SELECT 1")) == 1
        await connection.invalidate()


class BareConnection:
    """A driver of PEP 249, which has nothing of sqlite3's own."""

    def __init__(self, path: Path) -> None:
        opened = sqlite3.connect(path, check_same_thread=False)
        self.cursor, self.create_function = opened.cursor, opened.create_function
        self.commit, self.rollback, self.close = opened.commit, opened.rollback, opened.close


async def test_an_engine_of_another_driver_for_sqlite_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/a.db", creator=lambda: BareConnection(tmp_path / "a.db"))
    with pytest.raises(ConfigurationError, match="cannot be kept read-only: it is not SQLite's own"):
        async with create_server(engine, base_url="https://api.example.com/r", tables=Base):
            pass
    engine.dispose()


@pytest.mark.parametrize("url", ["duckdb://", "duckdb:///", "duckdb:///:memory:", "duckdb:///:memory:shared"])
def test_a_duckdb_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="in memory") as refused:
        reading_engine(url, {"pool_size": 1, "max_overflow": 0})
    assert "duckdb:////data/sales.duckdb" in refused.value.hint


def test_nothing_holds_objects_of_duckdb_until_the_interpreter_ends(tmp_path: Path) -> None:
    """A cache of a module does. DuckDB's binding then lists hundreds of "leaked" objects on stderr."""
    pytest.importorskip("duckdb")
    program = f"""
import asyncio, duckdb
from sqlalchemy import Column, Integer, MetaData, Table, select
from dualsql import DualResponseServer, PageRequest
path = {str(tmp_path / "numbers.duckdb")!r}
with duckdb.connect(path) as connection:
    connection.execute("CREATE TABLE numbers AS SELECT range AS n FROM range(9)")
numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
async def main():
    url = f"duckdb:///{{path}}"
    async with DualResponseServer(url, base_url="http://127.0.0.1/r", tables=numbers.metadata) as dual:
        response = await dual.create_response(select(numbers), name="numbers")
        print(len((await dual.read_page(response.resource_id, None, PageRequest())).rows))
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("9\n", "")
