"""Every spelling of a database URL reaches its async driver, and no error repeats the URL."""

from __future__ import annotations

import pytest

from dualsql.databases.engines import async_url, parsed_url
from dualsql.errors import ConfigurationError


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
    with pytest.raises(ConfigurationError) as caught:
        async_url(given)
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value}{caught.value.__cause__}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


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
    with pytest.raises(ConfigurationError, match="names a host") as caught:
        parsed_url(given)
    assert caught.value.hint == f"Write three slashes before the path: {hint}"


def test_a_port_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        async_url("postgresql://u:p@h:port/d")
