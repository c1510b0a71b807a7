"""The type of a computed column is the one that the database describes, for every text of `tests/sql/values`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from pymysql.constants import FIELD_TYPE  # type: ignore[import-untyped]
from sqlalchemy import Engine, create_engine, insert, select, text

from dualsql.capabilities import capabilities_named
from dualsql.columns.instants import has_zone
from dualsql.columns.meanings import Meanings
from dualsql.columns.result import result_columns
from dualsql.databases.functions import type_of_call
from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.columns.values import expressions
from tests.engines import PostgreSQL
from tests.mariadb import MariaDB
from tests.quick import case_of
from tests.sql.value_checks import METADATA, fill
from tests.sql.value_texts import texts_of

PARTS = 8
NAMES = ("postgresql", "mariadb", "duckdb")

# https://www.postgresql.org/docs/current/catalog-pg-type.html
_OIDS = {
    **dict.fromkeys((20, 21, 23), "integer"),
    **dict.fromkeys((25, 1042, 1043), "text"),
    **dict.fromkeys((114, 3802), "json"),
    1114: "datetime",
    1184: "datetime with a zone",
    **dict.fromkeys((700, 701), "float"),
    **dict.fromkeys((1000, 1005, 1007, 1009, 1015, 1016, 1022, 1231), "array"),
    16: "boolean",
    17: "base64",
    1082: "date",
    **dict.fromkeys((1083, 1266), "time"),
    1186: "interval",
    1700: "decimal",
    2950: "uuid",
}
_FIELDS = {
    **dict.fromkeys(("TINY", "SHORT", "LONG", "INT24", "LONGLONG", "YEAR"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("DECIMAL", "NEWDECIMAL"), "decimal"),
    **dict.fromkeys(("VARCHAR", "VAR_STRING", "STRING", "BLOB", "LONG_BLOB", "MEDIUM_BLOB"), "text"),
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "datetime"),
    "DATE": "date",
    "TIME": "time",
}
_BINARY = 63
_WORDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    "TIMESTAMP": "datetime",
    "TIMESTAMP WITH TIME ZONE": "datetime with a zone",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME": "time",
    "INTERVAL": "interval",
    "JSON": "json",
    "UUID": "uuid",
    "BLOB": "base64",
}

EXCEPTIONS = {
    (
        "postgresql",
        "integer",
        "decimal",
        "EXTRACT(",
    ): "whole fields, which are numeric there without a fraction",
    ("duckdb", "any", "integer", "list_aggregate("): "a text names the function",
    ("mariadb", "date", "text", "DATE"): "a constant is sent as a text, and the author states its type",
}


def described(name: str, result: Any) -> list[str]:
    """The encoding of each column as the database describes it."""
    if name == "postgresql":
        return [_OIDS.get(one.type_code, str(one)) for one in result.cursor.description]
    if name == "duckdb":
        words = [str(one[1]) for one in result.cursor.description]
        return [
            "array" if word.endswith("]") else _WORDS.get(word, "decimal" if "DECIMAL" in word else word)
            for word in words
        ]
    return [_of_field(field) for field in result.cursor._result.fields]


def _of_field(field: Any) -> str:
    names = [name for name, code in vars(FIELD_TYPE).items() if code == field.type_code]
    actual = next((_FIELDS[name] for name in names if name in _FIELDS), str(field.type_code))
    if actual == "text" and field.charsetnr == _BINARY:
        return "base64"
    # The sum of integers, which is shown as an integer.
    return "integer" if actual == "decimal" and field.scale == 0 else actual


def meanings_of(engine: Engine, name: str) -> Meanings:
    """As a server has them for this database."""
    capabilities = capabilities_named(name)
    assert capabilities is not None
    computation = capabilities.computation._replace(
        functions=partial(type_of_call, dialect=capabilities.text)
    )
    return Meanings(engine.dialect, keeps_zones=capabilities.keeps_zones, computation=computation)


def announced_of(column: Any, name: str) -> str:
    """The encoding of a column, and whether its instants have a zone."""
    capabilities = capabilities_named(name)
    assert capabilities is not None
    encoding: str = column.encoding.removesuffix("-string")
    is_zoned = encoding == "datetime" and has_zone(column, keeps_zones=capabilities.keeps_zones)
    return "datetime with a zone" if is_zoned else encoding


def other_types(engine: Engine, name: str, metadata: Any, sqls: list[str]) -> list[str]:
    """Where a column is announced with another type than the database describes."""
    meanings, actual = meanings_of(engine, name), []
    with engine.connect() as connection:
        for sql in sqls:
            select = read_select(sql, Registry(metadata), name)
            try:
                result = connection.execute(select)
            except Exception:  # noqa: BLE001 - the database refuses it, of which test_values.py tells
                connection.rollback()
                continue
            kinds, rows = described(name, result), result.all()
            columns = result_columns(select, meanings)
            for place, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
                announced = announced_of(column, name)
                is_null = all(row[place] is None for row in rows)
                if not (announced == kind or is_null or _is_known(name, announced, kind, sql, column)):
                    actual.append(f"{sql} [{column.name}]: announced {announced}, described {kind}")
    return actual


def _is_known(name: str, announced: str, kind: str, sql: str, column: Any) -> bool:
    if not column.is_computed:
        return True  # the application declares it
    if name == "mariadb" and kind == "integer" and announced in {"decimal", "boolean"}:
        return (
            True  # of a scale that is no part of the type; of truth values that SQLAlchemy makes of numbers
        )
    return any(
        (name, announced, kind) == known[:3] and known[3].lower() in sql.lower() for known in EXCEPTIONS
    )


@pytest.fixture(scope="module", params=NAMES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Engine]]:
    name = request.param
    if name == "duckdb":
        url = f"duckdb:///{tmp_path_factory.mktemp('described')}/described.duckdb"
        yield from _filled(name, url)
        return
    server: PostgreSQL | MariaDB = request.getfixturevalue(f"{name}_server")
    with server.database() as database:
        yield from _filled(name, database.replace("+asyncpg", "+psycopg").replace("+asyncmy", "+pymysql"))


def _filled(name: str, url: str) -> Iterator[tuple[str, Engine]]:
    fill(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        expressions.cells.metadata.create_all(connection)
        for row in expressions.ROWS:
            connection.execute(text(f"INSERT INTO cells VALUES ({row})"))
        connection.execute(insert(expressions.moments), [expressions.MOMENTS])
    yield name, engine
    engine.dispose()


@pytest.mark.quick(1, "postgresql")
@pytest.mark.parametrize("part", [case_of(part, is_long=part > 0) for part in range(PARTS)])
def test_every_text_has_the_types_that_the_database_describes(engine: tuple[str, Engine], part: int) -> None:
    name, opened = engine
    sqls = [one.sql for one in texts_of(name) if name not in one.refusals]
    assert other_types(opened, name, METADATA, sqls[part::PARTS]) == []


@pytest.mark.parametrize("part", [case_of(part, is_long=part > 0) for part in range(PARTS)])
def test_every_expression_has_the_types_that_the_database_describes(
    engine: tuple[str, Engine], part: int
) -> None:
    name, opened = engine
    sqls = [f"SELECT {one} AS v {rest}" for rest, many in expressions.texts() for one in many]
    assert other_types(opened, name, expressions.cells.metadata, sqls[part::PARTS]) == []


@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")
def test_a_select_has_the_types_that_the_database_describes(engine: tuple[str, Engine]) -> None:
    numbers = [one for is_aggregate, many in expressions.selects() for one in many]
    assert other_types_of_selects(*engine, numbers, may_be_any=False) == []
    # Of what is computed of dates and times, a type may be announced by no one, but by no one wrongly.
    assert other_types_of_selects(*engine, expressions.of_moments(), may_be_any=True) == []


def other_types_of_selects(
    name: str, engine: Engine, named: Iterable[tuple[str, Any]], *, may_be_any: bool
) -> list[str]:
    meanings, actual = meanings_of(engine, name), []
    with engine.connect() as connection:
        for label, value in named:
            statement = select(value.label("v"))
            try:
                result = connection.execute(statement)
                (kind,), rows = described(name, result), result.all()
            except Exception:  # noqa: BLE001 - the database refuses it
                connection.rollback()
                continue
            (column,) = result_columns(statement, meanings)
            announced = announced_of(column, name)
            is_right = announced == kind or (announced == "any" and (may_be_any or label == "divided"))
            is_null = all(row[0] is None for row in rows)
            if not (is_right or is_null or _is_known(name, announced, kind, label, column)):
                actual.append(f"{label}, {value}: announced {announced}, described {kind}")
    return actual
