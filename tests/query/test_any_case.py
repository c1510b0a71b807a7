"""contains_any_case takes the same letters for each other whatever the collation of a column is, live and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select

from dualsql import LocalResultStorage, PageRequest
from dualsql.query import read_result_query
from tests.databases.test_comparison import create
from tests.engines import opened, sqlite_url_in
from tests.query.oracle import lower_ascii, lower_by_letter
from tests.servers import create_server

COLLATIONS = {
    "sqlite": ("BINARY", "NOCASE"),
    "postgresql": ("C", "tr-x-icu", "all_folded"),
    "mariadb": ("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_turkish_ci"),
    "duckdb": ("BINARY", "NOCASE"),
}
TEXTS = (
    "TITANIC",
    "Titanic",
    "Ähre",
    "Straße",
    "STRAẞE",
    "STRASSE",
    "İz",
    "iz",
    "ız",
    "ΟΔΟΣ",
    "οδος",
    "E\u0301",
    "É",
    "a ",
)
PARTS = ("titanic", "ÄHRE", "ähre", "ß", "ss", "İZ", "iz", "I", "οδοσ", "οδος", "e\u0301", "é", "A ")  # fmt: skip


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("kind", COLLATIONS)
async def test_letters_in_any_case_of_any_collation(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    columns = [Column(f"c{n}", String(20, collation=name)) for n, name in enumerate(COLLATIONS[kind])]
    table = Table("texts", MetaData(), Column("id", Integer, primary_key=True), *columns)
    rows = [{"id": n, **{column.name: text for column in columns}} for n, text in enumerate(TEXTS, 1)]
    url = await filled(kind, table, rows, tmp_path, request)
    lower = lower_ascii if kind == "sqlite" else lower_by_letter
    storage = LocalResultStorage(tmp_path / "kept")
    async with create_server(
        url, base_url="http://127.0.0.1/r", tables=table.metadata, storage=storage
    ) as dual:
        for keep in (False, True):
            response = await dual.create_response(select(table).order_by(table.c.id), name="x", keep=keep)
            resource = await dual.get_resource(response.resource_id)
            assert resource is not None
            for column in columns:
                for part in PARTS:
                    condition = {"column": column.name, "op": "contains_any_case", "value": part}
                    question = read_result_query({"filters": [condition]})
                    page = await dual.queries.page_unchecked(resource, question, PageRequest(limit=50))
                    values = [row[column.name] for row in page.rows]
                    wanted = [text for text in TEXTS if part in text or lower(part) in lower(text)]
                    assert values == wanted, (keep, column.type, part)


async def filled(kind: str, table: Table, rows: Any, folder: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database that has the rows."""
    if kind == "duckdb":
        url = f"duckdb:///{folder / 'texts.duckdb'}"
        engine = create_engine(url)
        with engine.begin() as connection:
            table.create(connection)
            connection.execute(insert(table), rows)
        engine.dispose()
        return url
    url = sqlite_url_in(folder) if kind == "sqlite" else str(request.getfixturevalue(f"{kind}_url"))
    async with opened(url) as database, database.begin() as connection:
        await connection.run_sync(create, table)
        await connection.execute(insert(table), rows)
    return url
