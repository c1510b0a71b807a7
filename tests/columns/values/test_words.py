"""What JSON has no value for is a word, named in `$unfit`, through every door; and is_null finds NULL alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Double, Integer, MetaData, Numeric, Table, Text, insert, select, types

from dualsql import LocalResultStorage
from tests.columns.kinds.results import served, values_of
from tests.engines import opened

numbers = Table(
    "numbers",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("x", Double),
    Column("p", Numeric),
)
WORDS = ("NaN", "Infinity", "-Infinity")


@pytest.mark.parametrize("keep", [True, False])
async def test_numbers_that_are_none(postgresql_url: str, tmp_path: Path, *, keep: bool) -> None:
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(numbers.metadata.create_all)
        await connection.exec_driver_sql(
            "INSERT INTO numbers VALUES (1, 'NaN', 'NaN'), (2, 'Infinity', 'Infinity'),"
            " (3, '-Infinity', '-Infinity'), (4, NULL, NULL), (5, 0.5, 0.5)"
        )
    statement = select(numbers.c.x, numbers.c.p, (numbers.c.x * 2).label("twice")).order_by(numbers.c.id)
    names = ["x", "p", "twice"]
    async with served(postgresql_url, numbers.metadata, storage=LocalResultStorage(tmp_path)) as server:
        response = await server.dual.create_response(statement, name="words", keep=keep)
        result = await server.result(statement)
        expected: list[dict[str, Any]] = [{**dict.fromkeys(names, word), "$unfit": names} for word in WORDS]
        expected += [dict.fromkeys(names), {"x": 0.5, "p": "0.5", "twice": 1.0}]
        path = f"/resources/{response.resource_id}"
        lines = (await server.http.get(f"{path}/rows?format=ndjson")).text.splitlines()[:-1]
        doors = [
            response.sample,
            (await result.fetch()).data,
            (await server.http.get(f"{path}?limit=9")).json()["data"],
        ]
        for rows in (*doors, list(map(json.loads, lines))):
            assert rows == expected
        assert [row["x"] for row in await result.fetch_all(typed=True)][:3] == list(WORDS)
        assert values_of(await server.rows(result, "csv"), "csv", "x")[:3] == list(WORDS)
        for name in names:
            is_null: Any = {"column": name, "op": "is_null", "value": True}
            assert (await result.query(filters=is_null, aggregates=["count"])).data == [{"count": 1}]


class Document(types.TypeDecorator[Any]):
    """An application's own type of documents."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else json.loads(value)


stored = Table("stored", MetaData(), Column("id", Integer, primary_key=True), Column("doc", Text))
documents = Table("stored", MetaData(), Column("id", Integer, primary_key=True), Column("doc", Document))


async def test_the_document_null_of_an_own_type_is_no_null(database_url: str) -> None:
    async with opened(database_url) as engine, engine.begin() as connection:
        await connection.run_sync(stored.metadata.create_all)
        texts = ["null", None, '"null"', "[null]"]
        await connection.execute(insert(stored), [{"id": n, "doc": one} for n, one in enumerate(texts)])
    async with served(database_url, documents.metadata) as server:
        result = await server.result(select(documents).order_by(documents.c.id))
        rows = (await result.fetch()).data
        assert rows == list(result.sample) == await result.fetch_all()
        assert [(row["doc"], row.get("$unfit")) for row in rows] == [
            ("null", ["doc"]),
            (None, None),
            ("null", None),
            ([None], None),
        ]
        assert values_of(await server.rows(result, "arrow"), "arrow", "doc") == [
            "null",
            None,
            '"null"',
            "[null]",
        ]
        is_null: Any = {"column": "doc", "op": "is_null", "value": True}
        assert (await result.query(filters=is_null, aggregates=["count"])).data == [{"count": 1}]
