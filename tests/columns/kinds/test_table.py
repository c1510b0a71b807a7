"""docs/types.md shows what each type of each database is in every format: what was seen, and not what was meant."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from dualsql import DualResponseError
from tests.columns.kinds import table
from tests.columns.kinds.results import served
from tests.engines import opened


async def filled(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database that holds the table of types."""
    statements = table.statements(table.KINDS[engine])
    if engine == "DuckDB":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(folder / "kinds.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)
        return f"duckdb:///{folder / 'kinds.duckdb'}"
    url: str = request.getfixturevalue(f"{engine.lower()}_url")
    async with opened(url) as database, database.begin() as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)
    return url


# SQLAlchemy's own MONEY makes SQLAlchemy warn.
@pytest.mark.quick(1, "sqlite")
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", table.KINDS)
async def test_the_table_is_what_is_seen(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, declared = await filled(engine, tmp_path, request), table.declared(table.KINDS[engine])
    async with served(url, declared.metadata) as server:
        seen = await table.lines(server, table.KINDS[engine], declared)
    if request.config.getoption("--rewrite-types"):
        table.rewrite(engine, seen)
    _, sections = table.documented()
    assert sections[engine].splitlines() == table.section(engine, seen).splitlines(), (
        "pytest tests/columns/kinds/test_table.py --rewrite-types"
    )


@pytest.mark.quick(1, "postgresql")
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
async def test_asyncpg_reads_what_sqlalchemy_reads(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """SQLAlchemy reads the rows of an engine with an event listener."""
    url, declared = await filled("PostgreSQL", tmp_path, request), table.declared(table.KINDS["PostgreSQL"])
    async with opened(url) as engine, served(engine, declared.metadata) as server:

        async def seen(column: Any) -> str:
            response = await server.dual.create_response(select(declared.c.id, column), name="kinds")
            return repr((await server.dual.read_page(response.resource_id, None)).rows)

        columns = list(declared.c)[1:]
        own = [await seen(column) for column in columns]
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *_: None)
        different = []
        for kind, column, rows in zip(table.KINDS["PostgreSQL"], columns, own, strict=True):
            with suppress(DualResponseError):
                if await seen(column) == rows:
                    continue
            different.append(kind.sql_type)
    # A date before the year 1 and an interval of months, of which Python has no class, and an end that is `infinity`.
    assert different == ["DATE ", "INTERVAL ", "TSTZRANGE"]


def test_the_document_has_every_engine() -> None:
    _, sections = table.documented()
    assert list(sections) == list(table.KINDS)
