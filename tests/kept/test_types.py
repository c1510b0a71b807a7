"""What is read from a kept result is what its database gave, byte for byte, over every type of docs/types.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Double,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    select,
    types,
)
from sqlalchemy.dialects import postgresql as pg

from dualsql import LocalResultStorage, PageRequest
from dualsql.columns.meanings import Meanings
from dualsql.kept.translation.statements import column_term
from dualsql.plan import shape
from dualsql.query import read_result_query
from dualsql_client import DualResponseClient
from tests.columns.kinds import table
from tests.columns.kinds.results import BASE, Served, served, table_of
from tests.columns.kinds.test_table import filled
from tests.engines import opened

NOT_KEPT = {
    ("PostgreSQL", "NUMERIC"): "NaN",
    ("PostgreSQL", "TIMETZ"): "a time with a zone",
    ("PostgreSQL", "TIMESTAMPTZ "): "infinity",
    ("PostgreSQL", "DATE "): "before the year 1",
    ("PostgreSQL", "INTERVAL "): "months",
    ("PostgreSQL", "FLOAT8[]"): "NaN",
    ("PostgreSQL", "NUMERIC[]"): "NaN",
    ("DuckDB", "HUGEINT"): "beyond 64 bits",
    ("DuckDB", "UHUGEINT"): "beyond 64 bits",
    ("DuckDB", "DATE "): "infinity",
    ("DuckDB", "TIMESTAMP "): "infinity",
}
"""Values for which no exact form is kept, by their engine and type."""
FORMATS = ("ndjson", "csv", "json", "arrow", "parquet", "xlsx")


def read(answer: httpx.Response, format_name: str) -> Any:
    """The bytes of an answer; of Arrow and Parquet the schema and the values.

    PostgreSQL's own batches have another layout, and its documents in them have spaces.
    """
    if format_name in ("arrow", "parquet") and answer.status_code == 200:
        with suppress(pa.ArrowInvalid):  # it ends with a problem
            actual = table_of(answer, format_name)
            return actual.schema, [list(map(parsed, row.values())) for row in actual.to_pylist()]
    return answer.content


def parsed(value: Any) -> Any:
    """The object of a document, and any other value."""
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else repr(value)


async def answers(server: Served, statement: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """What the metadata say of the kept rows, and the answer in each format."""
    response = await server.dual.create_response(statement, name="kinds", **options)
    described = await server.dual.describe(response.resource_id, None)
    path = f"/resources/{response.resource_id}/rows"
    actual = {
        format_name: read(await server.http.post(path, json={"format": format_name}), format_name)
        for format_name in FORMATS
    }
    actual["sample"] = response.sample, response.columns
    return described.get("kept"), actual


async def refined(server: Served, statement: Any, *, keep: bool) -> dict[str, Any]:
    """A refinement of a result, in each format; where the result is kept, it is kept too."""
    parent = await server.dual.create_response(statement, name="kinds", keep=keep)
    question = {"filters": [{"column": "id", "op": "gte", "value": 0}], "order_by": ["id"]}
    response = await server.dual.create_response(
        name="refined", parent=parent.resource_uri, refinement=question
    )
    description = (await server.dual.describe(response.resource_id, None)).get("kept")
    assert (description is not None and description["kept"]) is keep, description
    path = f"/resources/{response.resource_id}/rows"
    return {
        format_name: read(await server.http.post(path, json={"format": format_name}), format_name)
        for format_name in FORMATS
    }


async def compared(server: Served, statement: Any) -> str | None:
    """Compare the kept answers with the live ones. Returns why the rows are not kept."""
    _, live = await answers(server, statement)
    said, kept = await answers(server, statement, keep=True)
    for format_name, answer in kept.items():
        assert answer == live[format_name], format_name
    if said["kept"]:
        assert said["rows"] >= 1
        return None
    return str(said["reason"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", table.KINDS)
async def test_every_type_comes_back_as_it_was(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kinds = table.KINDS[engine]
    url, declared = await filled(engine, tmp_path, request), table.declared(kinds)
    storage = LocalResultStorage(tmp_path / "kept")
    async with served(url, declared.metadata, storage=storage) as server:
        refused = {}
        for number, kind in enumerate(kinds):
            reason = await compared(server, select(declared.c.id, declared.c[f"c{number}"]))
            if reason is not None:
                refused[engine, kind.sql_type] = reason
        assert refused.keys() == {key for key in NOT_KEPT if key[0] == engine}, refused
        kept = [
            declared.c[f"c{number}"]
            for number, kind in enumerate(kinds)
            if (engine, kind.sql_type) not in refused
        ]
        assert await compared(server, select(declared.c.id, *kept)) is None
        whole = select(declared.c.id, *kept)
        live, of_kept = [await refined(server, whole, keep=keep) for keep in (False, True)]
        for format_name, answer in of_kept.items():
            assert answer == live[format_name], format_name
    storage = LocalResultStorage(tmp_path / "too small")
    async with served(url, declared.metadata, storage=storage, keep_bytes=1) as server:
        # The sample is of the first rows of the run, whose file is given up.
        assert await compared(server, select(declared)) is not None


LARGE = (1e23, 3092535278770144256.0, -(2.0**70), 2.0**60, 18014398509481990.0, 1.7976931348623157e308, 0.1)
SINGLE = (-2747983872.0, 50816768.0, 2.0**-96, 2.0**87, 3.4028234663852886e38, 16777216.0, 0.1)
EXTREMES: Any = {
    "SQLite": (
        ("BIGINT", BigInteger(), ("9223372036854775807", "-9223372036854775808", "NULL")),
        ("TEXT", String(), ("''", "NULL", "'NULL'", "'a' || char(0) || 'b'", "'=1'", "char(13, 10)")),
        ("DATETIME", DateTime(), ("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'")),
        ("JSON", JSON(), ("'null'", "NULL", "'1.50'", "'{\"n\": 123456789012345678901234567890}'")),
        ("ANY", types.NullType(), ("'x'", "NULL", "''")),
    ),
    "PostgreSQL": (
        ("FLOAT8", Double(), tuple(map(repr, LARGE))),
        ("FLOAT4", types.REAL(), tuple(map(repr, SINGLE))),
        ("NUMERIC", Numeric(), ("1.50", "1.500", "1e-20", "1e100", "-0.0", "NULL")),
        (
            "TIMESTAMPTZ",
            DateTime(timezone=True),
            ("'0001-01-01 00:00+00'", "'9999-12-31 23:59:59.999999+00'"),
        ),
        ("DATE", types.NullType(), ("'0001-01-01'", "'9999-12-31'", "NULL")),
        ("TIME", types.NullType(), ("'00:00'", "'23:59:59.999999'", "NULL")),
        ("TIMESTAMPTZ", types.NullType(), ("'2024-02-29 12:30+02'", "NULL")),
        ("MONEY", pg.MONEY(), ("1234.5", "-0.01", "NULL")),
    ),
}
"""Types with the values that are the hardest to keep."""


async def extremes(engine: str, request: pytest.FixtureRequest, kinds: Any) -> tuple[str, list[Table]]:
    """The URL of a database with a table for each type, and the tables."""
    url: str = request.getfixturevalue(f"{engine.lower()}_url")
    tables = [
        Table(f"of{number}", MetaData(), Column("id", Integer, primary_key=True), Column("v", kind))
        for number, (_, kind, _) in enumerate(kinds)
    ]
    async with opened(url) as database, database.begin() as connection:
        for table, (sql_type, _, values) in zip(tables, kinds, strict=True):
            rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
            await connection.exec_driver_sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, v {sql_type})")
            await connection.exec_driver_sql(f"INSERT INTO {table} VALUES {rows}")
    return url, tables


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", EXTREMES)
async def test_extreme_values_come_back_as_they_were(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, tables = await extremes(engine, request, EXTREMES[engine])
    for each in tables:
        async with served(url, each.metadata, storage=LocalResultStorage(tmp_path / each.name)) as server:
            for columns in ((each.c.id, each.c.v), (each.c.v,)):
                assert await compared(server, select(*columns).order_by(each.c.id)) is None, each.c.v.type


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("SQLite", ("JSON", JSON(), ("'{bad'", "'{}'"))),
        ("PostgreSQL", ("INTERVAL", types.NullType(), ("'1 mon'", "'1 day'"))),
    ],
)
async def test_texts_that_do_not_fit_are_not_kept(
    engine: str, kind: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, (table,) = await extremes(engine, request, [kind])
    async with served(url, table.metadata, storage=LocalResultStorage(tmp_path / "kept")) as server:
        reason = await compared(server, select(table).order_by(table.c.id))
    assert reason == "The column 'v' has a value that cannot be kept exactly."


async def test_pages_sorted_by_instants_have_cursors(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    values = "'0001-01-01 00:00+00'", "'9999-12-31 23:59:59.999999+00'", "'2024-02-29 12:30+02'", "NULL"
    url, (table,) = await extremes(
        "PostgreSQL", request, [("TIMESTAMPTZ", DateTime(timezone=True), (*values, values[2]))]
    )
    async with served(url, table.metadata, storage=LocalResultStorage(tmp_path / "kept")) as server:
        kept = await server.dual.create_response(select(table), name="instants", keep=True)
        parameters: Any = {"limit": 2, "sort": [{"field": "v", "order": "desc"}]}
        there: list[list[int]] = []
        page: Any = None
        while page is None or page.has_next:
            if page is not None:
                parameters["cursor"] = page.next_cursor
            page = await server.dual.read_page(kept.resource_id, None, PageRequest(**parameters))
            there.append([row["id"] for row in page.rows])
            assert page.has_next is (page.next_cursor is not None)
        assert [number for each in there for number in each] == [1, 4, 2, 0, 3], (
            "ties as the database has them"
        )
        for before in reversed(there[:-1]):
            parameters["cursor"] = page.previous_cursor
            page = await server.dual.read_page(kept.resource_id, None, PageRequest(**parameters))
            assert [row["id"] for row in page.rows] == before


@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
async def test_amounts_that_are_kept_as_texts_are_compared_by_the_database(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, (table,) = await extremes("PostgreSQL", request, [("MONEY", pg.MONEY(), ("1234.5", "-0.01"))])
    async with served(url, table.metadata, storage=LocalResultStorage(tmp_path / "kept")) as server:
        kept = await server.dual.create_response(select(table), name="amounts", keep=True)
        resource = await server.dual.get_resource(kept.resource_id)
        assert resource is not None

        async def found(operator: str) -> list[int]:
            question = {"filters": [{"column": "v", "op": operator, "value": "-$0.01"}]}
            page = await server.dual.queries.page_unchecked(
                resource, read_result_query(question), PageRequest(limit=9)
            )
            return [row["id"] for row in page.rows]

        # The database knows their order, and the file has texts.
        assert await found("eq") == [1]
        assert await found("lte") == [1]


def test_a_text_over_kept_rows_takes_a_column_as_its_own_database_stores_it() -> None:
    cells = Table(
        "cells",
        MetaData(),
        Column("word", String().with_variant(pg.CITEXT(), "postgresql")),
        Column("number", Integer().with_variant(BigInteger(), "postgresql")),
        Column("real", Double().with_variant(pg.REAL(), "postgresql")),
    )
    columns = shape(select(cells), Meanings(pg.dialect())).columns
    terms = [
        column_term(cell, column, column.expression, "postgresql")
        for cell, column in zip(("text", "integer", "float"), columns, strict=True)
    ]
    assert [(term.kind, term.bits) for term in terms] == [("opaque", 0), ("integer", 64), ("opaque", 0)]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
async def test_a_document_is_null_exactly_where_it_is_in_its_database(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A JSON `null` is no NULL there, and both are shown as null."""
    kind, shown = ("JSON", JSON()) if engine == "SQLite" else ("JSONB", pg.JSONB())
    url, (table,) = await extremes(engine, request, [(kind, shown, ("'null'", "NULL", "'{\"n\": 1}'"))])
    asked: Sequence[Any] = [
        {"filters": {"column": "v", "op": "is_null"}},
        {"filters": {"column": "v", "op": "is_null", "value": False}},
        {"aggregates": [{"function": "count", "column": "v"}]},
    ]
    texts = [
        "SELECT COUNT(v) AS n FROM data",
        "SELECT id FROM data WHERE v IS NULL ORDER BY id",
        "SELECT id FROM data WHERE NOT (v IS NOT NULL) ORDER BY id",
        "SELECT id, CASE WHEN v IS NULL THEN 'none' ELSE 'some' END AS w FROM data ORDER BY id",
        "SELECT id, v FROM data ORDER BY id",
    ]
    answers: list[list[Any]] = []
    async with served(url, table.metadata, storage=LocalResultStorage(tmp_path / "kept")) as server:
        for keep in (False, True):
            response = await server.dual.create_response(select(table), name="documents", keep=keep)
            result = DualResponseClient(BASE, http=server.http).parse(
                response.to_mcp_tool_result(), strict=True
            )
            assert result is not None
            answers.append(
                [(await result.query(**question)).data for question in asked]
                + [(await result.sql(sql)).data for sql in texts]
                + [[one["nulls"] for one in (await result.profile())["columns"]]]
            )
    live, kept = answers
    assert live[0] == [{"id": 1, "v": None}]
    assert live == kept
