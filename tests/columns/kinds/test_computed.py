"""What an engine computes leaves in every format as the engine gives it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Integer,
    MetaData,
    Numeric,
    Table,
    Text,
    case,
    cast,
    func,
    insert,
    literal,
    select,
    text,
    type_coerce,
    types,
    union,
    union_all,
)
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.formats.table import FORMATS
from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.columns.kinds.results import served, table_of, values_of
from tests.engines import opened

metadata = MetaData()
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("n", Integer),
    Column("price", Numeric(10, 2)),
)
COMPUTED: dict[str, Any] = {
    "coalesce": func.coalesce(events.c.n, 0.5),
    "decimals": func.coalesce(events.c.n, Decimal("0.25")),
    "alternatives": case((events.c.n > 1, events.c.n), else_=2.75),
    "in_sums": func.coalesce(events.c.n, 0.5) + 1,
    "product": events.c.n * literal(1.5),
    "window": func.sum(case((events.c.n > 1, 1), else_=0.5)).over(order_by=events.c.id),
    "power": func.power(events.c.n, 2, type_=Integer),
    "squared": events.c.n**2,
    "whole": func.sum(events.c.n).over(order_by=events.c.id),
}


@pytest.fixture
async def filled(source_url: str) -> Any:
    async with opened(source_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.execute(
                insert(events),
                [{"id": 1, "n": 1}, {"id": 2, "n": None}, {"id": 3, "n": 3}],
            )
        yield engine


def number(value: Any) -> Any:
    return None if value is None else Decimal(str(value))


@pytest.mark.long
async def test_no_fraction_is_cut(filled: AsyncEngine) -> None:
    statement = select(events.c.id, *(value.label(name) for name, value in COMPUTED.items())).order_by(
        events.c.id
    )
    async with filled.connect() as connection:
        plain = (await connection.execute(statement)).mappings().all()
    async with served(filled, metadata) as server:
        result = await server.result(statement)
        page = (await result.fetch()).data
        for name in COMPUTED:
            expected = [number(row[name]) for row in plain]
            assert [number(row[name]) for row in page] == expected, name
            for format_name in FORMATS:
                actual = values_of(await server.rows(result, format_name), format_name, name)
                assert [number(value) for value in actual] == expected, (name, format_name)
        # Announced as what it is: what a page shows is found, and measured.
        for name, value in [("coalesce", 0.5), ("decimals", "0.25"), ("alternatives", 2.75)]:
            parameters: Any = {"column": name, "op": "eq", "value": value}
            actual = (await result.query(filters=parameters, aggregates=["count"])).data[0]["count"]
            assert actual == sum(number(row[name]) == number(value) for row in plain), name
            least: Any = {"function": "min", "column": name, "as": "least"}
            answered = (await result.query(aggregates=[least])).data[0]["least"]
            assert number(answered) == min(number(row[name]) for row in plain), name


_EIGHTH = cast(literal(Decimal("0.125")), Numeric(8, 3))


def _united(first: Any, second: Any, combine: Any = union_all) -> Any:
    return combine(
        select(first.label("v"), literal(1).label("part")),
        select(second.label("v"), literal(2).label("part")),
    )


UNITED: dict[str, Any] = {
    "whole and decimal": _united(events.c.n, _EIGHTH),
    "decimals of other digits": _united(events.c.price, _EIGHTH),
    "whole and double": _united(events.c.id, cast(events.c.n, Double) / 4),
    "whole and computed": _united(events.c.id, func.coalesce(events.c.n, 0.5), union),
    "whole and larger": _united(events.c.n, cast(events.c.id, BigInteger) + 2**60),
    "of a subquery": _united(select(func.coalesce(events.c.n, 0.5).label("x")).subquery().c.x, events.c.n),
    "within another": _united(events.c.id, _united(events.c.n, _EIGHTH).subquery().c.v),
}


@pytest.mark.long
async def test_a_column_of_a_set_operation_holds_the_values_of_all_its_parts(filled: AsyncEngine) -> None:
    async with filled.connect() as connection:
        plain = {
            name: sorted(map(str, map(number, (await connection.execute(as_returned(one))).scalars())))
            for name, one in UNITED.items()
        }
    async with served(filled, metadata) as server:
        for name, statement in UNITED.items():
            result = await server.result(statement)
            expected = sorted(map(Decimal, set(plain[name]) - {"None"}))
            for format_name in FORMATS:
                values = values_of(await server.rows(result, format_name), format_name, "v")
                assert sorted({number(value) for value in values} - {None}) == expected, (name, format_name)
            pages = await cursor_pages(result)
            assert [number(row["v"]) for row in pages if row["v"] is not None] == sorted(
                map(Decimal, (one for one in plain[name] if one != "None"))
            ), name
            parameters: Any = {"column": "v", "op": "eq", "value": pages[0]["v"]}
            count = (await result.query(filters=parameters, aggregates=["count"])).data[0]["count"]
            assert count == sum(number(row["v"]) == number(pages[0]["v"]) for row in pages), name


def as_returned(statement: Any) -> Any:
    """The values of the driver, which SQLAlchemy rounds to the digits of the first part on SQLite."""
    return select(type_coerce(statement.subquery().c.v, types.NullType()))


async def cursor_pages(result: Any) -> list[dict[str, Any]]:
    """All rows by pages of two, in the order of their value."""
    page = await result.fetch(limit=2, sort={"field": "v", "order": "asc"})
    rows = list(page.data)
    while page.next_cursor:
        page = await result.fetch(limit=2, sort={"field": "v", "order": "asc"}, cursor=page.next_cursor)
        rows += page.data
    return rows


class TestTextColumns:
    """A cell that its column's Arrow type cannot carry ends the stream, and the column is to be had as text."""

    @pytest.fixture
    async def odd(self, database_url: str) -> Any:
        async with opened(database_url) as engine:
            async with engine.begin() as connection:
                await connection.run_sync(metadata.create_all)
                odd = "2.5" if engine.dialect.name == "sqlite" else "CAST('NaN' AS numeric)"
                column = "n" if engine.dialect.name == "sqlite" else "price"
                await connection.execute(text(f"INSERT INTO events (id, {column}) VALUES (1, 1), (2, {odd})"))
            yield engine, column, "2.5" if engine.dialect.name == "sqlite" else "NaN"

    @pytest.mark.parametrize("written", ["arrow", "parquet"])
    async def test_a_stream_ends_with_what_to_do(self, odd: Any, written: str) -> None:
        engine, column, shown = odd
        async with served(engine, metadata) as server:
            result = await server.result(select(events).order_by(events.c.id))
            refused = await server.rows(result, written)
            assert refused.status_code == 422
            problem = refused.json()
            assert problem["code"] == "VALUE_NOT_REPRESENTABLE"
            assert problem["details"]["text_columns"] == [column]
            assert f'text_columns=["{column}"]' in problem["hint"] and shown not in str(problem)
            answer = await server.rows(result, written, text_columns=[column])
            table = table_of(answer, written)
            assert str(table.schema.field(column).type) == "string"
            assert number(table.column(column)[0].as_py()) == 1
            assert table.column(column).to_pylist()[1] == shown
            assert table.column("id").to_pylist() == [1, 2]

    async def test_in_json_and_in_the_client(self, odd: Any) -> None:
        engine, column, shown = odd
        async with served(engine, metadata) as server:
            result = await server.result(select(events).order_by(events.c.id))
            rows = await result.fetch_all(typed=True, text_columns=[column])
            assert rows[1][column] == shown and "$unfit" not in rows[1]
            table = await result.to_arrow(text_columns=[column])
            assert table.column(column).to_pylist()[1] == shown
            unknown = await server.rows(result, "arrow", text_columns=["nothing"])
            assert (unknown.status_code, unknown.json()["code"]) == (422, "UNKNOWN_COLUMN")

    @pytest.mark.quick(1, "sqlite")
    async def test_in_the_middle_of_a_stream(self, database_url: str) -> None:
        async with opened(database_url) as engine:
            is_sqlite = engine.dialect.name == "sqlite"
            column, odd = ("n", 2.5) if is_sqlite else ("price", Decimal("NaN"))
            async with engine.begin() as connection:
                await connection.run_sync(metadata.create_all)
                await connection.execute(insert(events), [{"id": i, column: 1} for i in range(60_000)])
                await connection.execute(
                    text(f"UPDATE events SET {column} = :odd WHERE id = 59999"), {"odd": odd}
                )
            async with served(engine, metadata) as server:
                result = await server.result(select(events).order_by(events.c.id))
                answer = await server.rows(result, "arrow")
                assert answer.status_code == 200
                assert b"VALUE_NOT_REPRESENTABLE" in answer.content[-4096:]


ranges = MetaData()
spans = Table(
    "spans",
    ranges,
    Column("id", Integer, primary_key=True),
    Column("numbers", pg.INT4RANGE),
    Column("days", pg.DATERANGE),
    Column("amounts", pg.NUMRANGE),
)


class TestPostgreSQL:
    """Functions whose values are of another type than what they take."""

    @pytest.fixture
    async def engine(self, postgresql_url: str) -> Any:
        async with opened(postgresql_url) as engine:
            async with engine.begin() as connection:
                await connection.run_sync(metadata.create_all)
                await connection.run_sync(ranges.create_all)
                await connection.execute(
                    insert(events),
                    [
                        {"id": n, "n": value, "price": price}
                        for n, value, price in ((1, 1, 1), (2, 2, 2), (3, 9, None))
                    ],
                )
                await connection.exec_driver_sql(
                    """INSERT INTO spans VALUES (1, '[2,10)', '[2024-02-29,2024-03-02)', '[1.50,2]'),
                        (2, '[10,)', '(,2023-01-01)', '(0.25,)'), (3, 'empty', NULL, NULL)"""
                )
            yield engine

    async def test_a_percentile_between_two_whole_numbers_is_a_fraction(self, engine: AsyncEngine) -> None:
        between = func.percentile_cont(0.25).within_group(events.c.n)
        one_of = func.percentile_disc(0.25).within_group(events.c.n)
        statement = select(
            between.label("between"), one_of.label("one"), func.coalesce(between, 0).label("either")
        )
        async with served(engine, metadata) as server:
            result = await server.result(statement)
            assert [column["encoding"] for column in result.columns] == ["float", "integer", "float"]
            for format_name in FORMATS:
                for name, wanted in (("between", "1.5"), ("one", "1"), ("either", "1.5")):
                    values = values_of(await server.rows(result, format_name), format_name, name)
                    assert [number(value) for value in values] == [Decimal(wanted)], (format_name, name)
            parameters: Any = {"column": "between", "op": "gt", "value": 1.25}
            assert (await result.query(filters=parameters, aggregates=["count"])).data == [{"count": 1}]

    async def test_bounds_of_ranges_are_no_texts(self, engine: AsyncEngine) -> None:
        bounds = {
            f"{end.__name__}_{column.name}": end(column)
            for column in (spans.c.numbers, spans.c.days, spans.c.amounts)
            for end in (lower, upper)
        }
        statement = select(spans.c.id, *(value.label(name) for name, value in bounds.items())).order_by(
            spans.c.id
        )
        wanted = {
            "lower_numbers": [2, 10, None],
            "upper_numbers": [10, None, None],
            "lower_days": ["2024-02-29", None, None],
            "upper_days": ["2024-03-02", "2023-01-01", None],
            "lower_amounts": ["1.50", "0.25", None],
            "upper_amounts": ["2", None, None],
        }
        async with served(engine, ranges) as server:
            result = await server.result(statement)
            page = (await result.fetch()).data
            for name, values in wanted.items():
                assert [row[name] for row in page] == values, name
                for format_name in FORMATS:
                    cells = values_of(await server.rows(result, format_name), format_name, name)
                    same = text_of if "days" in name else number
                    assert list(map(same, cells)) == list(map(same, values)), (name, format_name)
                in_order = [row[name] for row in await rows_by(result, name)]
                known = [value for value in values if value is not None]
                # 10 follows 2, which it does not among texts.
                key = (lambda value: value) if "days" in name else number
                assert in_order == [*sorted(known, key=key), *[None] * (3 - len(known))], name
                parameters: Any = {"column": name, "op": "eq", "value": known[0]}
                assert (await result.query(filters=parameters, aggregates=["count"])).data == [
                    {"count": 1}
                ], name

    @pytest.mark.long
    async def test_columns_of_no_known_type_are_sorted_by_the_database_everywhere(
        self, engine: AsyncEngine
    ) -> None:
        """In pages, queries, their groups and charts: 10 follows 2, which it does not among texts."""
        async with engine.begin() as connection:
            await connection.execute(insert(events), [{"id": 4, "n": 10}, {"id": 5, "n": None}])
        functions = {
            "rounded": func.round(events.c.n),
            "cut": func.nullif(events.c.n, 9),
            "rest": func.mod(events.c.n, 7),
            "days": func.make_date(2024, events.c.n, 1),
        }
        statement = select(events.c.id, *(value.label(name) for name, value in functions.items()))
        registry = Registry(metadata, functions=["array_remove", "make_date", "mod", "point", "xmlcomment"])
        async with served(engine, registry) as server:
            result = await server.result(statement)
            for name, value in functions.items():
                async with engine.connect() as connection:
                    by_value = select(events.c.id).order_by(value.nulls_last(), events.c.id)
                    wanted = list(await connection.scalars(by_value))
                    downwards = select(events.c.id).order_by(value.desc().nulls_last(), events.c.id.desc())
                    reverse = list(await connection.scalars(downwards))
                assert [row["id"] for row in await rows_by(result, name)] == wanted, name
                down: Any = {"field": name, "order": "desc"}
                assert [row["id"] for row in await result.fetch_all(sort=down)] == reverse, name
                listed = await result.query(order_by=[name])
                assert [row["id"] for row in listed.data] == wanted, name
                shown = [row[name] for row in listed.data]
                groups = await result.query(group_by=[name], aggregates=["count"], order_by=[name])
                in_order = list(dict.fromkeys(shown))
                assert [row[name] for row in groups.data] == in_order, name
                one: Any = {"column": name, "op": "eq", "value": shown[0]}
                smaller = await result.refine(name="one", filters=one, order_by=[name])
                same = [row for row in listed.data if row[name] == shown[0]]
                assert (await smaller.fetch()).data == same, name
                bars = await server.dual.charts.create(
                    await server.dual.create_response(statement, name="bars"),
                    {"mark": "bar", "x": name, "y": {"aggregate": "count"}, "sort": "x"},
                )
                kept = await server.dual.unchecked.get(bars.resource_id)
                assert kept is not None
                drawn = (await server.dual.charts.draw_unchecked(kept))["data"]["values"]
                # A day has a place on an axis of time, and NULL has none.
                bars_of = (
                    [as_midnight(day) for day in in_order if day is not None]
                    if name == "days"
                    else ["(NULL)" if value is None else f"{value:g}" for value in in_order]
                )
                assert [value["x"] for value in drawn] == bars_of, name

    async def test_values_that_have_no_order_are_sorted_by_their_text(self, engine: AsyncEngine) -> None:
        functions = {
            "document": func.to_json(events.c.n),
            "documents": func.array_agg(func.to_json(events.c.n)).over(partition_by=events.c.id),
            "place": func.point(events.c.n, 1),
            "tree": func.xmlcomment(cast(events.c.n, Text)),
        }
        statement = select(events.c.id, *(value.label(name) for name, value in functions.items()))
        registry = Registry(metadata, functions=["array_remove", "make_date", "mod", "point", "xmlcomment"])
        async with served(engine, registry) as server:
            result = await server.result(statement)
            for name in functions:
                assert [row["id"] for row in await rows_by(result, name)] == [1, 2, 3], name
                down: Any = {"field": name, "order": "desc"}
                assert [row["id"] for row in await result.fetch_all(sort=down)] == [3, 2, 1], name

    async def test_functions_that_return_several_rows_are_sorted_by_their_values(
        self, engine: AsyncEngine
    ) -> None:
        several = {
            "series": func.generate_series(9, 11),
            "members": func.unnest(literal([9, 10, 11], pg.ARRAY(Integer))),
        }
        for name, function in several.items():
            async with served(engine, Registry(metadata)) as server:
                result = await server.result(select(events.c.id, function.label(name)))
                values = [row[name] for row in await rows_by(result, name)]
                assert values == sorted([9, 10, 11] * (len(values) // 3)) != [], name


def as_midnight(day: Any) -> Any:
    """A date on the axis of a chart."""
    return None if day is None else f"{day}T00:00:00"


def lower(element: Any) -> Any:
    return func.lower(element)


def upper(element: Any) -> Any:
    return func.upper(element)


def text_of(value: Any) -> str | None:
    return None if value is None else str(value).removesuffix(" 00:00:00")


async def rows_by(result: Any, name: str) -> list[dict[str, Any]]:
    """All rows by pages of one, in the order of a column."""
    sort = {"field": name, "order": "asc"}
    page = await result.fetch(limit=1, sort=sort)
    rows = list(page.data)
    while page.has_next and len(rows) < 9:
        beside = {"cursor": page.next_cursor} if page.next_cursor else {"offset": len(rows)}
        page = await result.fetch(limit=1, sort=sort, **beside)
        rows += page.data
    return rows


moments = Table(
    "moments",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("d", types.Date()),
    Column("ts", types.DateTime()),
)


@pytest.mark.parametrize("written", ["select", "text"])
async def test_an_instant_less_a_date_is_an_interval(postgresql_url: str, written: str) -> None:
    async with opened(postgresql_url) as database, database.begin() as connection:
        await connection.run_sync(moments.metadata.create_all)
        await connection.execute(text("INSERT INTO moments VALUES (1, '2024-01-01', '2024-01-03 10:00')"))
    of_text = read_select(
        "SELECT min(ts) - d AS x, d - ts AS y FROM moments GROUP BY d, ts",
        Registry(moments.metadata),
        "postgresql",
    )
    first, second = moments.c.ts - moments.c.d, moments.c.d - moments.c.ts
    statement = of_text if written == "text" else select(first.label("x"), second.label("y"))
    async with served(postgresql_url, moments.metadata) as server:
        response = await server.dual.create_response(statement, name="spans")
    assert [column["encoding"] for column in response.columns] == ["interval", "interval"]
    assert response.sample == [{"x": "P2DT10H0M0S", "y": "-P2DT10H0M0S"}]
