"""Functions, names and casts of other databases are read as the database of the text has them, or refused."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import Column, Date, DateTime, Integer, MetaData, Table, create_engine, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite

from dualsql import DualResponseServer, Registry
from dualsql.errors import DualResponseError, InvalidSQLError, UnknownTableError
from dualsql.sql import read_select
from dualsql_client.wire_requests import Bucket
from tests.engines import text_of
from tests.servers import create_server
from tests.sql.test_reading import REGISTRY

SAME = [
    ("sqlite", "NVL(state, 'x')", "coalesce(state, 'x')"),
    ("sqlite", "to_char(opened, 'DD.MM.YYYY')", "strftime('%d.%m.%Y', substr(CAST(opened AS TIMESTAMP), 1, 19))"),
    ("postgresql", "ARRAY_CONTAINS(ARRAY[id], 3)", "(3 = ANY(ARRAY[id]))"),
    ("sqlite", "ISNULL(state)", "(state IS NULL)"),
    ("sqlite", "ISNULL(id, -1)", "coalesce(id, -1)"),
    ("sqlite", "NVL2(state, 1, 0)", "CASE WHEN state IS NOT NULL THEN 1 ELSE 0 END"),
    ("sqlite", "GETDATE()", "CURRENT_TIMESTAMP"),
    ("sqlite", "LEFT(name, 2)", "substr(name, 1, 2)"),
    ("sqlite", "YEAR(opened)", "extract(year FROM opened)"),
    ("postgresql", "DATEPART(quarter, opened)", "CAST(extract(quarter FROM opened) AS INTEGER)"),
    ("sqlite", "date_part('month', opened)", "extract(month FROM opened)"),
    ("sqlite", "CAST(opened AS DATE)", "date_trunc('day', opened)"),
    ("sqlite", "opened::date", "date_trunc('day', opened)"),
    ("sqlite", "COUNT_IF(id > 1)", "count(CASE WHEN id > 1 THEN 1 END)"),
    ("sqlite", "APPROX_COUNT_DISTINCT(state)", "count(DISTINCT state)"),
    ("sqlite", "GROUP_CONCAT(name SEPARATOR '; ')", "string_agg(name, '; ')"),
    ("sqlite", "DATE_TRUNC(opened, MONTH)", "date_trunc('month', opened)"),
    ("sqlite", "DATEADD(day, -3, opened)", "(opened + INTERVAL '-3' DAY)"),
    ("sqlite", "DATE_SUB(opened, INTERVAL 3 DAY)", "(opened - INTERVAL 3 DAY)"),
    ("postgresql", "IFNULL(state, NVL(name, 'x'))", "coalesce(state, coalesce(name, 'x'))"),
    ("postgresql", "IIF(id > 1, 'a', 'b')", "CASE WHEN id > 1 THEN 'a' ELSE 'b' END"),
    ("postgresql", "strftime('%Y-%m', opened)", "to_char(CAST(opened AS TIMESTAMP), 'YYYY-MM')"),
    ("postgresql", "DATEADD(quarter, 2, opened)", "(opened + INTERVAL '6' MONTH)"),
    ("postgresql", "date_sub(opened, INTERVAL 3 MONTH)", "(opened - INTERVAL '3' MONTH)"),
    ("postgresql", "DATEDIFF(day, opened, CURRENT_DATE)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("postgresql", "DATEDIFF(CURRENT_DATE, opened)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("duckdb", "DATEDIFF(day, opened, CURRENT_DATE)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("mysql", "DATEDIFF(day, opened, CURRENT_DATE)", "datediff(CURRENT_DATE, opened)"),
    ("postgresql", "GROUP_CONCAT(name)", "string_agg(name, ',')"),
    (
        "postgresql",
        "GROUP_CONCAT(DISTINCT name ORDER BY name DESC SEPARATOR '; ')",
        "string_agg(DISTINCT name, '; ' ORDER BY name DESC NULLS LAST)",
    ),
    ("duckdb", "GROUP_CONCAT(name ORDER BY id SEPARATOR '|')", "string_agg(name, '|' ORDER BY id NULLS FIRST)"),
    ("duckdb", "GROUP_CONCAT(name ORDER BY id, '|')", "string_agg(name, ',' ORDER BY id, '|')"),
    (
        "postgresql",
        "LISTAGG(name, ', ') WITHIN GROUP (ORDER BY name)",
        "string_agg(name, ', ' ORDER BY name)",
    ),
    (
        "postgresql",
        "date('2024-04-01', '-30 days')",
        "CAST((CAST('2024-04-01' AS DATE) + INTERVAL '-30' DAY) AS DATE)",
    ),
    ("postgresql", "GETDATE() - 30", "(CURRENT_TIMESTAMP - INTERVAL '30' DAY)"),
    ("postgresql", "updated - 7", "(updated - INTERVAL '7' DAY)"),
    ("mysql", "IIF(id > 1, 'a', 'b')", "CASE WHEN id > 1 THEN 'a' ELSE 'b' END"),
    ("mysql", "STDEV(id)", "stddev_samp(id)"),
    ("duckdb", "DATE_FORMAT(opened, '%Y-%m')", "strftime(opened, '%Y-%m')"),
    ("duckdb", "NVL(state, 'x')", "coalesce(state, 'x')"),
    ("duckdb", "DATEDIFF(CURRENT_DATE, opened)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("postgresql", "(MONTH(opened) - 1) / 3", "(CAST(extract(month FROM opened) AS INTEGER) - 1) / 3"),
    ("postgresql", "DATE_ADD(updated, INTERVAL 1 QUARTER)", "(updated + INTERVAL '3' MONTH)"),
    (
        "postgresql",
        "DATE_SUB('2024-03-31', INTERVAL 1 MONTH)",
        "(CAST('2024-03-31' AS TIMESTAMP) - INTERVAL '1' MONTH)",
    ),
]  # fmt: skip


DIALECTS: dict[str, Any] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
    "duckdb": postgresql.dialect(),  # whose SQL that of DuckDB follows
}


def compiled(sql: str, dialect: str, version: tuple[int, ...] | None = (3, 40)) -> tuple[str, Any]:
    statement = read_select(sql, REGISTRY, dialect, version=version if dialect == "sqlite" else None)
    own = statement.compile(dialect=DIALECTS[dialect])
    return str(own), sorted(map(str, own.params.values()))


@pytest.mark.parametrize(("dialect", "foreign", "own"), SAME)
def test_a_call_of_another_database_is_what_means_the_same(dialect: str, foreign: str, own: str) -> None:
    text = "SELECT {} AS x FROM school".format
    assert compiled(text(foreign), dialect) == compiled(text(own), dialect)


ALL = "sqlite postgresql mysql duckdb"
REFUSED = [
    # Monday is 0 on MySQL, 1 or 2 elsewhere. A week begins on Sunday in BigQuery and SQL Server.
    ("sqlite postgresql", "WEEKDAY(opened)", "Write "),
    (ALL, "DATE_TRUNC(opened, WEEK)", "Write date_trunc('week', x)"),
    (ALL, "DATETRUNC(week, opened)", "Write date_trunc('week', x)"),
    # NULL is skipped on some databases, and wins on others.
    ("sqlite", "GREATEST(id, 2)", "Write max(a, b)"),
    # SQL Server counts boundaries, others whole units. It drops blanks at the end, and converts the second value.
    ("postgresql", "DATEDIFF(hour, opened, opened)", "Subtract dates"),
    (ALL.replace(" duckdb", ""), "LEN(name)", "Write "),
    (ALL, "ISNULL(id, 2.5)", "Write coalesce(x, y)"),
    (ALL, "ISNULL(name, 2)", "Write coalesce(x, y)"),
    (ALL, "ISNULL(id, '')", "Write coalesce(x, y)"),
    # Of the last day of a month, Oracle gives the last day.
    (ALL, "ADD_MONTHS(opened, 1)", "Write "),
    ("postgresql", "DATE_FORMAT(opened, '%W the %D')", "Write to_char"),
    ("sqlite", "to_char(rate, '999.99')", "Write "),
    # A number beside a date would be one beside the year.
    ("sqlite mysql", "GETDATE() - 1/24", "INTERVAL"),
    ("sqlite mysql", "(GETDATE()) - 30", "INTERVAL"),
    ("sqlite mysql", "30 + NOW()", "INTERVAL"),
    ("sqlite mysql", "GETDATE() - 30 - 1", "INTERVAL"),
    ("sqlite mysql", "CAST(updated AS DATE) - 30", "INTERVAL"),
    ("sqlite mysql", "DATE_TRUNC('month', opened) + 1", "INTERVAL"),
    ("sqlite mysql", "max(updated) - min(updated)", "INTERVAL"),
    ("sqlite mysql", "(SELECT max(updated) FROM school) - 7", "INTERVAL"),
    # A month of SQLite's modifiers is another than an interval's.
    ("postgresql duckdb", "date('now', '-30 days')", "INTERVAL '30 days'"),
    ("mysql", "date(opened, '+1 month')", "INTERVAL 30 DAY"),
    ("postgresql duckdb", "date(opened, '+1 month')", "INTERVAL '30 days'"),
    ("postgresql duckdb", "date('2024-01-31', '+1 month')", "INTERVAL '30 days'"),
    ("postgresql duckdb", "date('0000-01-01', '-30 days')", "INTERVAL '30 days'"),
    ("postgresql duckdb", "date('2024-01-31', '1 day', '1 day')", "INTERVAL '30 days'"),
    ("postgresql duckdb", "datetime('now')", "INTERVAL '30 days'"),
    ("mysql", "date('now')", "INTERVAL 30 DAY"),
    ("sqlite", "opened + INTERVAL id DAY", "Write date(x, y || ' days')"),
    ("sqlite", "DATE_ADD(opened, INTERVAL rate DAY)", "Write date(x, y || ' days')"),
    ("sqlite", "id + INTERVAL 1 DAY", "Write date(x)"),
    ("sqlite", "DATEADD(day, id, opened)", "Write date("),
    ("sqlite", "(SELECT max(opened) FROM school) - INTERVAL '1 month'", "Name its value first: WITH m AS "),
    ("sqlite", "CAST(id AS DATE)", "write date(column)"),
    ("sqlite", "CAST(name AS DATE)", "write date(column)"),
    ("sqlite", "YEAR(id)", "Write extract(year FROM date(x))"),
    ("sqlite mysql", "date_trunc('month', name)", "Give it a column with dates"),
    ("sqlite mysql", "date_trunc('day', date_trunc('hour', updated))", "Name it first"),
    ("sqlite mysql", "date_trunc('hour', updated + INTERVAL '30' MINUTE)", "Name it first"),
    ("sqlite", "TIMESTAMPDIFF(SECOND, updated, updated)", "Write (julianday(b)"),
    ("sqlite postgresql", "DATEDIFF(day, '2024-1-5', opened)", ""),
    ("sqlite postgresql", "DATEDIFF(opened, '2024-01-31 23:59:59')", ""),
    ("sqlite", "DATEDIFF(day, name, opened)", "write date(column)"),
    ("sqlite", "DATE_FORMAT(id, '%Y')", "write date"),
    ("sqlite", "DATE_FORMAT(name, '%Y')", "write date"),
    ("sqlite", "MAKE_DATE(2024, 2, 31)", "Write printf("),
    ("sqlite", "LAST_DAY(opened)", "Write date("),
    ("sqlite", "LEFT(name, -1)", "Write substr("),
    ("sqlite", "LEFT(name, id)", "Write substr("),
    # Of SQLAlchemy, it is 0 on SQLite, and the week another than that of ISO 8601.
    ("sqlite", "EXTRACT(MILLISECONDS FROM updated)", "Write year"),
    ("sqlite", "EXTRACT(WEEK FROM updated)", "Write date_trunc('week', x)"),
    ("sqlite", "EXTRACT(QUARTER FROM updated)", "Write (strftime('%m', x)"),
    # A key of this name, and no path. A part that is an object is NULL of JSON_VALUE, and a text of #>>.
    ("postgresql", "name ->> '$.a'", "Write "),
    ("postgresql", "JSON_VALUE(name, '$.a')", "Write x ->> 'a'"),
    ("postgresql", "TOTAL(id)", "Write coalesce(sum(x), 0)"),
    ("postgresql", "MEDIAN(id) OVER ()", "Write percentile_cont(0.5)"),
    ("postgresql", "NVL(state)", "Write coalesce(x, y)"),
    ("postgresql", "GROUP_CONCAT(rate)", "Write string_agg(CAST(x AS TEXT)"),
    ("postgresql", "GROUP_CONCAT(DISTINCT id ORDER BY id)", "Write string_agg(CAST(x AS TEXT)"),
    ("postgresql duckdb", "GROUP_CONCAT(DISTINCT id, rate SEPARATOR ';')", "Write string_agg("),
    ("postgresql duckdb sqlite", "LISTAGG(name, ',' ORDER BY id) WITHIN GROUP (ORDER BY name)", "Write string_agg("),
    # No aggregates are behind these.
    ("sqlite postgresql duckdb", "NVL(id, 0) OVER ()", "Leave out its OVER"),
    ("postgresql mysql duckdb", "IIF(id > 1, 1, 0) OVER ()", "Leave out its OVER"),
    ("sqlite postgresql", "YEAR(updated) FILTER (WHERE id > 1)", ""),
    ("postgresql", "QUARTER(updated) OVER ()", ""),
    ("postgresql", "GETDATE() WITHIN GROUP (ORDER BY id)", "Write the order"),
    ("sqlite", "DATEPART(month, updated) OVER (PARTITION BY id)", "Leave out its OVER"),
    # No values, no order, and values with several texts.
    ("postgresql duckdb", "GROUP_CONCAT(name ORDER BY SEPARATOR ',')", "Write string_agg("),
    ("postgresql duckdb", "LISTAGG(DISTINCT)", "Write string_agg("),
    ("mysql", "LISTAGG(name, ', ')", "Write group_concat(x ORDER BY y SEPARATOR ', ')"),
    ("sqlite mysql", "GROUP_CONCAT(DISTINCT)", "Write group_concat(DISTINCT x)"),
    ("postgresql duckdb", "GROUP_CONCAT(DISTINCT)", "Write "),
    ("mysql", "GROUP_CONCAT(DISTINCT SEPARATOR ',')", "Write group_concat(DISTINCT x)"),
    ("duckdb", "GROUP_CONCAT(id > 1 SEPARATOR ',')", "Write string_agg(CAST(x AS TEXT)"),
    # Days that do not exist, and other spellings of days.
    ("sqlite", "DATEDIFF('2024-02-31', opened)", "2026-01-31"),
    ("sqlite", "DATEADD(day, 1, '2024-02-31')", "2026-01-31"),
    ("sqlite", "'2024-02-31' + INTERVAL 1 DAY", "2026-01-31"),
    ("sqlite", "DAY('2024-02-31')", "2026-01-31"),
    ("postgresql", "TIMESTAMPDIFF(DAY, '01/02/2024', updated)", "2026-01-31"),
    # Two parts in a row are another part: the seconds of the day, the day of the year.
    ("postgresql", "strftime('%S%S', updated)", "Write to_char"),
    ("postgresql", "strftime('%d%d', updated)", "Write to_char"),
    ("sqlite", "to_char(updated, 'SSSS')", "Write strftime"),
    # A text of SQL is no name and no separator.
    (ALL, "id SEPARATOR ';'", "Check the syntax"),
    ("postgresql duckdb sqlite", "string_agg(name, ',' SEPARATOR ';')", "Check the syntax"),
    ("postgresql", "`name '`'", "Check the syntax"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "call", "hint"),
    [(dialect, call, hint) for dialects, call, hint in REFUSED for dialect in dialects.split()],
)
def test_a_call_that_could_mean_two_things_is_refused_with_a_hint(dialect: str, call: str, hint: str) -> None:
    with pytest.raises(DualResponseError) as error:
        compiled(f"SELECT {call} AS x FROM school", dialect)
    assert error.value.code in ("INVALID_SQL", "FORBIDDEN_SQL") and error.value.hint
    assert hint in error.value.hint


@pytest.mark.parametrize("name", ["`name`", "[name]", "s.[name]", "[s].`name`"])
@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_names_in_backticks_and_brackets(name: str, dialect: str) -> None:
    assert compiled(f"SELECT {name} FROM [school] s", dialect) == compiled(
        "SELECT name FROM school s", dialect
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP 2 {0}, {1} FROM school",
        "SELECT TOP (3) {0} FROM school",
        "SELECT {0} || ' ' || {0} AS x, CASE {0} WHEN 'x' THEN 1 END AS y FROM school",
        "SELECT ALL {0}, row_number() OVER (PARTITION BY {0} ORDER BY {1}) AS n FROM school",
        "SELECT {1} % {1} AS x FROM school WHERE {0} LIKE {0}",
    ],
)
def test_names_in_brackets_behind_words_and_signs(text: str) -> None:
    own = compiled(text.format("name", "id"), "postgresql")
    assert compiled(text.format("[name]", "[id]"), "postgresql") == own


def test_a_quoted_name_is_first_the_one_that_has_it_exactly() -> None:
    metadata = MetaData()
    Table("outside", metadata, Column("id", Integer), Column("name", Integer))
    Table("inside", metadata, Column("id", Integer), Column("Name", Integer))
    within = 'SELECT id FROM outside WHERE EXISTS (SELECT 1 FROM inside WHERE "name" = 1)'
    assert "outside.name =" in str(read_select(within, Registry(metadata), "postgresql"))
    beside = 'SELECT "name" FROM inside JOIN outside ON inside.id = outside.id'
    assert "SELECT outside.name" in str(read_select(beside, Registry(metadata), "postgresql"))
    assert 'inside."Name"' in str(read_select('SELECT "NAME" FROM inside', Registry(metadata), "postgresql"))


def test_brackets_of_arrays_stay_arrays() -> None:
    assert "ARRAY" in compiled("SELECT ARRAY[id, id] AS x FROM school", "postgresql")[0]
    with pytest.raises(DualResponseError):
        compiled("SELECT [id] FROM school", "duckdb")


def test_dual_is_no_table_and_dbo_no_schema() -> None:
    assert compiled("SELECT 1 AS x FROM dual", "postgresql") == compiled("SELECT 1 AS x", "postgresql")
    assert compiled("SELECT id FROM dbo.school", "sqlite") == compiled("SELECT id FROM school", "sqlite")


def test_a_schema_called_dbo_is_one() -> None:
    """Not the only table of this name, where the one of the schema may not be read."""
    metadata = MetaData()
    hidden = Table("orders", metadata, Column("id", Integer), schema="dbo")
    Table("orders", metadata, Column("id", Integer), schema="sales")
    with pytest.raises(UnknownTableError):
        read_select(
            "SELECT id FROM dbo.orders",
            Registry(metadata),
            "postgresql",
            is_visible=lambda table: table is not hidden,
        )


def test_minus_is_not_except() -> None:
    """Oracle's has the precedence of UNION and INTERSECT."""
    with pytest.raises(InvalidSQLError) as error:
        compiled("SELECT id FROM school MINUS SELECT school_id FROM program", "sqlite")
    assert error.value.hint == "Write EXCEPT in place of MINUS."


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_words_around_a_fence_are_no_part_of_the_statement(end: str) -> None:
    text = end.join(["Here it is:", "```sql", "SELECT id FROM school;", "```", "It lists the schools."])
    assert compiled(text, "sqlite") == compiled("SELECT id FROM school", "sqlite")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM school WHERE name = '\n```sql\nSELECT 42 AS x\n```'",
        "/*\n```sql\nSELECT 42 AS x\n```\n*/ SELECT id FROM school",
        "(SELECT id FROM school WHERE name LIKE '\n```\nSELECT 42 AS x ```')",
        "WITH a AS (SELECT '\n```\nSELECT 42 AS x```' AS t) SELECT id FROM school",
    ],
)
def test_a_fence_within_a_text_is_a_part_of_it(text: str) -> None:
    assert "school" in compiled(text, "postgresql")[0]


@pytest.mark.parametrize("outside", ["DELETE FROM school;\n{}", "SELECT 1;\n{}", "{}\nSELECT 43"])
def test_a_fence_beside_a_statement_is_none(outside: str) -> None:
    with pytest.raises(DualResponseError):
        compiled(outside.format("```sql\nSELECT 42 AS x\n```"), "postgresql")


DAYS = Table(
    "days", MetaData(), Column("id", Integer, primary_key=True), Column("d", Date), Column("t", DateTime)
)


MOVED = {
    "d + INTERVAL '1 month'": "2024-02-29",
    "d - INTERVAL 2 QUARTER": "2023-07-31",
    "DATE_ADD(d, INTERVAL 1 YEAR)": "2025-01-31",
    "d + INTERVAL '2 weeks'": "2024-02-14",
    "d - INTERVAL '31 days'": "2023-12-31",
    "d + INTERVAL '2 hours'": "2024-01-31T02:00:00",
    "t + INTERVAL '1 month'": "2024-02-29T23:59:59.999700",
    "t + INTERVAL '1 hour'": "2024-02-01T00:59:59.999700",
    "t + INTERVAL 45 MINUTE": "2024-02-01T00:44:59.999700",
    "t - INTERVAL '15 second'": "2024-01-31T23:59:44.999700",
    "t - INTERVAL 1 DAY": "2024-01-30T23:59:59.999700",
    "DATEADD(month, -11, t)": "2023-02-28T23:59:59.999700",
    "date_sub('2024-03-31', INTERVAL 1 MONTH)": "2024-02-29",
    "date_trunc('quarter', t)": "2024-01-01",
    "date_trunc('hour', t)": "2024-01-31T23:00:00",
    "CAST(t AS DATE)": "2024-01-31",
    "DAY(t)": 31,
    "DATE_FORMAT(t, '%d %s')": "31 59",
    "DATEDIFF(day, t, '2024-02-01')": 1,
    "CAST(d AS TIMESTAMP)": "2024-01-31T00:00:00",
    "CASE WHEN t < d + INTERVAL '1 day' THEN 'less' END": "less",
    "CASE WHEN t > '2024-02-01' - INTERVAL '30 minutes' THEN 'more' END": "more",
    "concat(id, '-', NULL, 'x')": "1-x",
    "'Q' || ((MONTH(d) + 5) / 3 + 1)": "Q3",
}


async def test_dates_are_moved_and_counted_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/days.sqlite"
    engine = create_engine(url)
    with engine.begin() as connection:
        DAYS.metadata.create_all(connection)
        row = {"id": 1, "d": date(2024, 1, 31), "t": datetime(2024, 1, 31, 23, 59, 59, 999_700)}  # noqa: DTZ001
        connection.execute(insert(DAYS), row)
    engine.dispose()
    columns = ", ".join(f"{expression} AS x{n}" for n, expression in enumerate(MOVED))
    async with DualResponseServer(url, base_url="http://127.0.0.1/resources", tables=DAYS.metadata) as dual:
        statement = read_select(
            f"SELECT {columns} FROM days", Registry(DAYS.metadata), "sqlite", version=(3, 40)
        )
        response = await dual.create_response(statement, name="Days", is_text=True)
    [shown] = response.sample
    assert dict(zip(MOVED, shown.values(), strict=True)) == MOVED


NESTED = "sum(CASE WHEN t >= date_trunc('quarter', t) THEN id ELSE 0 END) AS x FROM days"


async def test_sqlite_compares_instants_with_beginnings_or_says_what_to_write(tmp_path: Path) -> None:
    """SQLite's parser takes expressions of a certain depth, and an instant has a long one."""
    url = f"sqlite:///{tmp_path}/days.sqlite"
    engine = create_engine(url)
    with engine.begin() as connection:
        DAYS.metadata.create_all(connection)
        row = {"id": 1, "d": date(2024, 1, 31), "t": datetime(2024, 1, 1)}  # noqa: DTZ001
        connection.execute(insert(DAYS), row)
    engine.dispose()
    async with create_server(url, base_url="http://127.0.0.1/resources", tables=DAYS.metadata) as dual:

        async def values(text: str) -> list[Any]:
            statement = dual.sql.resolve(text).select
            response = await dual.create_response(statement, name="Days", is_text=True)
            return [row["x"] for row in response.sample]

        for unit in get_args(Bucket):
            own, now = f"date_trunc('{unit}', t)", f"date_trunc('{unit}', CURRENT_TIMESTAMP)"
            for condition in (
                f"t IN ({own}, {now})", f"t BETWEEN {own} AND {now}", f"t NOT BETWEEN {now} AND {now}",
                f"{own} IN ({now}, {own})", f"round(100.0 * sum(CASE WHEN t >= {now} THEN 1 ELSE 0 END), 2) = 0",
            ):  # fmt: skip
                clause = "HAVING" if "sum(" in condition else "WHERE"
                assert await values(f"SELECT max(id) AS x FROM days GROUP BY id {clause} {condition}") == [1]
        with pytest.raises(InvalidSQLError, match="deeper") as error:
            await values(f"SELECT {NESTED}")
        assert error.value.hint.startswith("Compute a part first: WITH s AS (SELECT *, ")
        first = "WITH s AS (SELECT *, date_trunc('quarter', t) AS m FROM days)"
        again = NESTED.replace("date_trunc('quarter', t)", "m").replace("days", "s")
        assert await values(f"{first} SELECT {again}") == [1]


@pytest.mark.parametrize("dialect", ALL.split())
def test_a_form_writes_each_argument_once(dialect: str) -> None:
    """Else a call in a call in a call would double with each."""
    own = text_of(dialect)
    forms = [own.writes_formats, own.days_between, own.units_passed]
    assert all(form.count(gap) <= 1 for form in forms for gap in (":a", ":b", ":c"))


def test_moving_a_moved_date_is_bounded() -> None:
    nested = "d" + " + INTERVAL 1 MONTH" * 30
    with pytest.raises(InvalidSQLError):
        read_select(f"SELECT {nested} AS x FROM days", Registry(DAYS.metadata), "sqlite")


ONES = ",".join("1" * 1300)


@pytest.mark.parametrize("dialect", ALL.split())
@pytest.mark.parametrize(
    "nested",
    [
        "date_trunc('week', " * 20 + "t" + ")" * 20,
        f"(id IN ({ONES}))" + "::date" * 90,
        "ISNULL(" * 30 + "id" + ", 0)" * 30,
        "NVL(" * 37 + f"CASE WHEN id IN ({ONES}) THEN 1 END" + ", 1)" * 37,
        "DATEADD(day, 1, " * 37 + "t" + ")" * 37,
        "DATEADD(day, " + "+".join(["id"] * 180) + ", t)",
    ],
)
def test_what_is_nested_is_read_in_little_time(dialect: str, nested: str) -> None:
    """A form that writes an argument twice, or copies it, takes seconds for these."""
    before = time.process_time()
    with suppress(DualResponseError):
        read_select(f"SELECT {nested} AS x FROM days", Registry(DAYS.metadata), dialect)
    assert time.process_time() - before < 1


def test_a_fence_is_sought_in_little_time() -> None:
    before = time.process_time()
    with pytest.raises(DualResponseError):
        read_select("```" + " " * 60_000 + "x```", Registry(DAYS.metadata), "sqlite")
    assert time.process_time() - before < 1


VALUES: dict[str, list[Any]] = {
    "NVL(v, 0)": [5, 0],
    "NVL2(v, 1, 0)": [1, 0],
    "IIF(v > 1, 1, 0)": [1, 0],
    "COUNT_IF(v > 1) OVER (ORDER BY id)": [1, 1],
    "YEAR(t)": [2024, None],
    "DATEPART(minute, t)": [59, None],
    "DATE_TRUNC(t, MONTH)": ["2024-01-01", None],
    "CAST(t AS DATE)": ["2024-01-31", None],
    "DATEADD(month, 1, d)": ["2024-02-29", None],
    "DATEADD(quarter, -1, d)": ["2023-10-31", None],
    "DATE_SUB(d, INTERVAL 1 DAY)": ["2024-01-30", None],
    "DATEDIFF(day, d, t)": [0, None],
    "DATEDIFF(day, '2023-12-31', t)": [31, None],
    "DATE_FORMAT(t, '%d.%m.%Y %H:%i:%s')": ["31.01.2024 23:59:59", None],
    "DATE_FORMAT(d, '%Y/%m')": ["2024/01", None],
    "ISNULL(v, -1)": [5, -1],
    "CASE WHEN t > CAST(t AS DATE) THEN 1 ELSE 0 END": [1, 0],
    "CASE WHEN t >= date_trunc('hour', t) THEN 1 ELSE 0 END": [1, 0],
    "CASE WHEN date_trunc('month', t) = '2024-01-01' THEN 1 ELSE 0 END": [1, 0],
    "CASE WHEN date_trunc('quarter', t) = '2024-01-01' THEN 1 ELSE 0 END": [1, 0],
    "CASE WHEN t >= date_trunc('quarter', CURRENT_TIMESTAMP) THEN 1 ELSE 0 END": [0, 0],
    "CASE WHEN t < date_trunc('month', CURRENT_TIMESTAMP) THEN v ELSE 0 END": [5, 0],
}


FAILS = ["DATE_FORMAT(v, '%Y')", "DATEDIFF(day, v, d)", "YEAR(v)"]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb", "duckdb"])
async def test_what_is_kept_has_the_value_of_its_own_database(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    is_file = engine in ("sqlite", "duckdb")
    url: str = (
        f"{engine}:///{tmp_path}/days.{engine}" if is_file else request.getfixturevalue(f"{engine}_url")
    )
    metadata = MetaData()
    table = Table(
        "days", metadata, Column("id", Integer, primary_key=True, autoincrement=False), Column("v", Integer),
        Column("d", Date), Column("t", DateTime),
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"id": 1, "v": 5, "d": date(2024, 1, 31), "t": datetime(2024, 1, 31, 23, 59, 59)},  # noqa: DTZ001
        {"id": 2, "v": None, "d": None, "t": None},
    ]
    own_url = url.replace("+asyncpg", "+psycopg").replace("+asyncmy", "+pymysql").replace("+aiosqlite", "")
    own_engine = create_engine(own_url)
    with own_engine.begin() as connection:
        metadata.create_all(connection)
        connection.execute(insert(table), rows)
    own_engine.dispose()
    async with create_server(url, base_url="http://127.0.0.1/resources", tables=metadata) as dual:

        async def shown(expression: str, **parameters: Any) -> list[Any]:
            text = f"SELECT id, {expression} AS x FROM days ORDER BY id"
            statement = dual.sql.resolve(text, parameters=parameters).select
            response = await dual.create_response(statement, name="Days", is_text=True)
            return [row["x"] for row in response.sample]

        for expression, values in VALUES.items():
            own = [str(value).removesuffix("T00:00:00") for value in await shown(expression)]
            assert own == [str(value) for value in values], expression
        for expression in FAILS if engine != "mariadb" else ():  # which reads digits as a date
            with pytest.raises(DualResponseError) as error:
                await shown(expression)
            assert error.value.code in ("INVALID_SQL", "FORBIDDEN_SQL")
        if engine != "duckdb":  # which takes such a text for no date
            assert await shown("DATEDIFF(day, :p, d)", p="2024-01-01 23:59:59") == [30, None]
