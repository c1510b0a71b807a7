"""The databases of the tests are real, empty and apart from each other."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests import engines, mariadb


async def test_an_engine_answers(source_url: str, make_engine: Callable[[str], AsyncEngine]) -> None:
    async with make_engine(source_url).connect() as connection:
        assert await connection.scalar(text("SELECT 1")) == 1


async def test_each_test_has_a_database_of_its_own(
    postgresql_server: engines.PostgreSQL, postgresql_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    async with make_engine(postgresql_url).begin() as connection:
        await connection.execute(text("CREATE TABLE mine (id int)"))
    with postgresql_server.database() as url:
        async with engines.opened(url) as other, other.connect() as connection:
            assert await connection.scalar(text("SELECT to_regclass('mine')")) is None


async def test_a_database_that_was_used_is_empty_again(postgresql_server: engines.PostgreSQL) -> None:
    with postgresql_server.database() as url:
        async with engines.opened(url) as engine, engine.begin() as connection:
            await connection.execute(text("CREATE SCHEMA another"))
            await connection.execute(text("CREATE TABLE another.mine (id int)"))
    with postgresql_server.database() as again:
        async with engines.opened(again) as engine, engine.connect() as connection:
            left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'another'"
            assert (again, await connection.scalar(text(left))) == (url, 0)


async def test_each_test_has_a_mariadb_of_its_own(
    mariadb_server: mariadb.MariaDB, mariadb_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    async with make_engine(mariadb_url).begin() as connection:
        await connection.execute(text("CREATE TABLE mine (id int)"))
    with mariadb_server.database() as url:
        async with engines.opened(url) as other, other.connect() as connection:
            assert (await connection.execute(text("SHOW TABLES"))).all() == []
