"""A text that cannot be run is answered with what can: the engine's own function, the catalogue, the right alias."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    Uuid,
    create_engine,
    func,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, Registry
from dualsql.errors import DualResponseError, ForbiddenSQLError, InvalidSQLError
from dualsql.sql import read_select
from dualsql.sql.functions import allowed_functions
from tests.engines import SOURCES, opened, text_of
from tests.sql.test_reading import REGISTRY

CATALOGUE = "Look at the tables with list_tables, and at the columns of one with describe_table."
OLD_SQLITE, OLD_POSTGRESQL, OLD_MARIADB = (3, 40, 1), (14, 2), (10, 5, 8)


def refused(sql: str, dialect: str = "sqlite", version: tuple[int, ...] | None = None) -> DualResponseError:
    with pytest.raises(DualResponseError) as error:
        read_select(sql, REGISTRY, dialect, version=version)
    return error.value


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "PRAGMA table_info(school)",
        "DESCRIBE school",
        "EXPLAIN school",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM information_schema.tables",
    ],
)
def test_who_asks_the_database_what_it_holds_is_sent_to_the_catalogue(sql: str) -> None:
    assert refused(sql).hint == CATALOGUE


@pytest.mark.parametrize(
    ("sql", "dialect", "hint"),
    [
        ("EXPLAIN ANALYZE SELECT 1", "postgresql", "Send the SELECT itself."),
        (
            "SELECT id FROM school WHERE ARRAY[] <@ ARRAY[id]",
            "postgresql",
            "Write CAST(ARRAY[] AS INTEGER[]), or another type.",
        ),
        ("SELECT id FROM school FOR UPDATE", "postgresql", "Leave it out: results are read only."),
        (
            "SELECT s.id FROM school AS s, (SELECT o.id FROM school AS o WHERE o.id = s.id) AS q",
            "postgresql",
            "Write LATERAL before the subquery.",
        ),
        (
            "SELECT s.id FROM school AS s, (SELECT o.id FROM school AS o WHERE o.id = s.id) AS q",
            "mysql",
            "Write a subquery in the SELECT list, or join a subquery with GROUP BY.",
        ),
        (
            "SELECT * FROM school RIGHT JOIN (SELECT id FROM school) AS q USING (id)",
            "mysql",
            "Name the columns, or exchange the tables: LEFT JOIN.",
        ),
        (
            "SELECT * FROM school NATURAL RIGHT JOIN (SELECT id FROM school) AS q",
            "mysql",
            "Name the columns, or exchange the tables: LEFT JOIN.",
        ),
        (
            "SELECT id FROM school GROUP BY ROLLUP (id)",
            "sqlite",
            "Join one SELECT for each grouping by UNION ALL.",
        ),
        (
            "SELECT EXTRACT(MILLISECONDS FROM CURRENT_DATE)",
            "sqlite",
            "Write year, month, day, hour, minute or second.",
        ),
        ("SELECT DATEDIFF(hour, id, id) FROM school", "sqlite", "Write julianday(a) - julianday(b)."),
        (
            "```sql\nSELECT (\n```",
            "sqlite",
            "Check the syntax near there, and send the SELECT alone, without words around it.",
        ),
        ("SELECT id FROM school WHERE rownum < 5", "sqlite", "Write LIMIT 10 at the end of the SELECT."),
        ("SELECT id FROM school WHERE state = @state", "sqlite", "Write a parameter as :name."),
        ("SELECT id FROM school WHERE state = $1", "sqlite", "Write a parameter as :name."),
        *(
            (
                "SELECT id FROM school WHERE id IN (SELECT id, name FROM school)",
                dialect,
                "Give each row of IN as many values as stand before IN.",
            )
            for dialect in ("sqlite", "postgresql", "mysql", "duckdb")
        ),
        (
            "SELECT id, name FROM school UNION SELECT id FROM school",
            "sqlite",
            "Select the same number of columns in each part, NULL in place of a missing one.",
        ),
        ("SELECT id", "sqlite", "Name a table in FROM; write a text in single quotes."),
        (
            "SELECT id FROM school WHERE name = 'O'Brien'",
            "sqlite",
            "Close each text with a quote, and write a quote within a text twice: 'O''Brien'.",
        ),
        *(
            (
                f"SELECT {call} FROM school",
                dialect,
                "Write printf('%.2f', x) for a number, strftime('%Y-%m', x) for a date.",
            )
            for dialect in ("sqlite", "duckdb")
            for call in ("FORMAT(opened, 'yyyy-MM')", "FORMAT(rate, 2)", "printf(rate)")
        ),
        (
            "SET search_path TO x; SELECT 1",
            "postgresql",
            "Send the SELECT alone, with the schema before the table: schema.table.",
        ),
        ("\\d school", "postgresql", CATALOGUE),
        (
            "SELECT CONVERT(date, opened) FROM school",
            "postgresql",
            "Write CAST(x AS DATE), or another standard type, such as INTEGER, NUMERIC or TEXT.",
        ),
        ("```SELECT 1```", "sqlite", "Only SELECT, WITH ... SELECT and set operations run here."),
    ],
)
def test_a_habit_of_another_database_or_of_a_model_is_told(sql: str, dialect: str, hint: str) -> None:
    assert refused(sql, dialect).hint == hint


@pytest.mark.parametrize("text", ["```sql\nSELECT id FROM school\n```", "```\nSELECT id FROM school```\n"])
def test_a_fence_of_markdown_is_no_part_of_the_statement(text: str) -> None:
    assert str(read_select(text, REGISTRY, "sqlite")) == str(
        read_select("SELECT id FROM school", REGISTRY, "sqlite")
    )


def test_the_system_tables_of_another_engine_are_tables_like_any_other() -> None:
    assert refused("SELECT * FROM pg_tables", "postgresql").hint == CATALOGUE
    assert refused("SELECT * FROM pg_tables", "sqlite").hint != CATALOGUE


@pytest.mark.parametrize(
    ("dialect", "version", "call", "said", "hint"),
    [
        ("sqlite", None, "median(rate)", "no function median()", "row_number() OVER"),
        ("sqlite", None, "stddev(rate)", "no function stddev()", "avg(x * x)"),
        ("sqlite", None, "random()", "The function random() cannot be run here.", "order by columns"),
        (
            "postgresql",
            OLD_POSTGRESQL,
            "regexp_count(name, 'a')",
            "PostgreSQL 14.2 has no function regexp_count()",
            "regexp_replace()",
        ),
        ("postgresql", None, "strftime('%w', opened)", "no function strftime()", "to_char(x, 'YYYY-MM')"),
        ("sqlite", None, "to_char(rate, '999.9')", "SQLite has no function to_char().", "printf('%.2f', x)"),
        (
            "sqlite",
            None,
            "date_trunc('decade', opened)",
            "no function date_trunc()",
            "Write date_trunc('month', x)",
        ),
        (
            "mysql",
            None,
            "date_trunc('decade', opened)",
            "no function date_trunc()",
            "date_format(x, '%Y-%m-01')",
        ),
        (
            "mysql",
            OLD_MARIADB,
            "to_char(opened, 'Day')",
            "MariaDB 10.5 has no function to_char()",
            "date_format(x, '%Y-%m')",
        ),
    ],
)
def test_a_function_that_the_engine_lacks_is_named_and_its_own_is_offered(
    dialect: str, version: tuple[int, ...] | None, call: str, said: str, hint: str
) -> None:
    error = refused(f"SELECT {call} FROM school", dialect, version)
    assert isinstance(error, ForbiddenSQLError)
    assert said in error.message and hint in error.hint


def test_a_version_that_has_the_function_runs_it() -> None:
    read_select("SELECT concat(name, state) FROM school", REGISTRY, "sqlite", version=(3, 44, 0))
    read_select("SELECT any_value(name) FROM school", REGISTRY, "postgresql", version=(16, 1))
    read_select("SELECT to_char(opened, 'YYYY') FROM school", REGISTRY, "mysql", version=(10, 6, 1))


def test_text_in_double_quotes_and_a_wrong_alias() -> None:
    hint = refused('SELECT id FROM school WHERE name = "NJ"', "postgresql").hint
    assert hint == "Text is written in single quotes: 'NJ'."
    joined = "SELECT p.rate FROM program p JOIN school s ON s.id = p.school_id"
    assert refused(joined).hint == "Write s.rate."


_SYNTAX = {"char_length", "coalesce", "greatest", "grouping", "ifnull", "least", "nullif", "percentile_cont",
           "percentile_disc", "trim", "localtimestamp", "group_concat", "string_agg"}  # fmt: skip
"""What the engines read as grammar, or what is written in another way for each."""

_LISTED = {
    "sqlite": "SELECT DISTINCT name FROM pragma_function_list",
    "postgresql": "SELECT DISTINCT proname FROM pg_proc",
}


async def test_each_function_that_a_text_may_call_is_there(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        there = {
            str(name).lower() for (name,) in await connection.execute(text(_LISTED[engine.dialect.name]))
        }
    version: Any = engine.dialect.server_version_info
    known = allowed_functions(text_of(engine.dialect.name), version)
    assert [name for name in known if name not in there | _SYNTAX] == []


async def test_each_function_of_mariadb_is_there(mariadb_url: str) -> None:
    """Its list of functions lacks many, but what it does not know has an error of its own."""
    unknown = []
    async with opened(mariadb_url) as engine, engine.connect() as connection:
        version: Any = engine.dialect.server_version_info
        for name in allowed_functions(text_of("mysql"), version):
            try:
                await connection.execute(text(f"SELECT {name}()"))
            except DBAPIError as error:
                if error.orig is not None and error.orig.args[0] in (1305, 1630) and name not in _SYNTAX:
                    unknown.append(name)
    assert unknown == []


def test_each_function_of_duckdb_is_there() -> None:
    listed: Any = duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()")
    there = {row[0] for row in listed.fetchall()}
    assert [name for name in allowed_functions(text_of("duckdb")) if name not in there | _SYNTAX] == []


@pytest.fixture(params=[*SOURCES, "duckdb"])
async def numbers(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with a table of numbers and texts, once for every engine."""
    if request.param == "duckdb":
        url: str = f"duckdb:///{tmp_path}/numbers.duckdb"
        opened_here = create_engine(url)
        with opened_here.begin() as connection:
            NUMBERS.metadata.create_all(connection)
            connection.execute(insert(NUMBERS), OF_NUMBERS)
        opened_here.dispose()
        return url
    url = request.getfixturevalue(f"{request.param}_url")
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(NUMBERS.metadata.create_all)
        await connection.execute(insert(NUMBERS), OF_NUMBERS)
    return url


NUMBERS = Table("numbers", MetaData(), Column("id", BigInteger, primary_key=True), Column("word", String(20)))
OF_NUMBERS = [{"id": 1, "word": "secret-77"}, {"id": 2, "word": "12"}]
ZERO, RANGE, SEVERAL = "divides by zero", "out of the range of its type", "gives more than one row"
ARGUMENT, CONVERTED = "is not defined for a value", "converts a value to a type that it does not fit"
DOCUMENT, PATTERN, CALLBACK = (
    "as JSON that is none",
    "A pattern of the query is not valid",
    "that runs in Python failed",
)
FUNCTION = re.compile(r"\b([a-zA-Z_]+)\(|\b(REGEXP|LIKE)\b")
DATA_ERRORS = {
    "id % (id - id)": {"postgresql": ZERO, "duckdb": ZERO},
    "9223372036854775807 + id": {"postgresql": RANGE, "mysql": RANGE, "duckdb": RANGE},
    "abs(-9223372036854775807 - id)": dict.fromkeys(("sqlite", "postgresql", "mysql", "duckdb"), RANGE),
    "id + (SELECT id FROM numbers)": {"postgresql": SEVERAL, "mysql": SEVERAL, "duckdb": SEVERAL},
    "CAST(word AS INTEGER)": {"postgresql": CONVERTED, "duckdb": CONVERTED},
    "ln(id - 9)": {"postgresql": ARGUMENT},
    "json_extract(word, '$.a')": {"sqlite": DOCUMENT},
    "strptime(word, '%Y')": {"duckdb": CONVERTED},
    "word REGEXP replace(word, '-', '(')": {"sqlite": CALLBACK, "postgresql": PATTERN},
}
"""What each engine raises only because of the rows; where it is not named, it gives a value or NULL."""


async def test_an_error_that_only_the_data_raise_says_its_class(numbers: str) -> None:
    kind = make_url(numbers).get_backend_name()
    async with DualResponseServer(
        numbers, base_url="http://127.0.0.1/resources", tables=NUMBERS.metadata
    ) as dual:
        for call, classes in DATA_ERRORS.items():
            selected = f"SELECT {call} AS x FROM numbers"
            if kind not in classes:
                with suppress(ForbiddenSQLError, InvalidSQLError):  # it has no such function
                    await dual.create_response(dual.sql.resolve(selected).select, name="x", is_text=True)
            else:
                query = dual.sql.resolve(selected)
                with pytest.raises(DualResponseError) as error:
                    await dual.create_response(query.select, name="x", is_text=True)
                message = f"{error.value.message} {error.value.hint} {error.value.details}"
                assert classes[kind] in error.value.message, (call, message)
                assert "log" not in error.value.hint
                if classes[kind] in (ARGUMENT, DOCUMENT, CALLBACK):
                    named, failing = (functions_in(text) for text in (error.value.hint, call))
                    assert named & failing, (call, message)
                assert "secret" not in message and not re.search(r"[0-9]{2}", message), call


def functions_in(text: str) -> set[str]:
    return {name or operator for name, operator in FUNCTION.findall(text)}


GROUPED, SORTED, NUMBERED = (
    "is not in GROUP BY",
    "sorted by what it does not select",
    "A window function stands",
)
EVERY = ("sqlite", "postgresql", "mysql", "duckdb")
STRICT = ("postgresql", "duckdb")
MISPLACED = {
    "SELECT max(id) AS x, word FROM numbers": dict.fromkeys(STRICT, GROUPED),
    "SELECT word FROM numbers WHERE max(id) > 1": dict.fromkeys(EVERY, GROUPED),
    "SELECT max(max(id)) AS x FROM numbers": dict.fromkeys(EVERY, GROUPED),
    "SELECT word, id FROM numbers GROUP BY word": {"duckdb": GROUPED},
    "SELECT id % 2 AS x, id FROM numbers GROUP BY id % 2": dict.fromkeys(STRICT, GROUPED),
    "SELECT DISTINCT word FROM numbers ORDER BY id": {"postgresql": SORTED},
    "SELECT id FROM numbers WHERE rank() OVER (ORDER BY id) > 1": dict.fromkeys(EVERY, NUMBERED),
}
"""What each engine refuses whatever the rows are; where it is not named, it answers."""


async def refusals(url: str, texts: dict[str, dict[str, str]]) -> list[tuple[str, InvalidSQLError]]:
    """The words that are expected of the engine, and its error, for each text that it refuses."""
    kind, refused = make_url(url).get_backend_name(), list[tuple[str, InvalidSQLError]]()
    async with DualResponseServer(
        url, base_url="http://127.0.0.1/resources", tables=NUMBERS.metadata
    ) as dual:
        for sql, words in texts.items():
            if kind in words:
                with pytest.raises(InvalidSQLError) as error:
                    await dual.create_response(dual.sql.resolve(sql).select, name="x", is_text=True)
                refused.append((words[kind], error.value))
    return refused


async def test_what_stands_where_it_cannot_is_a_mistake_of_the_text(numbers: str) -> None:
    for words, error in await refusals(numbers, MISPLACED):
        assert words in str(error)
        assert "log" not in error.hint


MISSING = {
    "SELECT round(CAST(id AS DOUBLE PRECISION), 2) AS x FROM numbers": {
        "postgresql": "function round(double precision, integer)"
    },
    "SELECT sum(word) AS x FROM numbers": {
        "postgresql": "function sum(character varying)",
        "duckdb": "function sum(VARCHAR)",
    },
    "SELECT id FROM numbers WHERE word = id": {"postgresql": "operator character varying = bigint"},
    "SELECT id FROM numbers WHERE word > CURRENT_DATE": {
        "postgresql": "operator character varying > date",
        "duckdb": "comparison of VARCHAR and DATE",
    },
    "SELECT date(word, word) AS x FROM numbers": {
        "postgresql": "function date(character varying, character varying)"
    },
}
"""What each engine lacks for the types of the values; where it is not named, it answers."""


async def test_an_operation_that_the_database_lacks_is_named(numbers: str) -> None:
    for operation, error in await refusals(numbers, MISSING):
        assert error.message == f"The database has no {operation}."
        assert "cast" in error.hint


async def test_an_operation_on_a_type_that_is_not_the_databases_own_is_not_named(postgresql_url: str) -> None:
    moods = Table(
        "moods", MetaData(), Column("mood", Enum("calm", "glad", name="secret_mood"), primary_key=True)
    )
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(moods.metadata.create_all)
    async with DualResponseServer(
        postgresql_url, base_url="http://127.0.0.1/resources", tables=moods.metadata
    ) as dual:
        with pytest.raises(DualResponseError, match="no such function") as error:
            await dual.create_response(select(func.upper(moods.c.mood)), name="x", is_text=True)
    assert "secret_mood" not in str(error.value)


@pytest.mark.parametrize("call", ["median(size)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY size)"])
async def test_a_median_of_mariadb_has_a_window(call: str, mariadb_url: str) -> None:
    column = Column("size", BigInteger)
    table = Table("schools", MetaData(), Column("id", BigInteger, primary_key=True), column)
    async with opened(mariadb_url) as engine, engine.begin() as connection:
        await connection.run_sync(table.metadata.create_all)
        await connection.execute(insert(table), [{"id": number, "size": number} for number in (1, 2, 6)])
    async with DualResponseServer(
        mariadb_url, base_url="http://127.0.0.1/resources", tables=table.metadata
    ) as dual:
        with pytest.raises(InvalidSQLError, match=r"needs OVER") as error:
            dual.sql.resolve(f"SELECT {call} AS x FROM schools")
        assert "SELECT DISTINCT" in error.value.hint
        query = dual.sql.resolve(f"SELECT DISTINCT {call} OVER (PARTITION BY id > 0) AS x FROM schools")
        response = await dual.create_response(query.select, name="x", is_text=True)
    assert [float(row["x"]) for row in response.sample] == [2]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("call", ["rank()", "lag(rate)", "row_number()"])
def test_a_function_of_windows_has_one(dialect: str, call: str) -> None:
    error = refused(f"SELECT {call} AS x FROM school", dialect)
    assert isinstance(error, InvalidSQLError)
    assert "needs OVER (...)" in error.message
    read_select(f"SELECT {call} OVER (ORDER BY rate) AS x FROM school", REGISTRY, dialect)
    read_select(f"SELECT {call} OVER w AS x FROM school WINDOW w AS (ORDER BY rate)", REGISTRY, dialect)


def test_what_is_offered_is_served() -> None:
    """No hint names a function that is refused in its turn."""
    for dialect in ("sqlite", "postgresql", "mysql", "duckdb"):
        offered: Any = text_of(dialect)
        known = {
            *allowed_functions(offered),
            "cast",
            "substring",
            "case",
            "over",
            "group",
            "extract",
            "date_trunc",
        }
        for name, hint in offered.instead.items():
            called = re.findall(r"(\w+)\(", hint.lower())
            assert [word for word in called if word not in known] == [], (dialect, name)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
def test_the_rows_of_values_are_those_of_a_list(dialect: str) -> None:
    def bound(condition: str) -> list[Any]:
        statement = read_select(f"SELECT id FROM school WHERE {condition}", REGISTRY, dialect)
        return list(statement.compile().params.values())

    days = "('2001-02-03'), ('2002-02-03')"
    assert bound(f"opened IN (VALUES {days})") == bound(f"opened IN ({days})")
    assert bound("(id, state) IN (VALUES (1, 'NJ'), (2, 'NY'))") == [1, "NJ", 2, "NY"]
    for wrong in ("id IN (VALUES (1, 2), (3, 4))", "(id, rate) IN (VALUES (1), (2))"):
        assert (
            refused(f"SELECT id FROM school WHERE {wrong}", dialect).hint
            == "Give each row of IN as many values as stand before IN."
        )


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("operator", ["=", "<>", ">", "<="])
def test_a_row_beside_a_subquery_is_told_what_works(dialect: str, operator: str) -> None:
    query = "SELECT school_id, id FROM program WHERE id = 1"
    for sides in (f"(id, id) {operator} ({query})", f"({query}) {operator} (id, id)"):
        error = refused(f"SELECT id FROM school WHERE {sides}", dialect)
        assert isinstance(error, ForbiddenSQLError)
        assert error.message == "A comparison of a row with a subquery cannot be run here."
        assert "CROSS JOIN (SELECT x, y ...) AS s WHERE (t.a, t.b) > (s.x, s.y)" in error.hint
    of_it = f"FROM school AS t CROSS JOIN ({query}) AS s WHERE (t.id, t.id) {operator} (s.school_id, s.id)"
    read_select(f"SELECT t.id {of_it}", REGISTRY, dialect)


@pytest.mark.parametrize(
    ("kind", "said", "written"),
    [
        (Uuid(), "no uuid", "123e4567-e89b-12d3-a456-426614174000"),
        (Integer(), "no integer", "whole number"),
        (Numeric(6, 3), "no numeric", "digits"),
        (Double(), "no double", "digits"),
        (Date(), "no date", "ISO 8601"),
        (DateTime(), "no datetime", "ISO 8601"),
        (Time(), "no time", "ISO 8601"),
    ],
)
def test_how_to_write_a_constant_is_said_for_its_type(kind: Any, said: str, written: str) -> None:
    table = Table("thing", MetaData(), Column("it", kind))
    with pytest.raises(InvalidSQLError, match=said) as error:
        read_select("SELECT it FROM thing WHERE it = 'nonsense'", Registry(table.metadata), "postgresql")
    assert written in error.value.hint
    # The example is one.
    for example in re.findall("'(.+)'", error.value.hint):
        read_select(f"SELECT it FROM thing WHERE it = '{example}'", Registry(table.metadata), "postgresql")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("condition", ["status = {}", "status IN ('new', {})", "status <> {}"])
def test_a_value_that_an_enumeration_lacks_is_answered_with_those_it_has(
    dialect: str, condition: str
) -> None:
    kinds = Enum("new", "shipped", "won't ship", name="kinds")
    wrong = "'Shipped'"
    registry = Registry(Table("orders", MetaData(), Column("id", Integer), Column("status", kinds)).metadata)
    with pytest.raises(InvalidSQLError) as error:
        read_select(f"SELECT id FROM orders WHERE {condition.format(wrong)}", registry, dialect)
    offered = re.findall(r"'(?:[^']|'')+'", error.value.hint)
    assert offered == ["'new'", "'shipped'", "'won''t ship'"]
    for value in offered:
        read_select(f"SELECT id FROM orders WHERE {condition.format(value)}", registry, dialect)


NAMED = ("Full Name", "order", "MixedCase", "plain", 'with "quotes"', "with `ticks`")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize("name", NAMED)
def test_a_suggested_name_works_as_it_is_written(dialect: str, name: str) -> None:
    metadata = MetaData()
    Table(f"{name} table", metadata, Column(name, Integer), Column(f"{name} 2", Integer))
    registry = Registry(metadata)
    with pytest.raises(DualResponseError) as error:
        read_select("SELECT 1 FROM tabel", registry, dialect)
    table = re.split(r"Did you mean |There are: ", error.value.hint)[1].rstrip(".?")
    wrong = re.sub(r"\W", "", name) + "x"
    with pytest.raises(DualResponseError) as error:
        read_select(f"SELECT t.{wrong} FROM {table} AS t", registry, dialect)
    for column in re.split(r" or |, ", error.value.hint.split(": ")[-1].split("mean ")[-1].rstrip(".?")):
        read_select(f"SELECT t.{column} FROM {table} AS t", registry, dialect)


@pytest.mark.parametrize("sql", ["SELECT when FROM visits", "SELECT id, When FROM visits WHERE when > 1"])
def test_a_column_that_is_a_word_of_sql_is_written_in_quotes(sql: str) -> None:
    visits = Table(
        "visits", MetaData(), Column("id", Integer), Column("when", Date), Column("order", Integer)
    )
    with pytest.raises(InvalidSQLError) as refusal:
        read_select(sql, Registry(visits.metadata), "duckdb")
    assert 'written in quotes: "when".' in refusal.value.hint
    assert "quotes" not in refused("SELECT when FROM school").hint
