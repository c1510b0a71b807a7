"""Rows are paged by values of which SQLAlchemy guesses the type: those of operators that it does not know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Time,
    Uuid,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    type_coerce,
)
from sqlalchemy.dialects import mysql, postgresql as pg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.sql.elements import TypeCoerce, UnaryExpression
from sqlalchemy.sql.operators import custom_op

from dualsql.columns.database_types import database_type
from dualsql.columns.forecast import Forecast
from dualsql.columns.meanings import STANDARD
from tests.columns.kinds.results import served

# Per column: its type, its SQL type, two values in SQL, and operators each with its right side in SQL.
Kind = tuple[Any, str, Sequence[str], Mapping[str, str]]
COMMON: Mapping[str, Kind] = {
    "whole": (Integer(), "INTEGER", ("3", "40"), {"%": "7", "=": "3", "+": "0.5"}),
    "exact": (Numeric(10, 2), "NUMERIC(10,2)", ("1.50", "22.00"), {"*": "1.001", "-": "0.5"}),
    "words": (Text(), "VARCHAR(20)", ("'a'", "'b'"), {"LIKE": "'a%'", "<": "'b'"}),
}
COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "sqlite": {
        **COMMON,
        "day": (Date(), "DATE", ("'2024-02-29'", "'2023-01-01'"), {"-": "5", "||": "'T'", "<": "'2024'"}),
        "at": (
            DateTime(),
            "DATETIME",
            ("'2024-02-29 12:30:00'", "'2023-01-01 00:00:00'"),
            {"GLOB": "'2024*'"},
        ),
        "doc": (JSON(), "JSON", ("'{\"n\": 1}'", "'{\"n\": 20}'"), {"->": "'$.n'", "->>": "'$.n'"}),
        "bytes": (LargeBinary(), "BLOB", ("x'00ff'", "x'61'"), {"=": "x'61'"}),
        "code": (Uuid(), "CHAR(32)", ("'a0eebc999c0b4ef8bb6d6bb9bd380a11'", "'0'"), {"=": "'0'"}),
    },
    "mariadb": {
        **COMMON,
        "real": (Float(), "FLOAT", ("0.1", "20.25"), {"<": "1", "DIV": "3", "XOR": "0"}),
        "day": (Date(), "DATE", ("'2024-02-29'", "'2023-01-01'"), {"-": "5", "REGEXP": "'2024'"}),
        "at": (
            DateTime(),
            "DATETIME",
            ("'2024-02-29 12:30:00'", "'2023-01-01'"),
            {"-": "1", "<": "'2024-01-01'"},
        ),
        "letter": (mysql.ENUM("b", "a"), "ENUM('b','a')", ("'b'", "'a'"), {"+": "1", "=": "'a'"}),
        "bytes": (LargeBinary(), "BLOB", ("x'00ff'", "x'61'"), {"=": "x'61'"}),
        "span": (Time(), "TIME", ("'12:30:00'", "'01:00:00'"), {"<": "'02:00:00'"}),
    },
    "postgresql": {
        **COMMON,
        "real": (Double(), "DOUBLE PRECISION", ("0.1", "20.25"), {"^": "2"}),
        "flag": (pg.BOOLEAN(), "BOOLEAN", ("true", "false"), {"=": "true", "IS": "NULL"}),
        "day": (
            Date(),
            "DATE",
            ("'2024-02-29'", "'2023-01-01'"),
            {"-": "DATE '2020-01-01'", "+": "TIME '01:00'"},
        ),
        "at": (
            DateTime(),
            "TIMESTAMP",
            ("'2024-02-29 12:30:00.5'", "'2023-01-01'"),
            {"-": "TIMESTAMP '2020-01-01'", "AT TIME ZONE": "'Asia/Tokyo'", "<": "now()"},
        ),
        "zoned": (
            DateTime(timezone=True),
            "TIMESTAMPTZ",
            ("'2024-02-29 12:30:00.5+02'", "'2023-01-01Z'"),
            {"-": "INTERVAL '1 mon'", "AT TIME ZONE": "'Asia/Tokyo'"},
        ),
        "clock": (Time(), "TIME", ("'12:30'", "'01:00'"), {"-": "TIME '00:30'", "+": "DATE '2024-01-01'"}),
        "span": (
            Interval(),
            "INTERVAL",
            ("'1 mon'", "'30 days 1 hour'"),
            {"*": "1.5", "<": "INTERVAL '1 mon'"},
        ),
        "net": (
            pg.INET(),
            "INET",
            ("'10.0.0.1/8'", "'192.168.0.7'"),
            {"<<": "'10.0.0.0/7'", "-": "INET '10.0.0.0'", "+": "5", "=": "INET '10.0.0.1/8'"},
        ),
        "doc": (pg.JSONB(), "JSONB", ("'{\"n\": 1}'", "'{\"n\": 20}'"), {"@>": "'{\"n\": 1}'", "->": "'n'"}),
        "range": (
            pg.INT4RANGE(),
            "INT4RANGE",
            ("'[1,5)'", "'[10,)'"),
            {"&&": "'[4,7)'", "@>": "3", "*": "int4range(2,12)", "<<": "int4range(8,9)"},
        ),
        "list": (
            ARRAY(Integer),
            "INTEGER[]",
            ("'{1,2}'", "'{30}'"),
            {"@>": "'{1}'", "||": "7", "<": "'{5}'"},
        ),
        "bytes": (
            LargeBinary(),
            "BYTEA",
            ("'\\x00ff'", "'\\x61'"),
            {"||": "'\\x01'::bytea", "<": "'\\x10'::bytea"},
        ),
        "bits": (
            pg.BIT(3),
            "BIT(3)",
            ("B'101'", "B'010'"),
            {"||": "B'11'", "<<": "1", "&": "B'100'", "=": "B'101'"},
        ),
        "code": (
            Uuid(),
            "UUID",
            ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"),
            {"<": "'11111111-0000-0000-0000-000000000000'"},
        ),
        "tokens": (
            pg.TSVECTOR(),
            "TSVECTOR",
            ("'a b'", "'c'"),
            {"@@": "'a'::tsquery", "||": "'d'::tsvector"},
        ),
        "mac": (
            pg.MACADDR(),
            "MACADDR",
            ("'08:00:2b:01:02:03'", "'00:00:00:00:00:01'"),
            {"<": "'01:00:00:00:00:00'", "&": "'00:ff:00:00:00:00'::macaddr"},
        ),
    },
    "duckdb": {
        **COMMON,
        "day": (
            Date(),
            "DATE",
            ("'2024-02-29'", "'2023-01-01'"),
            {"-": "DATE '2020-01-01'", "+": "INTERVAL 1 HOUR"},
        ),
        "at": (
            DateTime(),
            "TIMESTAMP",
            ("'2024-02-29 12:30:00.5'", "'2023-01-01'"),
            {"-": "TIMESTAMP '2020-01-01'", "<": "TIMESTAMP '2023-06-01'"},
        ),
        "span": (
            Interval(),
            "INTERVAL",
            ("'1 month'", "'30 days 1 hour'"),
            {"*": "3", "<": "INTERVAL 1 MONTH"},
        ),
        "list": (ARRAY(Integer), "INTEGER[]", ("[1,2]", "[30]"), {"@>": "[1]", "&&": "[30]", "||": "[7]"}),
        "bytes": (
            LargeBinary(),
            "BLOB",
            ("'\\x00\\xFF'::BLOB", "'a'::BLOB"),
            {"||": "'b'::BLOB", "=": "'a'::BLOB"},
        ),
    },
}
ROWS = 7
WITHOUT_CURSORS: Mapping[str, set[str]] = {
    "sqlite": set(),
    "mariadb": {"letter + "},
    "duckdb": {"at -", "span *"},
    "postgresql": {
        *("at -", "bits &", "bits <<", "clock -", "doc @>", "net +", "range *", "span *"),
        *("at <", "flag =", "flag IS", "real ^", "span or span", "whole ="),
    },
}
"""Drivers give an interval, an address, a range and bits as values that they do not take back as they were.

An order by `at < now()` depends on the time. The type of `op("=")` is not known if nothing states it, nor that of a
coalesce of two types.
"""


def statements(engine: str) -> list[str]:
    """A table of rows with each of two values in turn, and one of NULLs."""
    columns = COLUMNS[engine]
    spelled = ", ".join(f"{name}_ {sql_type}" for name, (_, sql_type, _, _) in columns.items())
    values = [
        ", ".join("NULL" if number == 3 else value[2][number % 2] for value in columns.values())
        for number in range(ROWS)
    ]
    return [
        f"CREATE TABLE guessed (id INTEGER PRIMARY KEY, {spelled})",
        *(f"INSERT INTO guessed VALUES ({number}, {value})" for number, value in enumerate(values)),
    ]


def declared(engine: str) -> Table:
    """The table as SQLAlchemy knows it."""
    columns = [Column(f"{name}_", kind) for name, (kind, *_) in COLUMNS[engine].items()]
    return Table("guessed", MetaData(), Column("id", Integer, primary_key=True), *columns)


def operations(of: Any, columns: Mapping[str, Kind]) -> Mapping[str, Any]:
    """What each operator gives for its column."""
    return {
        f"{name} {sign}": of.c[f"{name}_"].op(sign)(literal_column(right))
        for name, (_, _, _, signs) in columns.items()
        for sign, right in signs.items()
    }


def mixed(known: Table) -> Mapping[str, Any]:
    """Values of several kinds, where SQLAlchemy goes by the first of them."""
    c = known.c
    actual = {
        "day or at": func.coalesce(case((c.id < 4, c.day_)), c.at_),
        "either": case((c.id < 4, c.at_), else_=c.day_),
    }
    if "bits_" in c:
        seconds = cast(c.at_, pg.TIMESTAMP(precision=0))
        actual |= {
            "bits or bits": func.coalesce(case((c.id < 4, c.bits_)), cast(c.whole_, pg.BIT(5))),
            "at or at": func.coalesce(case((c.id < 4, seconds)), c.at_),
            "span or span": func.coalesce(
                case((c.id < 4, cast(c.span_, pg.INTERVAL(precision=0)))), c.at_ - cast(c.day_, DateTime)
            ),
        }
    return actual


def shown_by(known: Table, columns: Mapping[str, Kind], way: str) -> Mapping[str, Any]:
    """The expressions that a test sorts by."""
    c = known.c
    if way == "alone":
        return {name: c[f"{name}_"] for name in columns} | {**operations(known, columns), **mixed(known)}
    if way == "chosen":
        return {
            name: case((c.id < 5, value), else_=null()) for name, value in operations(known, columns).items()
        }
    within = known.alias()
    return {
        name: select(value).where(within.c.id == c.id).scalar_subquery()
        for name, value in operations(within, columns).items()
    }


@pytest.fixture(params=list(COLUMNS))
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine | str]:
    """Each database, filled."""
    name = request.param
    if name == "duckdb":
        with duckdb.connect(str(tmp_path / "guessed.duckdb")) as connection:
            for statement in statements(name):
                connection.execute(statement)
        yield f"duckdb:///{tmp_path / 'guessed.duckdb'}"
        return
    made = create_async_engine(request.getfixturevalue(f"{name}_url"))
    async with made.begin() as connection:
        for statement in statements(name):
            await connection.exec_driver_sql(statement)
    yield made
    await made.dispose()


async def pages(result: Any, order: str) -> tuple[list[Any], list[Any] | None]:
    """The rows by offset, and by cursor to the end and back; None where rows have no cursors."""
    sort = [{"field": "v", "order": order}, {"field": "id", "order": "asc"}]
    whole = (await result.fetch(limit=100, sort=sort)).data
    page = await result.fetch(limit=3, sort=sort)
    rows = list(page.data)
    while page.next_cursor and len(rows) <= ROWS:
        page = await result.fetch(limit=3, sort=sort, cursor=page.next_cursor)
        rows += page.data
    if page.has_next and not page.next_cursor:
        return whole, None
    back = list(page.data)
    while page.previous_cursor and len(back) <= ROWS:
        page = await result.fetch(limit=3, sort=sort, cursor=page.previous_cursor)
        back = [*page.data, *back]
    return whole, rows if back == rows else [*rows, "back", *back]


@pytest.mark.long
@pytest.mark.parametrize("way", ["alone", "chosen", "of a subquery"])
async def test_rows_are_paged_by_what_an_operator_gives(engine: AsyncEngine | str, way: str) -> None:
    name = "duckdb" if isinstance(engine, str) else engine.dialect.name.replace("mysql", "mariadb")
    known, without = declared(name), set()
    async with served(engine, known.metadata, allow_text=True) as server:
        for title, value in shown_by(known, COLUMNS[name], way).items():
            result = await server.result(select(known.c.id, value.label("v")))
            for order in ("asc", "desc"):
                whole, rows = await pages(result, order)
                assert len(whole) == ROWS and rows in (None, whole), (title, order, rows)
                without |= {title} if rows is None else set()
    assert without <= WITHOUT_CURSORS[name]


def test_a_type_is_known_unless_it_is_guessed() -> None:
    c = declared("postgresql").c
    inside = c.net_.op("<<")("10.0.0.0/7")
    below = select(c.net_, inside.label("inside")).subquery().c
    both = below.net_.table.alias().c
    known = [
        c.net_,
        c.net_.label("n"),
        below.net_,
        both.net_,
        func.max(c.net_),
        func.array_agg(c.span_),
        func.age(c.at_, type_=Interval),
        func.sum(c.span_).over(order_by=inside),
        func.max(c.span_).filter(inside),
        c.at_ - c.at_,
        func.coalesce(c.net_, null()),
        case((inside, c.span_), else_=c.at_ - c.at_),
        select(c.net_).where(inside).scalar_subquery(),
        select(func.count()).scalar_subquery(),
        type_coerce(c.net_, Text),
        c.doc_.op("->")("a"),
        c.doc_["a"],
        c.range_ * c.range_,
        c.net_.op("<<", return_type=Boolean())("10.0.0.0/7"),
        c.net_.op("<<", is_comparison=True)("10.0.0.0/7"),
        literal_column("x", pg.INET),
    ]
    for expression in known:
        bare = expression.clause if isinstance(expression, TypeCoerce) else expression
        assert database_type(expression) is bare.type, str(expression)
    guessed = [
        inside,
        inside.label("n"),
        below.inside,
        both.inside,
        func.max(inside),
        func.max(inside).over(),
        func.array_agg(inside),
        func.coalesce(inside, null()),
        func.coalesce(c.day_, c.at_),
        func.coalesce(c.at_, c.zoned_),
        func.coalesce(c.net_, func.mine()),
        case((c.id < 4, c.day_), else_=c.at_),
        select(inside).scalar_subquery(),
        type_coerce(inside, pg.INET),
        UnaryExpression(c.net_, operator=custom_op("@"), type_=pg.INET()),
    ]
    for expression in guessed:
        assert database_type(expression) is None, str(expression)


def test_many_paths_to_a_column_are_one() -> None:
    c = declared("postgresql").c
    below = select(c.whole_.label("v"), c.span_.label("s")).cte()
    for _ in range(60):
        one, other = below.alias(), below.alias()
        below = select((one.c.v + other.c.v).label("v"), func.coalesce(one.c.s, other.c.s).label("s")).cte()
    assert database_type(below.c.s) is below.c.s.type
    assert isinstance(Forecast(STANDARD).of(below.c.v).type, Integer)
