"""Types that show a stored value as null, or NULL as a value; and members of an Enum that a type stores."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, String, Table, TypeDecorator, func, insert, select

from dualsql import QueryExecutionError
from dualsql_client import FetchError
from tests.columns.kinds.results import served
from tests.engines import opened


class EmptyAsNull(TypeDecorator[Any]):
    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return value or ""

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value or None


class NullAsEmpty(TypeDecorator[Any]):
    impl = String(20)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value or ""


class ZeroAsNull(TypeDecorator[Any]):
    impl = Integer
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value or None


class DocumentOrNull(TypeDecorator[Any]):
    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return value or None


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Leveled(TypeDecorator[Any]):
    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else int(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else Level(value)


cells = Table(
    "cells",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("empty", EmptyAsNull),
    Column("filled", NullAsEmpty),
    Column("zero", ZeroAsNull),
    Column("doc", DocumentOrNull),
    Column("level", Leveled),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "empty": "b", "filled": "b", "zero": 3, "doc": {"a": 1}, "level": Level.LOW},
    {"id": 2, "empty": None, "filled": None, "zero": 0, "doc": {}, "level": Level.HIGH},
    {"id": 3, "empty": "a", "filled": "", "zero": None, "doc": None, "level": None},
]
ENCODINGS = {"empty": "text", "filled": "text", "zero": "integer", "doc": "json"}


async def fill(url: str) -> None:
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(cells.metadata.create_all)
        await connection.execute(insert(cells), ROWS)


async def test_its_values_have_their_type_and_no_filter_is_wrong_about_them(source_url: str) -> None:
    await fill(source_url)
    async with opened(source_url) as engine, engine.connect() as connection:
        wanted = [dict(row._mapping) for row in await connection.execute(select(cells).order_by(cells.c.id))]
    async with served(source_url, cells.metadata) as server:
        result = await server.result(select(cells).order_by(cells.c.id))
        assert list(result.sample) == await result.fetch_all() == wanted
        encodings = {column["name"]: column["encoding"] for column in result.columns}
        assert encodings == {"id": "integer", "level": "integer", **ENCODINGS}
        for name in ENCODINGS:
            for op, value in (("is_null", True), ("eq", ROWS[0][name]), ("ne", ROWS[0][name]), ("in", ["b"])):
                condition: Any = {"column": name, "op": op, "value": value}
                with pytest.raises(FetchError) as refused:
                    await result.query(filters=condition, aggregates=["count"])
                assert refused.value.code == "BAD_PARAMETER", (name, op)
            with pytest.raises(FetchError) as refused:
                await result.query(group_by=[name], aggregates=["count"])
            assert refused.value.code == "BAD_PARAMETER", name
        null: Any = {"column": "level", "op": "is_null", "value": True}
        assert (await result.query(filters=null, aggregates=["count"])).data == [{"count": 1}]


async def test_members_of_an_enum_are_compared_through_the_type_that_stores_them(source_url: str) -> None:
    await fill(source_url)
    async with served(source_url, cells.metadata) as server:
        for condition in (cells.c.level == Level.HIGH, cells.c.level.in_([Level.HIGH])):
            result = await server.result(select(cells.c.id).where(condition))
            assert list(result.sample) == await result.fetch_all() == [{"id": 2}]


async def test_documents_that_the_database_cannot_compare_are_refused_with_what_to_write(
    postgresql_url: str,
) -> None:
    await fill(postgresql_url)
    doc = cells.c.doc
    async with served(postgresql_url, cells.metadata) as server:
        for statement in (
            select(cells.c.id).order_by(doc),
            select(doc).distinct(),
            select(doc, func.count()).group_by(doc),
            select(doc).union(select(doc)),
        ):
            with pytest.raises(QueryExecutionError) as refused:
                await server.dual.create_response(statement, name="documents")
            assert "cast(column, JSONB)" in refused.value.hint
