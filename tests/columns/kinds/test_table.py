"""docs/types.md shows what each type of each database is in every format: what was seen, and not what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_the_document_has_every_engine() -> None:
    _, sections = table.documented()
    assert list(sections) == list(table.KINDS)
