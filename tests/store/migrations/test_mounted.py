"""The migrations of an installed dualsql, alone and mounted in an application's own Alembic set-up."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import alembic
import pytest
from sqlalchemy import inspect

from dualsql.errors import ConfigurationError
from dualsql.store import SQLResourceStore, upgrade
from dualsql.testing.stores import resource
from tests import engines
from tests.engines import ENGINES
from tests.quick import one_in

ROOT = Path(__file__).parents[3]

MODEL = """
from sqlalchemy import Column, Integer, MetaData, Table
metadata = MetaData()
Table("schools", metadata, Column("id", Integer, primary_key=True))
"""

REVISION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "schools_1", None, ("schools",), None
def upgrade():
    op.create_table("schools", sa.Column("id", sa.Integer, primary_key=True))
def downgrade():
    op.drop_table("schools")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out as the wheels install it."""
    site = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(ROOT / "dualsql", site / "dualsql")
    shutil.copytree(ROOT / "migrations", site / "dualsql" / "migrations")
    shutil.copytree(ROOT / "client" / "dualsql_client", site / "dualsql_client")
    return site


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """An application with a migration of its own, set up word for word as docs/migrations.md says."""
    page = (ROOT / "docs" / "migrations.md").read_text()
    [ini, env] = re.findall(r"^```(?:ini|python)\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    versions = tmp_path / "alembic" / "versions"
    versions.mkdir(parents=True)
    template = Path(alembic.__file__).parent / "templates" / "generic" / "script.py.mako"
    shutil.copy(template, tmp_path / "alembic")
    (tmp_path / "alembic.ini").write_text(ini)
    (tmp_path / "alembic" / "env.py").write_text(env)
    (tmp_path / "my_application.py").write_text(MODEL)
    (versions / "schools_1.py").write_text(REVISION)
    return tmp_path


def _run(code: str, *, folder: Path, path: list[Path], **environment: str) -> str:
    environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.mark.long
def test_an_installed_dualsql_finds_its_migrations(installed: Path, tmp_path: Path, sqlite_url: str) -> None:
    code = f"""
from dualsql.cli.commands import migrate
from dualsql.store import migrations_path
print(migrations_path())
print(migrate({sqlite_url!r}, create=True))
"""
    actual, message = _run(code, folder=tmp_path, path=[installed]).splitlines()
    assert Path(actual) == installed / "dualsql" / "migrations"
    assert "revision dualsql_0006" in message


@pytest.mark.long
@pytest.mark.parametrize("database_url", one_in(2, ENGINES), indirect=True)
async def test_an_application_mounts_the_migrations(
    installed: Path, application: Path, database_url: str
) -> None:
    # The last `upgrade heads` would fail on a table that the downgrade left behind.
    commands = ["upgrade heads", "upgrade heads", "check", "downgrade dualsql@base", "upgrade heads"]
    code = f"from alembic.config import main\nfor line in {commands}: main(line.split())"
    _run(code, folder=application, path=[installed, application], APPLICATION_DATABASE_URL=database_url)
    assert await _tables(database_url) == {"schools", "dualsql_resources", "dualsql_links", "alembic_version"}

    store, saved = SQLResourceStore(database_url), resource()
    await store.save(saved)
    assert await store.get(saved.id) == saved
    await store.close()

    with pytest.raises(ConfigurationError, match="not made by `dualsql migrate`"):
        upgrade(database_url)


async def _tables(url: str) -> set[str]:
    async with engines.opened(url) as engine, engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


def _generated(application: Path) -> list[str]:
    """What the files that autogenerate has written do."""
    files = sorted((application / "alembic" / "versions").glob("*_generated.py"))
    return [line.strip() for file in files for line in file.read_text().splitlines() if "op." in line]


@pytest.mark.long
@pytest.mark.parametrize("database_url", one_in(2, ENGINES), indirect=True)
async def test_a_mounted_history_goes_on_with_plain_commands(
    installed: Path, application: Path, database_url: str
) -> None:
    page = (ROOT / "docs" / "migrations.md").read_text()
    [merge] = re.findall(r"\$ alembic (revision --head heads .*)", page)
    commands = [
        shlex.split(merge), ["upgrade", "head"], ["check"],
        ["revision", "--autogenerate", "-m", "generated"], ["upgrade", "head"], ["check"], ["downgrade", "base"],
        ["upgrade", "head"],
    ]  # fmt: skip
    code = f"from alembic.config import main\nfor line in {commands}: main(line)"
    _run(code, folder=application, path=[installed, application], APPLICATION_DATABASE_URL=database_url)
    assert _generated(application) == []
    assert await _tables(database_url) == {"schools", "dualsql_resources", "dualsql_links", "alembic_version"}


@pytest.fixture
def beside(application: Path) -> Path:
    """An application with a history of its own, beside which dualsql is migrated by itself."""
    page = (ROOT / "docs" / "migrations.md").read_text()
    [code] = re.findall(r"^  ```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    helper, configured = [line.strip() for line in code.splitlines() if line.strip()]
    env = (application / "alembic" / "env.py").read_text()
    mounted = "context.configure(connection=connection, target_metadata=[metadata, dualsql_metadata])"
    assert mounted in env
    (application / "alembic" / "env.py").write_text(f"{helper}\n{env.replace(mounted, configured)}")
    ini = (application / "alembic.ini").read_text()
    (application / "alembic.ini").write_text(ini.replace("    dualsql:migrations/versions\n", ""))
    return application


@pytest.mark.long
@pytest.mark.parametrize("helper", one_in(3, ["include_name", "include_object", ""]))
@pytest.mark.parametrize("database_url", one_in(2, ENGINES, start=1), indirect=True)
async def test_a_history_beside_ours_leaves_our_tables_alone(
    installed: Path, beside: Path, database_url: str, helper: str
) -> None:
    file = beside / "alembic" / "env.py"
    env = file.read_text().replace("import include_name", "import include_name, include_object")
    wanted = f", {helper}={helper}" if helper else ""
    file.write_text(env.replace(", include_name=include_name", wanted))
    upgrade(database_url)
    commands = [["upgrade", "head"], ["revision", "--autogenerate", "-m", "generated"]]
    if helper:
        commands += [["upgrade", "head"], ["check"]]
    code = f"from alembic.config import main\nfor line in {commands}: main(line)"
    path = [installed, beside]
    _run(code, folder=beside, path=path, APPLICATION_DATABASE_URL=database_url)
    dropped = [line for line in _generated(beside) if "op.drop_table('dualsql_" in line]
    assert len(dropped) == (0 if helper else 3)  # without help Alembic drops them: or this would show nothing
    assert await _tables(database_url) == {
        "schools", "alembic_version", "dualsql_resources", "dualsql_links", "dualsql_alembic_version",
    }  # fmt: skip
    store, saved = SQLResourceStore(database_url), resource()
    await store.save(saved)
    assert await store.get(saved.id) == saved
    await store.close()
