"""The migrations make the tables today's code wants, undo them, and can be run at any time."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.cli.commands import migrate
from dualsql.errors import ConfigurationError, StorageError
from dualsql.store import SQLResourceStore, downgrade, migrations_path, upgrade
from dualsql.store.migrations import URL_VARIABLE, alembic_config, current_revision
from dualsql.store.tables import VERSION_TABLE, metadata
from dualsql.testing.stores import resource
from tests import engines

ROOT = Path(__file__).parents[3]
HEAD = "dualsql_0006"


async def _tables(url: str) -> set[str]:
    async with engines.opened(url) as engine, engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


async def test_up_makes_every_table_and_down_removes_them(database_url: str) -> None:
    """As often as one likes."""
    for _ in range(2):
        upgrade(database_url)
        upgrade(database_url)
        assert current_revision(database_url) == HEAD
        assert await _tables(database_url) == {VERSION_TABLE, *metadata.tables}
        downgrade(database_url)
        downgrade(database_url)
        assert current_revision(database_url) is None
        assert await _tables(database_url) == {VERSION_TABLE}


async def test_an_upgrade_leaves_the_resources_alone(database_url: str) -> None:
    upgrade(database_url)
    store, saved = SQLResourceStore(database_url), resource()
    await store.save(saved)
    upgrade(database_url)
    assert await store.get(saved.id) == saved
    await store.close()


async def test_the_tables_are_those_of_the_code(database_url: str) -> None:
    upgrade(database_url)
    command.check(alembic_config(database_url))


async def test_the_application_s_own_tables_are_none_of_our_business(
    engine: AsyncEngine, database_url: str
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE schools (id int)"))
        await connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32))"))
    upgrade(database_url)
    command.check(alembic_config(database_url))
    downgrade(database_url)
    assert await _tables(database_url) == {VERSION_TABLE, "schools", "alembic_version"}


async def test_on_a_connection_of_the_caller(engine: AsyncEngine, database_url: str) -> None:
    async with engine.connect() as connection:
        await connection.run_sync(upgrade)  # no transaction was begun: it commits by itself
    assert current_revision(database_url) == HEAD
    async with engine.begin() as connection:
        await connection.run_sync(downgrade)
    assert current_revision(database_url) is None


async def test_what_the_caller_rolls_back_is_undone(postgresql_url: str) -> None:
    async with engines.opened(postgresql_url) as engine, engine.connect() as connection:
        transaction = await connection.begin()
        await connection.run_sync(upgrade)
        await transaction.rollback()
    assert await _tables(postgresql_url) == set()


async def test_a_migration_that_fails_leaves_nothing_behind(engine: AsyncEngine, database_url: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE ix_dualsql_resources_expires_at (id int)"))
    with pytest.raises(StorageError) as error:
        upgrade(database_url)
    assert "expires_at" not in str(error.value)
    assert await _tables(database_url) == {"ix_dualsql_resources_expires_at"}


@pytest.mark.long
async def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    script = f"from dualsql.store import upgrade; upgrade({database_url!r})"
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:
        _, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
    assert current_revision(database_url) == HEAD


async def test_a_database_of_a_newer_dualsql_is_refused(engine: AsyncEngine, database_url: str) -> None:
    upgrade(database_url)
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'dualsql_9999'"))
    with pytest.raises(ConfigurationError, match="newer"):
        upgrade(database_url)


def test_a_revision_that_does_not_exist_is_refused(sqlite_url: str) -> None:
    upgrade(sqlite_url)
    with pytest.raises(ConfigurationError, match="is unknown to this release"):
        migrate(sqlite_url, down_to="nonsense")
    assert current_revision(sqlite_url) == HEAD


@pytest.mark.parametrize("call", [upgrade, downgrade, current_revision, migrate])
def test_a_database_out_of_reach(call: object, tmp_path: Path) -> None:
    assert callable(call)
    with pytest.raises(StorageError) as error:
        call(f"postgresql://dualsql:hunter2@/nowhere?host={tmp_path}")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "sqlite://", "hunter2"])
def test_a_database_that_cannot_hold_resources(url: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        upgrade(url)
    assert "hunter2" not in str(error.value)


def test_the_command_says_what_it_did(database_url: str) -> None:
    assert (
        str(migrate(database_url, create=True))
        == f"Migrated the database from no revision to revision {HEAD}."
    )
    assert str(migrate(database_url)) == f"The database is already at revision {HEAD}."
    assert (
        str(migrate(database_url, down_to="base"))
        == f"Migrated the database from revision {HEAD} to no revision."
    )


def test_the_sql_can_be_had_instead_of_the_deed(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.upgrade(alembic_config(database_url), "head", sql=True)
    assert "CREATE TABLE dualsql_resources" in capsys.readouterr().out
    assert current_revision(database_url) is None


def test_a_new_revision_is_written_from_the_template(sqlite_url: str, tmp_path: Path) -> None:
    folder = shutil.copytree(migrations_path(), tmp_path / "migrations")
    upgrade(sqlite_url)
    config = alembic_config(sqlite_url)
    config.set_main_option("script_location", str(folder))
    command.revision(config, "nothing new", autogenerate=True, rev_id="dualsql_9999")
    [written] = folder.glob("versions/dualsql_9999*.py")
    command.upgrade(config, "head")
    assert current_revision(sqlite_url) == "dualsql_9999"
    assert f"down_revision = '{HEAD}'" in written.read_text()


class TestAlembicAtTheRoot:
    """`alembic upgrade head` in a checkout."""

    @pytest.mark.long
    def test_the_url_is_an_argument(self, postgresql_url: str) -> None:
        _alembic("-x", f"url={postgresql_url}", "upgrade", "head", environment={URL_VARIABLE: "nosuch://"})
        assert current_revision(postgresql_url) == HEAD

    @pytest.mark.long
    def test_or_in_the_environment(self, sqlite_url: str) -> None:
        _alembic("upgrade", "head", environment={URL_VARIABLE: sqlite_url})
        assert current_revision(sqlite_url) == HEAD


def _alembic(*arguments: str, environment: dict[str, str]) -> None:
    command_line: list[str | Path] = [sys.executable, "-m", "alembic", "-c", ROOT / "alembic.ini", *arguments]
    subprocess.run(command_line, check=True, env=os.environ | environment)
