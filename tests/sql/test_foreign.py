"""Functions, names and casts of other databases are read as the database of the text has them, or refused."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Date, DateTime, Integer, MetaData, Table, create_engine, insert

from dualsql import DualResponseServer, Registry
from dualsql.errors import DualResponseError, InvalidSQLError
from dualsql.sql import read_select
from tests.engines import text_of
from tests.sql.test_reading import REGISTRY

SAME = [
    ("sqlite", "NVL(state, 'x')", "coalesce(state, 'x')"),
    ("sqlite", "ISNULL(state, 'x')", "coalesce(state, 'x')"),
    ("sqlite", "ISNULL(state)", "(state IS NULL)"),
    ("sqlite", "NVL2(state, 1, 0)", "CASE WHEN state IS NOT NULL THEN 1 ELSE 0 END"),
    ("sqlite", "GETDATE()", "CURRENT_TIMESTAMP"),
    ("sqlite", "LEN(name)", "length(name)"),
    ("sqlite", "LEFT(name, 2)", "substr(name, 1, 2)"),
    ("sqlite", "CHARINDEX('a', name)", "instr(name, 'a')"),
    ("sqlite", "LOCATE('a', name)", "instr(name, 'a')"),
    ("sqlite", "YEAR(opened)", "extract(year FROM opened)"),
    ("postgresql", "DATEPART(quarter, opened)", "extract(quarter FROM opened)"),
    ("sqlite", "date_part('month', opened)", "extract(month FROM opened)"),
    ("sqlite", "DATE_FORMAT(opened, '%Y-%m %H:%i')", "strftime('%Y-%m %H:%M', opened)"),
    ("sqlite", "to_char(opened, 'DD.MM.YYYY')", "strftime('%d.%m.%Y', opened)"),
    ("sqlite", "CAST(opened AS DATE)", "date(opened)"),
    ("sqlite", "opened::date", "date(opened)"),
    ("sqlite", "LAST_DAY(opened)", "date(opened, 'start of month', '+1 month', '-1 day')"),
    ("sqlite", "FROM_UNIXTIME(id)", "datetime(id, 'unixepoch')"),
    ("sqlite", "COUNT_IF(id > 1)", "count(CASE WHEN id > 1 THEN 1 END)"),
    ("sqlite", "APPROX_COUNT_DISTINCT(state)", "count(DISTINCT state)"),
    ("sqlite", "GROUP_CONCAT(name SEPARATOR '; ')", "group_concat(name, '; ')"),
    ("sqlite", "DATE_TRUNC(opened, MONTH)", "date_trunc('month', opened)"),
    ("sqlite", "DATEADD(day, -3, opened)", "(opened + INTERVAL '-3' DAY)"),
    ("sqlite", "DATE_SUB(opened, INTERVAL 3 DAY)", "(opened - INTERVAL 3 DAY)"),
    ("postgresql", "IFNULL(state, NVL(name, 'x'))", "coalesce(state, coalesce(name, 'x'))"),
    ("postgresql", "IIF(id > 1, 'a', 'b')", "CASE WHEN id > 1 THEN 'a' ELSE 'b' END"),
    ("postgresql", "INSTR(name, 'a')", "position('a' IN name)"),
    ("postgresql", "strftime('%Y-%m', opened)", "to_char(opened, 'YYYY-MM')"),
    ("postgresql", "FORMAT(opened, 'yyyy-MM-dd')", "to_char(opened, 'YYYY-MM-DD')"),
    ("postgresql", "STR_TO_DATE(name, '%d.%m.%Y')", "to_date(name, 'DD.MM.YYYY')"),
    ("postgresql", "DATEADD(quarter, 2, opened)", "(opened + INTERVAL '6' MONTH)"),
    ("postgresql", "date_sub(opened, INTERVAL 3 MONTH)", "(opened - INTERVAL '3' MONTH)"),
    ("postgresql", "DATEDIFF(day, opened, CURRENT_DATE)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("postgresql", "DATEDIFF(CURRENT_DATE, opened)", "(CAST(CURRENT_DATE AS DATE) - CAST(opened AS DATE))"),
    ("postgresql", "date('now', '-30 days')", "CAST((CAST(CURRENT_TIMESTAMP AS DATE) + INTERVAL '-30' DAY) AS DATE)"),
    ("postgresql", "median(rate)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY rate)"),
    ("postgresql", "GROUP_CONCAT(name)", "string_agg(CAST(name AS TEXT), ',')"),
    (
        "postgresql",
        "GROUP_CONCAT(DISTINCT name ORDER BY name DESC SEPARATOR '; ')",
        "string_agg(DISTINCT name, '; ' ORDER BY name DESC)",
    ),
    (
        "postgresql",
        "LISTAGG(name, ', ') WITHIN GROUP (ORDER BY name)",
        "string_agg(name, ', ' ORDER BY name)",
    ),
    ("postgresql", "GETDATE() - 30", "(CURRENT_TIMESTAMP - INTERVAL '30' DAY)"),
    ("sqlite", "GETDATE() - 30", "(CURRENT_TIMESTAMP - INTERVAL '30' DAY)"),
    ("postgresql", "updated - 7", "(updated - INTERVAL '7' DAY)"),
    ("postgresql", "ADD_MONTHS(opened, -12)", "(opened + INTERVAL '-12' MONTH)"),
    ("sqlite", "MAKE_DATE(2024, 1, 31)", "date(printf('%04d-%02d-%02d', 2024, 1, 31))"),
    ("sqlite", "IFF(id > 1, 'a', 'b')", "CASE WHEN id > 1 THEN 'a' ELSE 'b' END"),
    ("mysql", "strftime('%Y-%M', opened)", "date_format(opened, '%Y-%i')"),
    ("mysql", "IIF(id > 1, 'a', 'b')", "CASE WHEN id > 1 THEN 'a' ELSE 'b' END"),
    ("duckdb", "DATE_FORMAT(opened, '%Y-%m')", "strftime(opened, '%Y-%m')"),
    ("duckdb", "NVL(state, 'x')", "coalesce(state, 'x')"),
]  # fmt: skip


def compiled(sql: str, dialect: str, version: tuple[int, ...] | None = (3, 40)) -> tuple[str, Any]:
    statement = read_select(sql, REGISTRY, dialect, version=version if dialect == "sqlite" else None)
    made = statement.compile()
    return str(made), sorted(map(str, made.params.values()))


@pytest.mark.parametrize(("dialect", "foreign", "own"), SAME)
def test_a_call_of_another_database_is_what_means_the_same(dialect: str, foreign: str, own: str) -> None:
    text = "SELECT {} AS x FROM school".format
    assert compiled(text(foreign), dialect) == compiled(text(own), dialect)


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        # Monday is 0 on MySQL, 1 or 2 elsewhere.
        ("sqlite", "WEEKDAY(opened)"),
        ("postgresql", "WEEKDAY(opened)"),
        # NULL is skipped on some databases, and wins on others.
        ("sqlite", "GREATEST(id, 2)"),
        # Boundaries are counted on SQL Server, whole units elsewhere.
        ("postgresql", "DATEDIFF(hour, opened, opened)"),
        ("postgresql", "DATE_FORMAT(opened, '%W the %D')"),
        ("sqlite", "to_char(rate, '999.99')"),
        ("sqlite", "DATEADD(day, id, opened)"),
        ("sqlite", "(SELECT max(opened) FROM school) - INTERVAL '1 month'"),
        ("postgresql", "NVL(state)"),
        # Of SQLAlchemy, it is 0 on SQLite.
        ("sqlite", "EXTRACT(MILLISECONDS FROM updated)"),
        # A key of this name, and no path.
        ("postgresql", "name ->> '$.a'"),
    ],
)
def test_a_call_that_could_mean_two_things_is_refused_with_a_hint(dialect: str, call: str) -> None:
    with pytest.raises(DualResponseError) as caught:
        compiled(f"SELECT {call} FROM school", dialect)
    assert caught.value.hint.startswith(("Write ", "Subtract ", "Name its value first: WITH m AS "))


@pytest.mark.parametrize("name", ["`name`", "[name]", "s.[name]", "[s].`name`"])
@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_names_in_backticks_and_brackets(name: str, dialect: str) -> None:
    assert compiled(f"SELECT {name} FROM [school] s", dialect) == compiled(
        "SELECT name FROM school s", dialect
    )


def test_brackets_of_arrays_stay_arrays() -> None:
    assert "ARRAY" in compiled("SELECT ARRAY[id, id] AS x FROM school", "postgresql")[0]
    with pytest.raises(DualResponseError):
        compiled("SELECT [id] FROM school", "duckdb")


def test_dual_is_no_table_and_dbo_no_schema() -> None:
    assert compiled("SELECT 1 AS x FROM dual", "postgresql") == compiled("SELECT 1 AS x", "postgresql")
    assert compiled("SELECT id FROM dbo.school", "sqlite") == compiled("SELECT id FROM school", "sqlite")


def test_minus_is_except() -> None:
    text = "SELECT id FROM school {} SELECT school_id FROM program".format
    assert compiled(text("MINUS"), "sqlite") == compiled(text("EXCEPT"), "sqlite")


def test_words_around_a_fence_are_no_part_of_the_statement() -> None:
    text = "Here it is:\n```sql\nSELECT id FROM school;\n```\nIt lists the schools."
    assert compiled(text, "sqlite") == compiled("SELECT id FROM school", "sqlite")


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
    "DATEDIFF(day, d, '2024-03-01')": 30,
    "TIMESTAMPDIFF(HOUR, t, '2024-02-01 02:30:14')": 2,
    "TIMESTAMPDIFF(MINUTE, '2024-02-01', d)": -1440,
    "QUARTER(d - INTERVAL '1 day')": 1,
    "EXTRACT(QUARTER FROM d - INTERVAL '1 month')": 4,
    "EXTRACT(WEEK FROM t)": 5,
    "EXTRACT(WEEK FROM DATE '2023-01-01')": 52,
    "EXTRACT(ISODOW FROM DATE '2023-01-01')": 7,
    "date_trunc('quarter', t)": "2024-01-01",
    "date_trunc('hour', t)": "2024-01-31T23:00:00",
    "CASE WHEN t < d + INTERVAL '1 day' THEN 'less' END": "less",
    "CASE WHEN t > '2024-02-01' - INTERVAL '30 minutes' THEN 'more' END": "more",
    "concat(id, '-', NULL, 'x')": "1-x",
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


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
def test_a_form_writes_each_argument_once(dialect: str) -> None:
    """Else a call in a call in a call would double with each."""
    own = text_of(dialect)
    forms = [
        *own.equivalents.values(),
        own.writes_formats,
        own.reads_formats,
        own.days_between,
        own.units_passed,
    ]
    assert all(form.count(gap) <= 1 for form in forms for gap in (":a", ":b", ":c"))


def test_moving_a_moved_date_is_bounded() -> None:
    nested = "d" + " + INTERVAL 1 MONTH" * 30
    with pytest.raises(InvalidSQLError):
        read_select(f"SELECT {nested} AS x FROM days", Registry(DAYS.metadata), "sqlite")
