"""A column of which the statement tells no type has the one that the database describes, at every door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Function,
    Integer,
    MetaData,
    String,
    Table,
    column,
    event,
    func,
    literal_column,
    null,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects.postgresql import NUMRANGE

from dualsql.freeze import Registry
from tests.columns.kinds.results import Served, served
from tests.engines import opened

metadata = MetaData()
cells = Table("cells", metadata, Column("id", Integer, primary_key=True), Column("name", String(20)))
number, name = cells.c.id, cells.c.name

# By database: an expression without a type, and the encoding of its values.
EXPRESSIONS: Mapping[str, Sequence[tuple[Any, str]]] = {
    "postgresql": [
        (func.width_bucket(number, 0, 10, 5), "integer"),
        (func.age(func.to_timestamp(number)), "interval"),
        (func.to_timestamp(number), "datetime"),
        (func.make_date(2020, 1, number), "date"),
        (func.make_time(number, 30, 0), "time"),
        (func.gcd(number, 12), "integer"),
        (func.regexp_match(name, "[a-z]"), "array"),
        (func.jsonb_build_object("a", number), "json"),
        (func.scale(number), "integer"),
        (func.trim_scale(number), "decimal"),
        (func.float4(number), "float"),
        (literal_column("id::numeric / 3"), "decimal"),
        (literal_column("id::text || '!'"), "text"),
        (func.starts_with(name, "a"), "boolean"),
        (func.convert_to(name, "UTF8"), "base64"),
        (func.gen_random_uuid(), "uuid"),
        (func.ratio_of_an_application(number), "float"),
        (func.upper(func.numrange(0, number, type_=NUMRANGE)), "decimal"),
        (func.tsvector_to_array(func.to_tsvector(name)), "array"),
        (null(), "text"),
        (func.to_tsvector(name), "any"),
    ],
    "mariadb": [
        (func.crc32(name), "integer"),
        (func.makedate(2020, number), "date"),
        (func.from_unixtime(number), "datetime"),
        (func.ratio_of_an_application(number), "float"),
    ],
    "duckdb": [
        (func.jaro_winkler_similarity(name, "abc"), "float"),
        (func.make_date(2020, 1, number), "date"),
        (func.to_days(number), "interval"),
        (func.string_split(name, "b"), "array"),
        (func.gcd(number, 12), "integer"),
        (func.json_object("a", number), "json"),
        (func.uuid(), "uuid"),
        (func.encode(name), "base64"),
        (func.make_timestamp(number), "datetime"),
        (func.struct_pack(number), "any"),
    ],
}
ROWS = "INSERT INTO cells VALUES (1, 'abc'), (2, 'xyz'), (3, NULL)"
OWN_FUNCTION = {
    "postgresql": "CREATE FUNCTION ratio_of_an_application(int) RETURNS float8 LANGUAGE SQL IMMUTABLE "
    "AS 'SELECT $1 / 4.0'",
    "mariadb": "CREATE FUNCTION ratio_of_an_application(n INT) RETURNS DOUBLE DETERMINISTIC RETURN n / 4",
}


@pytest.fixture(params=list(EXPRESSIONS))
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The kind of a database, and the URL of one with the table and a function of the application."""
    if request.param == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(tmp_path / "cells.duckdb")) as connection:
            connection.execute("CREATE TABLE cells (id INTEGER PRIMARY KEY, name VARCHAR)")
            connection.execute(ROWS)
        return request.param, f"duckdb:///{tmp_path}/cells.duckdb"
    url = request.getfixturevalue(f"{request.param}_url")
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(text(ROWS))
        await connection.execute(text(OWN_FUNCTION[request.param]))
    return request.param, url


async def encodings(half: Served, statement: Any) -> dict[str, str]:
    """The encodings of the column `v` by door: the tool's result, a page, and a question about it."""
    result = await half.result(statement)
    page = (await half.http.get(str(result.resource_url), params={"limit": 10})).json()
    question = await result.query(columns=["v"])
    doors = {"tool": result.columns, "page": page["columns"], "question": question.columns}
    return {door: one["encoding"] for door, columns in doors.items() for one in columns if one["name"] == "v"}


def registry_of(kind: str) -> Registry:
    """The table, and the functions of the expressions."""
    names = {one.name for one, _ in EXPRESSIONS[kind] if isinstance(one, Function)}
    return Registry(metadata, functions=[*sorted(names), "numrange", "to_tsvector"], allow_text=True)


@pytest.mark.quick(1, "postgresql")
async def test_the_database_describes_what_the_statement_does_not(database: tuple[str, str]) -> None:
    kind, url = database
    async with served(url, registry_of(kind)) as half:
        for expression, encoding in EXPRESSIONS[kind]:
            announced = await encodings(half, select(number, expression.label("v")).order_by(number))
            assert announced == dict.fromkeys(("tool", "page", "question"), encoding), str(expression)


async def test_described_columns_are_filtered_and_sorted_by_their_type(postgresql_url: str) -> None:
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(text("INSERT INTO cells SELECT n, 'x' FROM generate_series(1, 30) n"))
    bucket = func.width_bucket(number, 0, 30, 15).label("v")
    async with served(postgresql_url, registry_of("postgresql")) as half:
        result = await half.result(select(number, bucket))
        large: Any = {"column": "v", "op": "gt", "value": 9}
        above = await result.query(filters=large, aggregates=["count"])
        assert above.data == [{"count": 13}]
        in_order = await result.fetch_all(sort={"field": "v", "order": "desc"})
        assert [row["v"] for row in in_order] == sorted((row["v"] for row in in_order), reverse=True)


async def test_every_form_of_a_statement_is_described(postgresql_url: str) -> None:
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(text(ROWS))
    value = func.width_bucket(number, 0, 10, 5).label("v")
    inner = select(number, value).cte("inner_rows")
    forms: dict[str, Any] = {
        "limit": select(number, value).order_by(number.desc()).limit(2).offset(1),
        "ordered by it": select(number, value).order_by(value, number),
        "distinct": select(value).distinct().order_by(value),
        "union": union_all(select(number, value), select(number, value)).order_by("id"),
        "with": select(inner).where(inner.c.v > 0).order_by(inner.c.id),
        "grouped": select(value, func.count()).group_by(value).order_by(value),
        "text": text("SELECT id, width_bucket(id, 0, 10, 5) AS v FROM cells").columns(
            column("id"), column("v")
        ),
    }
    registry = Registry(metadata, functions=["width_bucket"], allow_text=True)
    async with (
        served(postgresql_url, registry) as half,
        opened(postgresql_url) as engine,
        engine.connect() as connection,
    ):
        for form, statement in forms.items():
            rows = sorted(row.v for row in (await connection.execute(statement)).all())
            result = await half.result(statement)
            assert sorted(row["v"] for row in await result.fetch_all()) == rows, form
            assert set((await encodings(half, statement)).values()) == {"integer"}, form


async def test_a_statement_with_types_is_not_described(postgresql_url: str) -> None:
    async with opened(postgresql_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        requests: list[str] = []
        event.listen(
            engine.sync_engine, "before_cursor_execute", lambda *arguments: requests.append(arguments[2])
        )
        async with served(engine, metadata) as half:
            for statement, times in (
                (select(cells, func.length(name)), 0),
                (select(func.pg_typeof(number)), 1),
            ):
                requests.clear()
                await half.result(statement)
                assert sum("LIMIT" in one for one in requests) == 1 + times, requests
