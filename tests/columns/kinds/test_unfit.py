"""One cell that cannot be read refuses neither its row nor the others: text in JSON and CSV, an end in Arrow."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
    REAL,
    Column,
    Date,
    DateTime,
    Enum,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    Select,
    Table,
    Text,
    Time,
    Uuid,
    cast,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
    types,
)
from sqlalchemy.dialects import mysql, postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine

from tests.columns.kinds.results import Served, served, table_of as arrow_table_of, unfit_of, values_of
from tests.engines import opened


class Case(NamedTuple):
    """A column, a value that fits it and one that does not: in SQL, and as JSON shows them."""

    type: Any
    sql_type: str
    fits: str
    shown: Any
    odd: str
    text: str


SQLITE = {
    "text_in_integer": Case(Integer, "INTEGER", "1", 1, "'abc'", "abc"),
    "real_in_integer": Case(Integer, "INTEGER", "1", 1, "2.5", "2.5"),
    "bytes_in_integer": Case(Integer, "INTEGER", "1", 1, "x'00'", "AA=="),
    "text_in_real": Case(Float, "REAL", "1.5", 1.5, "'x'", "x"),
    "text_in_decimal": Case(Numeric(10, 2), "NUMERIC(10,2)", "1.5", "1.50", "'x'", "x"),
    "bytes_in_text": Case(Text, "TEXT", "'a'", "a", "x'ff00'", "/wA="),
    "no_utf8": Case(Text, "TEXT", "'a'", "a", "CAST(x'ff41' AS TEXT)", "\\xffA"),
    "text_in_bytes": Case(LargeBinary, "BLOB", "x'78'", "eA==", "'abc'", "abc"),
    "no_date": Case(Date, "DATE", "'2024-01-01'", "2024-01-01", "'2024-13-45'", "2024-13-45"),
    "number_as_date": Case(Date, "DATE", "'2024-01-01'", "2024-01-01", "20240101", "20240101"),
    "no_instant": Case(
        DateTime, "DATETIME", "'2024-01-01 10:00:00'", "2024-01-01T10:00:00", "1700000000", "1700000000"
    ),
    "no_time": Case(Time, "TIME", "'10:00:00'", "10:00:00", "'25:00'", "25:00"),
    "no_json": Case(JSON, "JSON", "'{\"a\": 1}'", {"a": 1}, "'{bad'", "{bad"),
    "no_uuid": Case(
        Uuid,
        "CHAR(32)",
        "'a0eebc999c0b4ef8bb6d6bb9bd380a11'",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "'x'",
        "x",
    ),
    "no_member": Case(Enum("a", "b", name="e"), "VARCHAR", "'a'", "a", "'zzz'", "zzz"),
}
POSTGRESQL = {
    "before_christ": Case(Date, "date", "'2024-02-29'", "2024-02-29", "'0044-03-15 BC'", "0044-03-15 BC"),
    "far": Case(Date, "date", "'9999-12-31'", "9999-12-31", "'20000-01-01'", "20000-01-01"),
    "moment_before_christ": Case(
        DateTime,
        "timestamp",
        "'2024-02-29 12:00'",
        "2024-02-29T12:00:00",
        "'0044-03-15 12:00 BC'",
        "0044-03-15T12:00:00 BC",
    ),
    "instant_before_christ": Case(
        DateTime(timezone=True),
        "timestamptz",
        "'2024-02-29 12:00+02'",
        "2024-02-29T10:00:00+00:00",
        "'0044-03-15 12:00+00 BC'",
        "0044-03-15T12:00:00+00:00 BC",
    ),
    "far_moment": Case(
        DateTime, "timestamp", "'9999-12-31'", "9999-12-31T00:00:00", "'20000-01-01'", "20000-01-01T00:00:00"
    ),
    "far_instant": Case(
        DateTime(timezone=True),
        "timestamptz",
        "'9999-12-31 23:59:59.999999+00'",
        "9999-12-31T23:59:59.999999+00:00",
        "'20000-01-01 00:00+00'",
        "20000-01-01T00:00:00+00:00",
    ),
    "untyped": Case(types.NullType, "date", "'2024-02-29'", "2024-02-29", "'0044-03-15 BC'", "0044-03-15 BC"),
    "midnight": Case(Time, "time", "'23:59:59.999999'", "23:59:59.999999", "'24:00'", "24:00:00"),
    "zoned_midnight": Case(
        Time(timezone=True), "timetz", "'12:00+02'", "12:00:00+02:00", "'24:00+02'", "24:00:00+02"
    ),
    "months": Case(
        Interval,
        "interval",
        "'1 day 02:00'",
        "P1DT2H0M0S",
        "'1 year 2 mons 3 days 00:00:04.5'",
        "P1Y2M3DT0H0M4.5S",
    ),
    "years": Case(
        Interval, "interval", "'100 hours'", "P4DT4H0M0S", "'-178000000 years'", "P-178000000Y0M0DT0H0M0S"
    ),
    "negative": Case(
        Interval, "interval", "'-1 day'", "-P1DT0H0M0S", "'-1 mon 3 days -00:05:00.5'", "P0Y-1M3DT0H-5M-0.5S"
    ),
    "moments": Case(
        ARRAY(DateTime),
        "timestamp[]",
        "'{2024-02-29 12:00}'",
        ["2024-02-29T12:00:00"],
        "'{{2024-02-29 12:00,NULL},{0044-03-15 12:00:00.25 BC,2024-02-29 12:00}}'",
        '[["2024-02-29T12:00:00",null],["0044-03-15T12:00:00.25 BC","2024-02-29T12:00:00"]]',
    ),
    "instants": Case(
        ARRAY(DateTime(timezone=True)),
        "timestamptz[]",
        "'{NULL}'",
        [None],
        "'{20000-01-01 00:00+00}'",
        '["20000-01-01T00:00:00+00:00"]',
    ),
    "times": Case(ARRAY(Time), "time[]", "'{12:00}'", ["12:00:00"], "'{24:00}'", '["24:00:00"]'),
    "lengths": Case(ARRAY(Interval), "interval[]", "'{NULL}'", [None], "'{1 mon}'", '["1 mon"]'),
    "days": Case(
        ARRAY(Date),
        "date[]",
        "'{2024-02-29,NULL}'",
        ["2024-02-29", None],
        "'{0044-03-15 BC}'",
        '["0044-03-15 BC"]',
    ),
}
CASES = {"sqlite": SQLITE, "postgresql": POSTGRESQL}
ALL = [(engine, name) for engine, cases in CASES.items() for name in cases]


def table_of(cases: dict[str, Case]) -> Table:
    return Table(
        "odd",
        MetaData(),
        Column("id", Integer, primary_key=True),
        *(Column(n, c.type) for n, c in cases.items()),
    )


async def fill(url: str, cases: dict[str, Case]) -> None:
    """Rows 1 and 3 hold what fits, row 2 what does not, row 4 NULLs."""
    columns = ", ".join(f"{name} {case.sql_type}" for name, case in cases.items())
    fits, odd = (
        ", ".join(case.fits for case in cases.values()),
        ", ".join(case.odd for case in cases.values()),
    )
    async with opened(url) as engine, engine.begin() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        statements = [
            f"CREATE TABLE odd (id INTEGER PRIMARY KEY, {columns})",
            f"INSERT INTO odd VALUES (1, {fits}), (2, {odd}), (3, {fits})",
            "INSERT INTO odd (id) VALUES (4)",
        ]
        for statement in statements:
            await driver.execute(statement)
        await connection.commit()


@pytest.fixture(scope="module")
async def servers(
    postgresql_server: Any, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Any]]:
    sqlite = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('odd')}/odd.sqlite"
    with postgresql_server.database() as postgresql:
        urls = {"sqlite": sqlite, "postgresql": postgresql}
        for engine, url in urls.items():
            await fill(url, CASES[engine])
        yield urls


async def require_odd(server: Served, statement: Select[Any], name: str, case: Case) -> None:
    result = await server.result(statement)
    expected = [case.shown, case.text, case.shown, None]
    lines = await server.rows(result, "ndjson")
    assert values_of(lines, "ndjson", name) == expected
    assert unfit_of(lines) == [[], [name], [], []]
    assert values_of(await server.rows(result, "json"), "json", name) == expected
    page = (await result.fetch()).data
    assert [row[name] for row in page] == expected
    assert [row.get("$unfit", []) for row in page] == [[], [name], [], []]
    csv = values_of(await server.rows(result, "csv"), "csv", name)
    assert (csv[1], csv[3]) == (case.text, None)
    for format_name in ("arrow", "parquet"):
        assert (
            values_of(await server.rows(result, format_name), format_name, name) == "VALUE_NOT_REPRESENTABLE"
        )
        texts = values_of(await server.rows(result, format_name, text_columns=[name]), format_name, name)
        assert texts[1] == case.text and texts[3] is None
    typed = await result.fetch_all(typed=True)
    assert typed[1][name] == case.text and type(typed[0][name]) is type(typed[2][name])


@pytest.mark.quick(1)
@pytest.mark.parametrize(("engine", "name"), ALL)
async def test_an_odd_cell(servers: dict[str, Any], engine: str, name: str) -> None:
    odd = table_of(CASES[engine])
    async with served(servers[engine], odd.metadata) as server:
        await require_odd(server, select(odd.c.id, odd.c[name]).order_by(odd.c.id), name, CASES[engine][name])


MARIADB = {
    "a_day": Case(Time, "TIME", "'23:59:59'", "23:59:59", "'24:00:00'", "24:00:00"),
    "longest": Case(Time, "TIME(6)", "'00:00:00'", "00:00:00", "'838:59:59.5'", "838:59:59.500000"),
    "shortest": Case(mysql.TIME(fsp=6), "TIME(6)", "'12:30'", "12:30:00", "'-838:59:59'", "-838:59:59"),
    "no_day": Case(Date, "DATE", "'2024-01-02'", "2024-01-02", "'0000-00-00'", "0000-00-00"),
    "no_month": Case(Date, "DATE", "'2024-01-02'", "2024-01-02", "'2024-00-10'", "2024-00-10"),
    "no_instant": Case(
        DateTime,
        "DATETIME",
        "'2024-01-02 03:04'",
        "2024-01-02T03:04:00",
        "'0000-00-00'",
        "0000-00-00 00:00:00",
    ),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("driver", ["asyncmy", "pymysql"])
async def test_times_beyond_a_day_and_days_that_are_none(mariadb_url: str, driver: str) -> None:
    url, odd = make_url(mariadb_url).set(drivername=f"mysql+{driver}"), table_of(MARIADB)
    columns = ", ".join(f"{name} {case.sql_type}" for name, case in MARIADB.items())
    async with opened(mariadb_url) as filled, filled.begin() as connection:
        await connection.exec_driver_sql(f"CREATE TABLE odd (id INTEGER PRIMARY KEY, {columns})")
        for key, field in ((1, "fits"), (2, "odd"), (3, "fits")):
            values = ", ".join(getattr(case, field) for case in MARIADB.values())
            await connection.exec_driver_sql(f"INSERT INTO odd VALUES ({key}, {values})")
        await connection.exec_driver_sql("INSERT INTO odd (id) VALUES (4)")
    engine: Any = create_async_engine(url) if driver == "asyncmy" else create_engine(url)
    async with served(engine, odd.metadata) as server:
        for name, case in MARIADB.items():
            await require_odd(server, select(odd.c.id, odd.c[name]).order_by(odd.c.id), name, case)
            by_time = await server.result(select(odd.c[name]).order_by(odd.c[name]))
            shown = [row[name] for row in await by_time.fetch_all() if row[name] is not None]
            assert sorted(shown) == sorted([case.shown, case.shown, case.text])
    await (engine.dispose() if driver == "asyncmy" else to_thread(engine.dispose))


async def test_several_in_a_row_and_in_tools(servers: dict[str, Any]) -> None:
    for engine, cases in CASES.items():
        odd = table_of(cases)
        async with served(servers[engine], odd.metadata) as server:
            response = await server.dual.create_response(
                select(odd).order_by(odd.c.id), name="odd", count="exact"
            )
            assert set(response.sample[1]["$unfit"]) == set(cases) and "$unfit" not in response.sample[0]
            assert response.total_count == 4
            result = response.to_mcp_tool_result()
            assert "abc" in result["content"][0]["text"] or "0044-03-15 BC" in result["content"][0]["text"]


class TestOtherReaders:
    """By SQLAlchemy's rows, on synchronous engines and where somebody listens."""

    @pytest.mark.quick(3)
    @pytest.mark.parametrize("name", [*SQLITE])
    async def test_sqlite3_in_a_thread(self, servers: dict[str, Any], name: str) -> None:
        odd, engine = table_of(SQLITE), create_engine(make_url(servers["sqlite"]).set(drivername="sqlite"))
        try:
            async with served(engine, odd.metadata) as server:
                await require_odd(
                    server, select(odd.c.id, odd.c[name]).order_by(odd.c.id), name, SQLITE[name]
                )
            with engine.connect() as connection:  # an application's own connection is as it was
                driver: Any = connection.connection.driver_connection
                assert driver.text_factory is str
        finally:
            engine.dispose()

    @pytest.mark.long
    @pytest.mark.parametrize("driver", ["psycopg", "psycopg of a URL", "psycopg in a thread", "psycopg2"])
    async def test_every_driver_of_postgresql(self, servers: dict[str, Any], driver: str) -> None:
        """Those that any engine of the application's may have: the same as by asyncpg, cell by cell."""
        odd = table_of(POSTGRESQL)
        url = servers["postgresql"].replace("asyncpg", driver.partition(" ")[0])
        engine: Any = create_async_engine(url) if driver == "psycopg" else create_engine(url)
        async with served(url if driver.endswith("URL") else engine, odd.metadata) as server:
            for name, case in POSTGRESQL.items():
                await require_odd(server, select(odd.c.id, odd.c[name]).order_by(odd.c.id), name, case)
        await (engine.dispose() if driver == "psycopg" else to_thread(engine.dispose))

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
    async def test_a_decorator_reads_none(self, servers: dict[str, Any], driver: str) -> None:
        """The application's own code is for values of its kind."""

        class Yesterday(types.TypeDecorator[Any]):
            impl, cache_ok = Date, True

            def process_bind_param(self, value: Any, _: Any) -> Any:
                return value and value + timedelta(1)

            def process_result_value(self, value: Any, _: Any) -> Any:
                return value and value - timedelta(1)

        table = Table(
            "odd", MetaData(), Column("id", Integer, primary_key=True), Column("before_christ", Yesterday)
        )
        url = servers["postgresql"].replace("asyncpg", driver)
        engine: Any = create_engine(url) if driver == "psycopg2" else create_async_engine(url)
        async with served(engine, table.metadata) as server:
            result = await server.result(select(table).order_by(table.c.id))
            rows = (await result.fetch()).data
            assert [row["before_christ"] for row in rows] == [
                "2024-02-28",
                "0044-03-15 BC",
                "2024-02-28",
                None,
            ]
            assert rows[1]["$unfit"] == ["before_christ"]
        await (engine.dispose() if driver != "psycopg2" else to_thread(engine.dispose))

    @pytest.mark.quick(1)
    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
    async def test_a_zone_of_the_session_is_not_seen(self, servers: dict[str, Any], driver: str) -> None:
        """Instants are in UTC, whatever the session's zone; some are within Python's years there alone."""
        odd, url = table_of(POSTGRESQL), servers["postgresql"].replace("asyncpg", driver)
        zone: Any = {"options": "-c timezone=Asia/Tokyo"}
        zone = {"server_settings": {"timezone": "Asia/Tokyo"}} if driver == "asyncpg" else zone
        make: Any = create_engine if driver == "psycopg2" else create_async_engine
        engine = make(url, connect_args=zone)
        async with served(engine, odd.metadata) as server:
            for name in ("far_instant", "instant_before_christ"):
                statement = select(odd.c.id, odd.c[name]).order_by(odd.c.id)
                await require_odd(server, statement, name, POSTGRESQL[name])
        await (engine.dispose() if driver != "psycopg2" else to_thread(engine.dispose))

    @pytest.mark.parametrize("name", ["no_utf8", "no_date", "text_in_bytes"])
    async def test_an_engine_that_is_listened_to(self, servers: dict[str, Any], name: str) -> None:
        odd, engine = table_of(SQLITE), create_async_engine(servers["sqlite"])
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *_: None)
        async with served(engine, odd.metadata) as server:
            await require_odd(server, select(odd.c.id, odd.c[name]).order_by(odd.c.id), name, SQLITE[name])
        await engine.dispose()


async def test_deep_in_a_stream(sqlite_url: str) -> None:
    odd = Table("odd", MetaData(), Column("id", Integer, primary_key=True), Column("word", Text))
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(odd.metadata.create_all)
        await connection.execute(
            text(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO odd"
                " SELECT i, CASE WHEN i % 1777 = 0 THEN CAST(x'ff41' AS TEXT) ELSE 'word ' || i END FROM n"
            )
        )
    async with served(sqlite_url, odd.metadata) as server:
        result = await server.result(select(odd).order_by(odd.c.id))
        rows = await result.fetch_all()
        assert [row["id"] for row in rows] == list(range(1, 5001))
        assert [row["id"] for row in rows if "$unfit" in row] == [1777, 3554]
        assert all(row["word"] == f"word {row['id']}" for row in rows if "$unfit" not in row)


async def test_months_and_small_reals_are_found_as_shown(postgresql_url: str) -> None:
    shown = Table(
        "shown",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("length", Interval),
        Column("x", REAL),
    )
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(shown.metadata.create_all)
        await connection.execute(
            text(
                "INSERT INTO shown VALUES (1, '1 mon', 0.1), (2, '1 year 2 mons 3 days', 3.4028235e38),"
                " (3, '-5 years', 1e-45), (4, '1 day', 16777216), (5, '2 mons -1 day 00:00:01', 1.17549435e-38)"
            )
        )
    async with served(postgresql_url, shown.metadata) as server:
        result = await server.result(select(shown).order_by(shown.c.id))
        rows = await result.fetch_all()
        assert [row["x"] for row in rows] == [0.1, 3.4028235e38, 1e-45, 16777216.0, 1.1754944e-38]
        for column in ("length", "x"):
            for row in rows:
                parameters: Any = {"column": column, "op": "eq", "value": row[column]}
                actual = (await result.query(filters=parameters)).data
                assert [one["id"] for one in actual] == [row["id"]], row
        listed = select(
            func.array_agg(shown.c.x).label("listed"),
            cast([[0.1, None]], ARRAY(REAL, dimensions=2)).label("nested"),
        )
        assert await (await server.result(listed.where(shown.c.id <= 2))).fetch_all() == [
            {"listed": [0.1, 3.4028235e38], "nested": [[0.1, None]]}
        ]
        refused = await server.http.post(
            f"/resources/{result.resource_uri.rpartition('/')[2]}/query",
            json={"filters": [{"column": "length", "op": "eq", "value": "P999999999Y"}]},
        )
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_PARAMETER")


@pytest.mark.quick(1)
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_an_interval_is_in_arrow_if_it_has_64_bits_of_microseconds(
    postgresql_url: str, driver: str
) -> None:
    little, shortest = timedelta.resolution, timedelta(seconds=-(2**63 // 10**6))
    longest = little * (2**63 - 1)
    spans = Table("spans", MetaData(), Column("id", Integer, primary_key=True), Column("span", Interval))
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(spans.metadata.create_all)
        values = [longest, shortest, longest + little, shortest - little]
        await connection.execute(
            spans.insert(), [{"id": place, "span": value} for place, value in enumerate(values)]
        )
    engine = create_async_engine(make_url(postgresql_url).set(drivername=f"postgresql+{driver}"))
    async with served(engine, spans.metadata) as server:
        for format_name in ("arrow", "parquet"):
            fitting = await server.result(select(spans).where(spans.c.id < 2).order_by(spans.c.id))
            column = arrow_table_of(await server.rows(fitting, format_name), format_name).column("span")
            assert column.to_pylist() == [longest, shortest]
            for place in (2, 3):
                result = await server.result(select(spans.c.span).where(spans.c.id == place))
                problem = await server.rows(result, format_name)
                assert values_of(problem, format_name, "span") == "VALUE_NOT_REPRESENTABLE"
                assert "text_columns" in problem.json()["hint"]
                texts = await server.rows(result, format_name, text_columns=["span"])
                [page] = (await result.fetch()).data
                assert values_of(texts, format_name, "span") == [page["span"]]
    await engine.dispose()


async def test_a_log_position_is_shown_as_the_database_writes_it(postgresql_url: str) -> None:
    marks = Table("marks", MetaData(), Column("id", Integer, primary_key=True), Column("at", types.NullType))
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.execute(text("CREATE TABLE marks (id int PRIMARY KEY, at pg_lsn)"))
        await connection.execute(text("INSERT INTO marks VALUES (1, '16/B374D848'), (2, NULL)"))
    async with served(postgresql_url, marks.metadata) as server:
        result = await server.result(select(marks).order_by(marks.c.id))
        assert values_of(await server.rows(result, "ndjson"), "ndjson", "at") == ["16/B374D848", None]
        assert values_of(await server.rows(result, "csv"), "csv", "at") == ["16/B374D848", None]
        assert [row["at"] for row in (await result.fetch()).data] == ["16/B374D848", None]


RANGES: dict[str, tuple[Any, list[str], list[Any]]] = {
    "days": (
        pg.DATERANGE(),
        ["[2024-01-01,2024-02-01)", "[0044-03-15 BC,20000-01-01)", "[-infinity,infinity)", "empty", "(,)"],
        ["[2024-01-01,2024-02-01)", '["0044-03-15 BC",20000-01-01)', "[-infinity,infinity)", "empty", "(,)"],
    ),
    "moments": (
        pg.TSRANGE(),
        ["(0044-03-15 12:00:00.5 BC,2024-01-01 10:00]", "[2024-01-01,infinity]"],
        ['("0044-03-15 12:00:00.5 BC","2024-01-01 10:00:00"]', "[2024-01-01 00:00:00,infinity]"],
    ),
    "instants": (
        pg.TSTZRANGE(),
        ["(0044-03-15 12:00+00 BC,20000-01-01 10:00+00]", "(,2024-01-01 02:00+02)"],
        ['("0044-03-15 12:00:00+00 BC","20000-01-01 10:00:00+00"]', "(,2024-01-01 00:00:00+00:00)"],
    ),
    "several": (
        pg.DATEMULTIRANGE(),
        ["{[2024-01-01,2024-02-01)}", "{[0044-03-15 BC,2024-01-01),[20000-01-01,)}"],
        [["[2024-01-01,2024-02-01)"], '{["0044-03-15 BC",2024-01-01),[20000-01-01,)}'],
    ),
}
"""By name: the type, ranges as PostgreSQL takes them, and as JSON shows them."""


@pytest.mark.quick(1)
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
async def test_ranges_with_ends_beyond_python(postgresql_url: str, driver: str) -> None:
    """The same text with every driver and in every format, and nothing of Python in it."""
    metadata = MetaData()
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        for name, (type_, given, _) in RANGES.items():
            Table(name, metadata, Column("id", Integer, primary_key=True), Column("v", type_))
            await connection.exec_driver_sql(
                f"CREATE TABLE {name} (id int PRIMARY KEY, v {type_.__visit_name__})"
            )
            rows = ", ".join(f"({number}, '{one}')" for number, one in enumerate(given))
            await connection.exec_driver_sql(f"INSERT INTO {name} VALUES {rows}")
    url = make_url(postgresql_url).set(drivername=f"postgresql+{driver}")
    database: Any = create_engine(url) if driver == "psycopg2" else create_async_engine(url)
    async with served(database, metadata) as server:
        for name, (_, given, shown) in RANGES.items():
            expected = given if (driver, name) == ("psycopg2", "several") else shown
            table = metadata.tables[name]
            result = await server.result(select(table).order_by(table.c.id))
            values = [row["v"] for row in (await result.fetch()).data]
            assert [str(one).replace('"', "") for one in values] == [
                str(one).replace('"', "") for one in expected
            ]
            assert values_of(await server.rows(result, "ndjson"), "ndjson", "v") == values
            for format_name in ("csv", "arrow", "parquet"):
                texts = values_of(await server.rows(result, format_name), format_name, "v")
                assert [one.replace('"', "") for one in texts] == [
                    str(one).replace('"', "").replace("'", "") for one in values
                ]
    closing = database.dispose()
    if closing is not None:
        await closing


@pytest.mark.parametrize("clock", [[], [Column("clock", Time)]])
async def test_a_zone_with_seconds_is_exact(sqlite_url: str, clock: list[Column[Any]]) -> None:
    """Alone, beside plain instants and, in a process, in a long stream; Python writes a row with a time of day."""
    odd = Table("odd", MetaData(), Column("id", Integer, primary_key=True), Column("at", DateTime), *clock)
    spelled = {
        1: "2024-01-02 03:04:05",
        2: "2024-01-02 03:04:05.000006+02:00:30",
        3: "2024-01-02 03:04:05-00:19:32.000001",
        4: "2024-01-02T03:04:05+02:00",
        5: "20240102T030405-020030",
        1001: "2024-W01T00:00:00-00:00:30",  # with one sign less in its date than others have
        2001: "20240101T000000-00:00:30",
        2002: "2024-01-02 03:04:05-05:00:30",
    }
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(odd.metadata.create_all)
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        shown = " ".join(f"WHEN {place} THEN '{text_}'" for place, text_ in spelled.items())
        await connection.exec_driver_sql(
            f"INSERT INTO odd (id, at) {numbers} SELECT i, CASE i % 4000 {shown} ELSE '{spelled[1]}' END FROM n"
        )
    exact = {place: datetime.fromisoformat(text_).isoformat() for place, text_ in spelled.items()}
    async with served(sqlite_url, odd.metadata) as server:
        for few in (5, 20_000):
            result = await server.result(select(odd).where(odd.c.id <= few).order_by(odd.c.id))
            expected = [exact.get(place % 4000, exact[1]) for place in range(1, few + 1)]
            page = (await result.fetch(limit=100)).data
            assert [row["at"] for row in page] == expected[:100]
            for format_name in ("ndjson", "json", "csv"):
                for options in ({}, {"text_columns": ["at"]}):
                    answer = await server.rows(result, format_name, **options)
                    assert values_of(answer, format_name, "at") == expected, (format_name, few)
            answer = await server.rows(result, "arrow", text_columns=["at"])
            assert values_of(answer, "arrow", "at") == expected
