"""DuckDB's own types, as their tables are reflected: right in every page and question, or refused in words."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    Column,
    DateTime,
    Integer,
    MetaData,
    Table,
    column,
    create_engine,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.types import NullType

from dualsql.errors import QueryExecutionError
from dualsql.formats.table import FORMATS
from dualsql.freeze import Registry
from dualsql_client import FetchError
from tests.columns.kinds.results import Served, served, values_of

KINDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "list": ("INTEGER[]", ("[1,NULL,3]", "[]", "[20]", "[1,NULL,3]")),
    "list_of_lists": ("VARCHAR[][]", ("[['a','b'],[]]", "[['it''s']]", "[NULL]", "[['a']]")),
    "list_of_dates": ("DATE[]", ("['infinity'::DATE]", "['9999-12-31'::DATE]", "['2024-02-29'::DATE]", "[]")),
    "array": ("DOUBLE[2]", ("[1.5,2.5]", "[0,0]", "[1,3]", "[3,4]")),
    "struct": (
        "STRUCT(d DATE, n DECIMAL(10,2)[])",
        (
            "{'d':DATE 'infinity','n':[1.50]}",
            "{'d':NULL,'n':NULL}",
            "{'d':DATE '9999-12-31','n':[]}",
            "{'d':NULL,'n':[2]}",
        ),
    ),
    "map": ("MAP(INTEGER, VARCHAR)", ("MAP{1:'x'}", "MAP{}", "MAP{2:'y',1:'z'}", "MAP{10:'z'}")),
    "either": (
        "UNION(n INTEGER, s VARCHAR)",
        ("union_value(n := 5)", "union_value(s := 'x')", "union_value(n := 40)", "union_value(s := '5')"),
    ),
    "huge": ("HUGEINT", (str(2**127 - 1), str(-(2**127)), "2", "10")),
    "unsigned": ("UHUGEINT", (str(2**128 - 1), "0", "10", "2")),
    "large": ("UBIGINT", (str(2**64 - 1), "0", "2", "10")),
    "bits": ("BIT", ("'101'", "'0001'", "'1'", "'11111111111'")),
    "letter": ("ENUM('z','a','m')", ("'z'", "'a'", "'m'", "'a'")),
    "in_seconds": (
        "TIMESTAMP_S",
        ("'2024-02-29 12:30:00'", "'2024-02-29 12:30:01'", "'1970-01-01'", "'2261-01-01'"),
    ),
    "at": (
        "TIMESTAMP",
        ("'9999-12-31 23:59:59.999999'", "'infinity'", "'0044-03-15 (BC) 00:00:00'", "'2024-02-29'"),
    ),
    "day": ("DATE", ("'9999-12-31'", "'infinity'", "'0044-03-15 (BC)'", "'20000-01-01'")),
    "clock": ("TIME", ("'12:30:00.5'", "'00:00:00'", "'24:00:00'", "'23:59:59.999999'")),
    "span": (
        "INTERVAL",
        ("INTERVAL '1 month'", "INTERVAL '30 days 1 hour'", "INTERVAL '1 year'", "INTERVAL '-1 hour'"),
    ),
    "code": ("UUID", ("gen_random_uuid()", "gen_random_uuid()", "gen_random_uuid()", "gen_random_uuid()")),
    "bytes": ("BLOB", ("'\\x00\\xFF'::BLOB", "''::BLOB", "'a'::BLOB", "'ab'::BLOB")),
    "any_length": ("BIGNUM", (f"'{10**60}'::BIGNUM", "0::BIGNUM", "2::BIGNUM", "10::BIGNUM")),
}
WITHOUT_CURSORS = {"struct", "map", "list_of_dates"}
"""The driver gives dicts, which DuckDB takes for other types, and one date for infinity and the last day."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a table of each type: four values, and NULL."""
    file = tmp_path_factory.mktemp("kinds") / "kinds.duckdb"
    with duckdb.connect(str(file)) as connection:
        for name, (kind, values) in KINDS.items():
            connection.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, v {kind})')
            for number, value in enumerate((*values, "NULL")):
                connection.execute(f'INSERT INTO "{name}" VALUES ({number}, {value})')
        connection.execute("CREATE TABLE fine (id INTEGER PRIMARY KEY, v TIMESTAMP_NS)")
        connection.execute("INSERT INTO fine VALUES (1, '2024-02-29 12:30:00.123456789'), (2, NULL)")
    return file


@pytest.fixture
def tables(path: Path) -> MetaData:
    """The tables as SQLAlchemy finds them."""
    engine = create_engine(f"duckdb:///{path}", connect_args={"config": {"access_mode": "READ_ONLY"}})
    metadata = MetaData()
    metadata.reflect(engine)
    engine.dispose()
    return metadata


async def ids_by_cursor(result: Any, order: str) -> list[int] | None:
    """By pages of two in the order of the values; None where a page has no cursor."""
    sort = [{"field": "v", "order": order}]
    page = await result.fetch(limit=2, sort=sort)
    values = [row["id"] for row in page.data]
    while page.has_next and len(values) < 9:
        if not page.next_cursor:
            return None
        page = await result.fetch(limit=2, sort=sort, cursor=page.next_cursor)
        values += [row["id"] for row in page.data]
    return values


async def finds(server: Served, result: Any, value: Any) -> list[int] | str:
    """The rows of a value, or why it is not to be asked for."""
    try:
        page = await result.query(filters={"column": "v", "op": "eq", "value": value}, columns=["id"])
    except FetchError as error:
        if error.status not in (400, 422):
            raise
        return str(error)
    return [row["id"] for row in page.data]


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
async def test_a_type_is_sorted_found_and_grouped_as_it_is_shown(
    path: Path, tables: MetaData, name: str
) -> None:
    table = tables.tables[name]
    with duckdb.connect(str(path), read_only=True) as connection:
        in_order = {
            order: [
                row[0]
                for row in connection.execute(
                    f'SELECT id FROM "{name}" ORDER BY v {order} NULLS LAST, id'
                ).fetchall()
            ]
            for order in ("asc", "desc")
        }
    async with served(f"duckdb:///{path}", tables) as server:
        result = await server.result(select(table).order_by(table.c.id))
        shown = [row["v"] for row in (await result.fetch()).data]
        assert shown[4] is None and None not in shown[:4]
        for order, wanted in in_order.items():
            sort: Any = {"field": "v", "order": order}
            whole = (await result.fetch(sort=sort)).data
            assert [row["id"] for row in whole] == wanted
            by_cursor = await ids_by_cursor(result, order)
            assert by_cursor == wanted or (by_cursor is None and name in WITHOUT_CURSORS), order
        for format_name in FORMATS:
            values = values_of(await server.rows(result, format_name), format_name, "v")
            assert values == "VALUE_NOT_REPRESENTABLE" or len(values) == 5, format_name
            assert (
                values_of(await server.rows(result, format_name, text_columns=["v"]), format_name, "v")[4]
                is None
            )
        for number, value in enumerate(shown[:4]):
            ids = await finds(server, result, value)
            assert isinstance(ids, str) or set(ids) == {n for n in range(4) if shown[n] == shown[number]}, (
                value
            )
        assert (await result.profile())["columns"][1]["nulls"] == 1


@pytest.mark.long
async def test_a_type_whose_digits_the_driver_cuts_is_refused(path: Path, tables: MetaData) -> None:
    """Also where SQLAlchemy does not know the type, and within lists and structs."""
    fine = tables.tables["fine"]
    untyped = MetaData()
    same = Table("fine", untyped, Column("id", Integer, primary_key=True), Column("v", NullType))
    registry = Registry(untyped, allow_text=True, functions=["list_value", "struct_pack"])
    statements: Sequence[Any] = (
        select(same),
        select(func.max(same.c.v)),
        select(func.lag(same.c.v).over(order_by=same.c.id)),
        select(func.list_value(same.c.v)),
        select(func.struct_pack(same.c.v)),
        select(literal_column("fine.v").label("v")).select_from(same),
        text("SELECT id, v FROM fine").columns(column("id", Integer), column("v")),
        select(literal_column("TIME_NS '12:00:00.123456789'").label("v")),
    )
    async with served(f"duckdb:///{path}", tables) as server:
        with pytest.raises(QueryExecutionError, match="TIMESTAMP_NS"):
            await server.result(select(fine))
    async with served(f"duckdb:///{path}", registry) as server:
        for statement in statements:
            with pytest.raises(QueryExecutionError, match="_NS to microseconds"):
                await server.result(statement)
        named: Any = literal_column("'TIMESTAMP_NS'::ENUM('TIMESTAMP_NS')").label("v")
        assert (await (await server.result(select(named))).fetch()).data == [{"v": "TIMESTAMP_NS"}]


@pytest.mark.parametrize("type_", [NullType, DateTime])
async def test_pages_in_the_order_of_such_a_type_lose_no_row(tmp_path: Path, type_: type[Any]) -> None:
    path = tmp_path / "fine.duckdb"
    metadata = MetaData()
    fine = Table("fine", metadata, Column("id", Integer, primary_key=True), Column("v", type_))
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE fine (id INTEGER PRIMARY KEY, v TIMESTAMP_NS)")
        digits = ("123456789", "123456001", "123456", "123456002")
        rows = [f"({n}, '2024-01-01 12:00:00.{part}')" for n, part in enumerate(digits, 10)]
        connection.execute(f"INSERT INTO fine VALUES {', '.join(rows)}")
        wanted = connection.execute("SELECT id FROM fine ORDER BY v, id").fetchall()
    async with served(f"duckdb:///{path}", metadata) as server:
        result = await server.result(select(fine.c.id).order_by(fine.c.v))
        page = await result.fetch(limit=1)
        actual = list(page.data)
        while page.has_next and len(actual) < 9:
            beside: Any = {"cursor": page.next_cursor} if page.next_cursor else {"offset": len(actual)}
            page = await result.fetch(limit=1, **beside)
            actual += page.data
        assert [(row["id"],) for row in actual] == wanted


_COMPARED: Mapping[str, Any] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "in": lambda value, listed: value in listed, "between": lambda value, ends: ends[0] <= value <= ends[1],
}  # fmt: skip


async def test_a_filter_compares_whole_numbers_of_128_bits_exactly(tmp_path: Path) -> None:
    """Beside a parameter of 64 bits, or a HUGEINT, DuckDB compares a UHUGEINT as that type, or as a double."""
    rows = [
        (2**100, 2**128 - 1, 2**64 - 1), (2**100 + 1, 2**100 + 1, 7), (-(2**127), 0, 0), (5, 5, 5),
        (2**63, 2**63, 2**63), (2**127 - 1, 2**127, 2**63 - 1),
    ]  # fmt: skip
    path = tmp_path / "wide.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE wide (id INTEGER PRIMARY KEY, huge HUGEINT, unsigned UHUGEINT, large UBIGINT)"
        )
        for number, row in enumerate(rows):
            connection.execute(f"INSERT INTO wide VALUES ({number}, {', '.join(map(str, row))})")
    engine = create_engine(f"duckdb:///{path}", connect_args={"config": {"access_mode": "READ_ONLY"}})
    metadata = MetaData()
    metadata.reflect(engine)
    engine.dispose()
    wide = metadata.tables["wide"]
    values = [-(2**127), -1, 0, 5, 2**63, 2**100, 2**100 + 1, 2**127 - 1]
    async with served(f"duckdb:///{path}", metadata) as server:
        result = await server.result(select(wide))
        for place, name in enumerate(("huge", "unsigned", "large")):
            fitting = [value for value in values if value >= 0 or name != "unsigned"]
            operands: list[tuple[str, Any]] = [
                (op, value) for op in ("eq", "ne", "lt", "le", "gt", "ge") for value in fitting
            ]
            operands += [("in", fitting), ("between", [5, 2**100])]
            if name == "unsigned":
                operands += [("eq", 2**128 - 1), ("ge", 2**127)]
            for op, value in operands:
                expected = [n for n, row in enumerate(rows) if _COMPARED[op](row[place], value)]
                for written in (value, list(map(str, value)) if isinstance(value, list) else str(value)):
                    filters: Any = {"column": name, "op": op, "value": written}
                    found = (await result.query(filters=filters, columns=["id"])).data
                    assert sorted(row["id"] for row in found) == expected, (name, op, value)
            for odd in (
                str(2**128),
                str(-(2**128)),
                "1e30",
                0.5,
                *(["-1"] if name == "unsigned" else []),
            ):
                filters = {"column": name, "op": "eq", "value": odd}
                with pytest.raises(FetchError, match="beyond 64 bits, its digits in a text") as refused:
                    await result.query(filters=filters)
                assert refused.value.code == "BAD_PARAMETER"
        filters = {"column": "unsigned", "op": "gt", "value": str(2**127)}
        refined = await result.refine(filters=filters)
        assert [row["id"] for row in (await refined.fetch()).data] == [0]
