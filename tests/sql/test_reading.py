"""What a text becomes: names, constants, joins, errors a model can act on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    insert,
)
from sqlalchemy.dialects import postgresql, sqlite

from dualsql import DualResponseServer, Registry
from dualsql.columns.result import unique_names
from dualsql.errors import ForbiddenSQLError, InvalidSQLError, UnknownColumnError, UnknownTableError
from dualsql.freeze import freeze, thaw
from dualsql.freeze.types import FUNCTIONS
from dualsql.sql import read_select
from dualsql.sql.functions import allowed_functions
from tests.engines import opened, text_of

METADATA = MetaData()
Table(
    "school",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("state", String),
    Column("opened", Date),
    Column("rate", Numeric(6, 3)),
    Column("updated", DateTime(timezone=True)),
)
Table(
    "program",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("school_id", Integer, ForeignKey("school.id")),
    Column("Title", String),
)
REGISTRY = Registry(METADATA)
DIALECTS: dict[str, Any] = {"postgresql": postgresql.asyncpg.dialect(), "sqlite": sqlite.dialect()}


def written(text: str, dialect: str = "postgresql", **parameters: Any) -> str:
    """The SQL that a text becomes, on one line, once it was stored and read again."""
    statement = read_select(text, REGISTRY, dialect, parameters)
    stored = thaw(freeze(statement, REGISTRY, dialect=DIALECTS[dialect]), REGISTRY)
    return " ".join(str(stored.compile(dialect=DIALECTS[dialect])).split())


def values(text: str, dialect: str = "postgresql", **parameters: Any) -> list[Any]:
    """The bound values of what a text becomes."""
    statement = read_select(text, REGISTRY, dialect, parameters)
    return list(statement.compile(dialect=DIALECTS[dialect]).params.values())


def test_constants_are_bound() -> None:
    text = "SELECT name FROM school WHERE state = 'NJ' -- and nothing else"
    assert written(text) == "SELECT school.name FROM school AS school WHERE school.state = $1::VARCHAR"
    assert values(text) == ["NJ"]


def test_a_semicolon_and_comments_are_accepted() -> None:
    assert written("/* a */ SELECT id FROM school; -- b") == "SELECT school.id FROM school AS school"


def test_a_constant_takes_the_type_of_its_column() -> None:
    sql = written("SELECT id FROM school WHERE opened >= '2001-02-03' AND rate > 0.05")
    assert "school.opened >= $1::DATE" in sql
    assert "school.rate > $2::NUMERIC" in sql


def test_a_date_that_is_none_is_said_to_be_none() -> None:
    with pytest.raises(InvalidSQLError, match="no date"):
        read_select("SELECT id FROM school WHERE opened > 'yesterday'", REGISTRY, "postgresql")


def test_the_same_text_is_the_same_parameter() -> None:
    """Or PostgreSQL would not see that the column is the group."""
    sql = written("SELECT substr(name, 1, 2), count(*) FROM school GROUP BY substr(name, 1, 2)")
    assert sql.count("substr(school.name, $1::INTEGER, $2::INTEGER)") == 2


def test_division_is_the_engines_own() -> None:
    assert "school.id / $1::INTEGER" in written("SELECT id / 2 FROM school")
    assert "(school.id + $1::INTEGER) / $2::INTEGER" in written("SELECT (id + 1) / 2 FROM school")
    assert "school.id - ($1::INTEGER - $2::INTEGER)" in written("SELECT id - (1 - 2) FROM school")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT median(rate) FROM school",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rate) FROM school",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY rate) FROM school",
    ],
)
def test_percentiles_are_refused_in_words_on_sqlite(sql: str) -> None:
    with pytest.raises(ForbiddenSQLError) as error:
        read_select(sql, REGISTRY, "sqlite")
    assert "row_number()" in error.value.hint


def test_a_parameter_of_the_text_is_bound() -> None:
    assert values("SELECT id FROM school WHERE state = :state", state="NJ") == ["NJ"]
    with pytest.raises(InvalidSQLError, match="no value"):
        values("SELECT id FROM school WHERE state = :state")
    with pytest.raises(InvalidSQLError, match="no parameter"):
        values("SELECT id FROM school", state="NJ")
    with pytest.raises(ForbiddenSQLError):
        values("SELECT id FROM school WHERE state = :state", state=["NJ"])


def test_names_are_found_without_regard_to_case() -> None:
    assert '"Title"' in written("SELECT title FROM PROGRAM")
    assert '"Title"' in written('SELECT "Title" FROM program')
    assert '"Title"' in written('SELECT "title" FROM program')


def test_an_unknown_table_comes_with_suggestions() -> None:
    with pytest.raises(UnknownTableError) as error:
        written("SELECT * FROM schools")
    assert error.value.details["suggestions"] == ["school"]
    assert "Did you mean school?" in error.value.hint


def test_an_unknown_column_comes_with_suggestions() -> None:
    with pytest.raises(UnknownColumnError) as error:
        written("SELECT nam FROM school")
    assert "Did you mean name?" in error.value.hint
    assert "state" in error.value.details["columns"]


def test_an_ambiguous_column_says_how_to_write_it() -> None:
    with pytest.raises(InvalidSQLError) as error:
        written("SELECT id FROM school JOIN program ON school_id = school.id")
    assert "school.id or program.id" in error.value.hint


def test_an_unknown_function_comes_with_a_guess() -> None:
    with pytest.raises(ForbiddenSQLError) as error:
        written("SELECT uper(name) FROM school")
    assert "upper" in error.value.hint


@pytest.mark.parametrize("call", ["substring(name)", "substring(name FROM )"])
def test_substring_with_a_wrong_number_of_arguments_is_refused(call: str) -> None:
    with pytest.raises(InvalidSQLError, match="another number of arguments"):
        written(f"SELECT {call} FROM school")


def test_using_makes_one_column_of_two() -> None:
    sql = written("SELECT id FROM school AS a LEFT JOIN school AS b USING (id)")
    assert sql == "SELECT a.id FROM school AS a LEFT OUTER JOIN school AS b ON a.id = b.id"
    star = written('SELECT * FROM program AS a JOIN program AS b USING (id, school_id, "Title")')
    assert star.startswith('SELECT a.id, a.school_id, a."Title" FROM')


def test_order_by_takes_the_alias_first_and_group_by_the_column() -> None:
    sql = written("SELECT upper(name) AS name, count(*) AS n FROM school GROUP BY name ORDER BY name, 2 DESC")
    assert "GROUP BY school.name ORDER BY name, n DESC" in sql


def test_nulls_stand_where_the_engine_puts_them_unless_it_is_said() -> None:
    assert "NULLS" not in written("SELECT id FROM school ORDER BY name, state DESC")
    assert written("SELECT id FROM school ORDER BY name NULLS FIRST").endswith(
        "ORDER BY school.name NULLS FIRST"
    )
    assert "NULLS" not in written("SELECT id FROM school ORDER BY name NULLS LAST")
    assert written("SELECT id FROM school ORDER BY name NULLS LAST", "sqlite").endswith("NULLS LAST")


def test_a_cte_may_have_the_name_of_a_table() -> None:
    """A narrowed table could not be told from it: it gets another name."""
    sql = written("WITH school AS (SELECT * FROM school WHERE state = 'NJ') SELECT count(*) FROM school")
    assert "WITH dualsql_part_1_school AS" in sql
    assert "FROM dualsql_part_1_school AS dualsql_part_2_school" in sql


@pytest.mark.parametrize("name", ["a\x10", "a\nb", "n" * 2000])
@pytest.mark.parametrize(
    "text",
    [
        'SELECT id AS "{}" FROM school',
        'SELECT 1 AS a FROM school AS "{}"',
        'WITH "{}" AS (SELECT 1 AS a) SELECT a FROM "{}"',
        'WITH c("{}") AS (SELECT 1) SELECT * FROM c',
        'SELECT * FROM (SELECT 1) AS t("{}")',
    ],
)
def test_a_name_that_cannot_be_stored_is_the_mistake_of_the_text(text: str, name: str) -> None:
    for dialect in DIALECTS:
        with pytest.raises(InvalidSQLError, match="control characters, or is too long"):
            written(text.replace("{}", name), dialect)


def test_a_recursive_cte() -> None:
    sql = written(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n"
    )
    assert sql.startswith("WITH RECURSIVE dualsql_part_1_n(i) AS")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_recursive_cte_without_the_word(dialect: str) -> None:
    """SQLite, SQL Server and Oracle do not require it, and the name can mean nothing else."""
    text = "n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n"
    assert written(f"WITH {text}", dialect) == written(f"WITH RECURSIVE {text}", dialect)


def test_without_the_word_a_name_means_the_table_that_has_it() -> None:
    sql = written(
        "WITH school AS (SELECT id FROM school UNION ALL SELECT id FROM school) SELECT id FROM school"
    )
    assert "RECURSIVE" not in sql


def test_intersect_binds_tighter_than_union() -> None:
    sql = written("SELECT 1 AS a UNION SELECT 2 INTERSECT SELECT 3")
    assert sql.index("UNION") < sql.index("FROM (SELECT")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ,()",
        "SELECT 1 WHERE 1 IN ()",
        "SELECT 1 WHERE (1 IN )",
        "",
        "   ",
        "SELECT",
        "SELECT FROM WHERE",
        "SELECT 'open",
        "WITH x",
        "SELECT (1",
    ],
)
def test_what_is_no_sql_is_said_to_be_none(text: str) -> None:
    with pytest.raises((InvalidSQLError, ForbiddenSQLError)) as error:
        written(text)
    assert error.value.hint


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
def test_every_function_of_a_text_can_be_stored(dialect: str) -> None:
    assert {*allowed_functions(text_of(dialect)), *text_of(dialect).table_functions} <= FUNCTIONS


@pytest.mark.parametrize("text", ["id = NULL", "NULL <> id", "CASE id WHEN NULL THEN true ELSE false END"])
def test_nothing_equals_null(text: str) -> None:
    assert "IS NULL" not in written(f"SELECT name FROM school WHERE {text}")


def test_products_keep_their_digits() -> None:
    """SQLite's rows are rounded to what SQLAlchemy thinks the type is."""
    [product] = read_select("SELECT rate * 0.5 FROM school", REGISTRY, "sqlite").selected_columns
    assert isinstance(product.type, Double)
    [exact] = read_select("SELECT rate * 0.5 FROM school", REGISTRY, "postgresql").selected_columns
    assert exact.type.scale is None  # type: ignore[attr-defined]
    [total] = read_select("SELECT sum(rate) FROM school", REGISTRY, "sqlite").selected_columns
    assert total.type.scale == 3  # type: ignore[attr-defined]


def test_what_is_one_of_several_has_the_type_they_have_in_common() -> None:
    texts = {
        "SELECT coalesce(id, rate) FROM school": Numeric,
        "SELECT CASE WHEN id > 1 THEN 1 ELSE 0.5 END FROM school": Numeric,
        "SELECT id FROM school UNION SELECT rate FROM school": Numeric,
        "SELECT NULL AS n UNION ALL SELECT id FROM school": Integer,
        "SELECT id / 2 FROM school": Integer,
        "SELECT 3000000000": BigInteger,
    }
    for text, kind in texts.items():
        [column] = read_select(text, REGISTRY, "postgresql").selected_columns
        assert isinstance(column.type, kind), text
    [column] = read_select("SELECT id / 2 FROM school", REGISTRY, "mysql").selected_columns
    assert isinstance(column.type, Numeric)


def test_a_table_that_may_not_be_known_of_is_unknown() -> None:
    with pytest.raises(UnknownTableError) as refusal:
        read_select(
            "SELECT * FROM program", REGISTRY, "sqlite", is_visible=lambda table: table.name == "school"
        )
    assert refusal.value.details["tables"] == ["school"]


def test_an_aggregate_that_the_engine_lacks_is_refused_here() -> None:
    with pytest.raises(ForbiddenSQLError) as error:
        read_select("SELECT state, median(rate) FROM school GROUP BY state", REGISTRY, "sqlite")
    assert "median()" in error.value.message and "median" not in allowed_functions(text_of("sqlite"))
    read_select("SELECT state, median(rate) FROM school GROUP BY state", REGISTRY, "duckdb")


@pytest.mark.parametrize("form", ["", " FILTER (WHERE id > 1)"])
def test_a_value_between_two_decimals_has_more_digits(form: str) -> None:
    """PostgreSQL's is a double. With the type of its values, 1500.625 was 1500.62."""
    text = f"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rate){form} AS x FROM school"
    [middle] = read_select(text, REGISTRY, "postgresql").selected_columns
    assert isinstance(middle.type, Double)
    [middle] = read_select(text, REGISTRY, "duckdb").selected_columns
    assert isinstance(middle.type, Numeric)


def repeated(opening: str, closing: str, times: int) -> str:
    return f"SELECT {opening * times}id{closing * times} AS x FROM school"


def chained(query: str, times: int) -> str:
    queries = "".join(f", a{n + 1} AS ({query.format(f'a{n}')})" for n in range(times))
    return f"WITH a0 AS (SELECT id AS x FROM school){queries} SELECT x FROM a{times}"


GROWING = {
    "BETWEEN": lambda times: repeated("(", " BETWEEN 1 AND 2)", times),
    "IN": lambda times: repeated("(", " IN (id, 2))", times),
    "CASE": lambda times: repeated("CASE ", " WHEN 1 THEN 1 WHEN id THEN 2 END", times),
    "nullif": lambda times: repeated("nullif(", ", 1)", times),
    "a column named twice": lambda times: chained("SELECT x + x AS x FROM {}", times),
    "a query read twice": lambda times: chained("SELECT a.x FROM {0} a CROSS JOIN {0} b", times),
    "a scalar query read twice": lambda times: chained(
        "SELECT (SELECT max(x) FROM {0}) AS x FROM {0}", times
    ),
    "UNION": lambda times: chained("SELECT x FROM {0} UNION ALL SELECT x FROM {0}", times),
    "ROLLUP": lambda times: f"SELECT 1 AS x FROM school GROUP BY {', '.join(['ROLLUP(id)'] * times)}",
    "CUBE": lambda times: f"SELECT 1 AS x FROM school GROUP BY CUBE({', '.join(['id'] * times)})",
}


_GROUPINGS = {"ROLLUP", "CUBE"}


@pytest.mark.long
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
def test_what_grows_when_names_are_written_out_is_refused(dialect: str) -> None:
    """Planners copy what is named: two to the power of twelve or more, without a look at their time limit."""
    unknown = _GROUPINGS if dialect in {"sqlite", "mysql"} else set()
    for form in GROWING.keys() - unknown:
        read_select(GROWING[form](3), REGISTRY, dialect)
        for times in (13, 24):
            with pytest.raises(InvalidSQLError):
                read_select(GROWING[form](times), REGISTRY, dialect)


async def test_a_part_of_a_document_on_mariadb(mariadb_url: str) -> None:
    """MariaDB has the functions of the operators that MySQL's texts are full of."""
    schools = Table("schools", MetaData(), Column("id", Integer, primary_key=True), Column("doc", String(80)))
    async with opened(mariadb_url) as engine, engine.begin() as connection:
        await connection.run_sync(schools.metadata.create_all)
        await connection.execute(insert(schools), [{"id": 1, "doc": '{"a": {"b": "x"}}'}])
    sql = "SELECT doc -> '$.a' AS a, doc ->> '$.a.b' AS b FROM schools WHERE doc ->> '$.a.b' = 'x'"
    async with DualResponseServer(
        mariadb_url, base_url="http://127.0.0.1:8000/resources", tables=schools.metadata
    ) as dual:
        response = await dual.create_response(dual.sql.resolve(sql).select, name="Parts")
    assert [dict(row) for row in response.sample] == [{"a": '{"b": "x"}', "b": "x"}]


def test_a_column_has_no_name_that_only_dualsql_writes() -> None:
    moved = read_select("SELECT opened + INTERVAL 1 DAY, group_concat(name) FROM school", REGISTRY, "mysql")
    assert unique_names(moved) == [
        "column_1",
        "group_concat",
    ]
    joined = read_select("SELECT string_agg(name, ',') FROM school", REGISTRY, "postgresql")
    assert unique_names(joined) == ["string_agg"]


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
@pytest.mark.parametrize(
    ("top", "limit"),
    [
        ("SELECT TOP 10 name FROM school ORDER BY id", "SELECT name FROM school ORDER BY id LIMIT 10"),
        ("select distinct top (3) state from school", "SELECT DISTINCT state FROM school LIMIT 3"),
        ("SELECT TOP 2 * FROM school WHERE id > 1;", "SELECT * FROM school WHERE id > 1 LIMIT 2"),
    ],
)
def test_top_is_a_limit(dialect: str, top: str, limit: str) -> None:
    assert written(top, dialect) == written(limit, dialect)


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT TOP 10 PERCENT name FROM school", r"percent_rank\(\) OVER"),
        ("SELECT TOP (10) PERCENT name FROM school", r"percent_rank\(\) OVER"),
        ("SELECT TOP 10 WITH TIES name FROM school ORDER BY id", r"by rank\(\) OVER"),
        ("SELECT TOP 10 name FROM school LIMIT 5", "Write LIMIT 10 at the end"),
        ("SELECT TOP 10 name FROM school UNION SELECT name FROM school", "Write LIMIT 10 at the end"),
        ("WITH s AS (SELECT TOP 10 name FROM school) SELECT * FROM s", "Write LIMIT 10 at the end"),
        ("SELECT TOP 1.5 name FROM school", "Write LIMIT 1"),
    ],
)
def test_top_that_is_no_limit_is_refused_with_what_to_write(sql: str, hint: str) -> None:
    with pytest.raises(InvalidSQLError, match="TOP is not read here") as error:
        read_select(sql, REGISTRY, "postgresql")
    assert re.search(hint, error.value.hint)


def test_top_is_a_name_elsewhere() -> None:
    assert "AS top" in written("SELECT name AS top FROM school ORDER BY top")
    assert "LIMIT" not in written("SELECT top.name FROM school AS top")


@pytest.mark.parametrize("clause", ["ORDER BY", "GROUP BY"])
def test_a_subquery_is_a_key(clause: str) -> None:
    text = f"SELECT 1 AS one FROM school {clause} (SELECT max(id) FROM school)"
    assert f"{clause} (SELECT max(" in str(read_select(text, REGISTRY, "sqlite"))
