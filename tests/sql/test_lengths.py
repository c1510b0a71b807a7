"""No text makes a database search megabytes that it made of a few characters: time limits do not end that."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from dualsql.errors import ForbiddenSQLError, InvalidSQLError
from dualsql.freeze import Registry
from dualsql.sql import read_select
from dualsql.sql.parse import LONGEST_NUMBER, MAXIMUM_LENGTH, MAXIMUM_SELECTS
from tests.schools import Base

LONG = (
    "repeat('ab', 1000000)",
    "lpad('a', 1000000, 'a')",
    "rpad('a', 1000000, 'a')",
    "repeat(repeat('ab', 1000), 1000)",
    "replace(repeat('a', 1000), 'a', repeat('b', 1000))",
    "repeat('a', (SELECT 1000000))",
    "repeat('a', 1000000) || 'b'",
    "upper(repeat('a', 1000000))",
    "(SELECT repeat('a', 1000000))",
    "coalesce(name, repeat('a', 1000000))",
    "CASE WHEN id > 0 THEN repeat('a', 1000000) END",
    "string_agg(repeat('a', 10000), '')",
)
SEARCHES = (
    "strpos({0}, {0})",
    "replace({0}, {0}, 'x')",
    "split_part({0}, {0}, 2)",
    "btrim({0}, {0})",
    "translate({0}, {0}, 'x')",
)
CALLS = [search.format(text) for search in SEARCHES for text in LONG]
DOCUMENTS = {
    "postgresql": (
        "('[' || {} || '1]')::jsonb",
        "CAST({} AS json)",
        "to_jsonb({})",
        "string_to_array({}, ',')",
        "regexp_split_to_array({}, ',')",
        "regexp_split_to_table({}, ',')",
    ),
    "mysql": ("json_extract({}, '$[1]')", "json_valid({})"),
    "duckdb": ("string_split({}, ',')", "CAST({} AS JSON)"),
}
HARMLESS = (
    "string_to_array(name, ',')",
    "string_to_array(string_agg(name, ','), ',')",
    "CAST(name AS jsonb)",
    "regexp_replace(string_agg(name, ', '), '[0-9]+', '#', 'g')",
    "strpos(name, 'a')",
    "replace(name, ', ', ';')",
    "replace(string_agg(name, ', '), ',', ';')",
    "split_part(name, ' ', 1)",
    "repeat('*', id)",
    "repeat('*', 100)",
    "strpos(substr(repeat('a', id), 1, 100), 'a')",
    "btrim(lpad(name, 20, ' '))",
)


@pytest.mark.quick(20)
@pytest.mark.parametrize("call", CALLS)
def test_a_search_of_long_texts_is_refused(call: str) -> None:
    for text in (
        f"SELECT {call} FROM schools",
        f"WITH t AS (SELECT {call} AS x FROM schools) SELECT x FROM t",
        f"SELECT id FROM schools WHERE {call} IS NULL",
    ):
        with pytest.raises(InvalidSQLError, match="too long"):
            read_select(text, Registry(Base), "postgresql")


@pytest.mark.parametrize("text", LONG[:6])
@pytest.mark.parametrize("search", SEARCHES)
def test_lengths_are_followed_through_subqueries(search: str, text: str) -> None:
    for query in (
        f"SELECT {search.format('x')} FROM (SELECT {text} AS x FROM schools) AS s",
        f"WITH s AS (SELECT {text} AS x), t AS (SELECT x FROM s) SELECT {search.format('x')} FROM t",
        f"SELECT {search.format('x')} FROM (SELECT 'a' AS x UNION ALL SELECT {text}) AS s",
    ):
        with pytest.raises(InvalidSQLError, match="too long"):
            read_select(query, Registry(Base), "postgresql")


def test_a_text_that_grows_with_each_round_is_refused() -> None:
    rounds = (
        "WITH RECURSIVE t(x, n) AS (SELECT 'a', 1 UNION ALL SELECT x || 'abc', n + 1 FROM t WHERE n < 25)"
    )
    with pytest.raises(InvalidSQLError, match="too long"):
        read_select(f"{rounds} SELECT strpos(x, x || 'b') FROM t", Registry(Base), "postgresql")


def test_a_text_that_is_cut_with_each_round_is_no_longer_than_before() -> None:
    """How a list of texts is split where the database has no function for it."""
    item, rest = "substr({0}, 1, instr({0}, ',') - 1)", "substr({0}, instr({0}, ',') + 1)"
    rounds = (
        f"WITH t AS (SELECT id, {item.format('name')} AS item, {rest.format('name')} AS rest FROM schools "
        f"UNION ALL SELECT id, {item.format('rest')}, {rest.format('rest')} FROM t WHERE rest <> '') "
    )
    read_select(f"{rounds} SELECT item FROM t", Registry(Base), "sqlite")
    grows = "u(rest, n) AS (SELECT 'a', 1 UNION ALL SELECT rest || 'abc', n + 1 FROM u WHERE n < 25)"
    another = (
        "t(rest, n) AS (SELECT 'a', 1 UNION ALL SELECT substr(u.rest, 2), t.n + 1 FROM t JOIN u ON u.n = t.n)"
    )
    with pytest.raises(InvalidSQLError, match="too long"):
        read_select(f"WITH {grows}, {another} SELECT instr(rest, rest) FROM t", Registry(Base), "sqlite")


@pytest.mark.parametrize("dialect", DOCUMENTS)
def test_no_long_constant_becomes_a_document_or_a_list(dialect: str) -> None:
    """PostgreSQL reads 8 MB of JSON within no time limit, and millions of elements hold our event loop."""
    for call in DOCUMENTS[dialect]:
        with pytest.raises(InvalidSQLError, match="too long"):
            read_select(f"SELECT {call.format('repeat(name, 4000)')} FROM schools", Registry(Base), dialect)
        read_select(f"SELECT {call.format('name')} FROM schools", Registry(Base), dialect)


def test_a_pattern_costs_more_than_a_word() -> None:
    """MariaDB's regexp_replace runs for seconds beyond a time limit of 2."""
    with pytest.raises(InvalidSQLError, match="too long"):
        read_select("SELECT regexp_replace(repeat('a', 4000000), 'a', 'bbbb')", Registry(Base), "mysql")
    read_select("SELECT regexp_replace(repeat('a', 1000000), 'a', 'bbbb')", Registry(Base), "mysql")


MADE = (
    "repeat(name, {})",
    "lpad(name, {}, 'a')",
    "rpad('a', {}, name)",
    "replace(name, 'a', repeat('a', {}))",
)


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("sqlite", "printf('%1000000d', id)"),
        ("sqlite", "printf('%.*c', 1000000, name)"),
        ("sqlite", "printf('%' || '1000000d', id)"),
        ("sqlite", "printf(name, id)"),
        ("duckdb", "printf('%-20000s', name)"),
        ("duckdb", "format('{:>100000}', name)"),
        ("postgresql", "to_char(id, 'FM%10000')"),
    ],
)
def test_a_format_is_constant_and_narrow(dialect: str, call: str) -> None:
    """SQLite's printf() returns NULL where the text is longer than the limit of the connection."""
    with pytest.raises(InvalidSQLError, match="constant format"):
        read_select(f"SELECT {call} FROM schools", Registry(Base), dialect)


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("sqlite", "printf('%5.2f%% of %s, 12345 Main St', id, name)"),
        ("duckdb", "format('{:>100} {}', name, 12345)"),
        ("mysql", "format(id / 2, 2)"),
        ("postgresql", "to_char(id, name)"),
    ],
)
def test_other_formats_are_taken(dialect: str, call: str) -> None:
    read_select(f"SELECT {call} FROM schools", Registry(Base), dialect)


@pytest.mark.parametrize("call", MADE)
def test_duckdb_makes_no_long_text_of_each_row(call: str) -> None:
    """It computes 2,048 rows at once, and looks neither at its time limit nor at its memory limit meanwhile."""
    for number in ("60000", "id", "id * 1000", "greatest(id, 10)"):
        with pytest.raises(InvalidSQLError, match="text"):
            read_select(f"SELECT count({call.format(number)}) FROM schools", Registry(Base), "duckdb")
    for number in ("40", "least(id, 40)"):
        read_select(f"SELECT {call.format(number)} AS x FROM schools", Registry(Base), "duckdb")


@pytest.mark.parametrize(
    "joined",
    [" || ".join(["x"] * 9), f"concat({', '.join(['x'] * 9)})", "concat_ws(x, id, id, id, id, id, id)"],
)
def test_duckdb_joins_no_long_text_of_each_row(joined: str) -> None:
    for expression, message in (("rpad(name, 40000, name)", "of each row|may make"), ("name", None)):
        query = f"SELECT count({joined}) FROM (SELECT id, {expression} AS x FROM schools) AS s"
        with pytest.raises(InvalidSQLError, match=message) if message else nullcontext():
            read_select(query, Registry(Base), "duckdb")
    read_select("SELECT string_agg(name, ', ') || '.' AS x FROM schools", Registry(Base), "duckdb")


@pytest.mark.parametrize("dialect", ["duckdb", "mysql", "postgresql", "sqlite"])
@pytest.mark.parametrize(
    ("next_text", "is_refused"),
    [
        ("concat(x, x)", True),
        ("concat(x, y)", True),
        ("x || 'a' || x", True),
        ("x || '/' || name || n", False),
        ("replace(x, 'a', 'aa')", True),
        ("concat(replace(x, 'a', 'aa'), 'b')", True),
        ("concat(x, '/', name)", False),
        ("concat(x, '/', n)", False),
        ("concat(x, replace(name, 'a', 'aa'))", False),
        ("substr(x, length(x) / 2)", False),
        ("replace(x, ',', '')", False),
        ("replace(x, substr(x, 1, 1), y)", True),
        ("coalesce(nullif(x, ''), y)", False),
        ("CASE WHEN length(x) > 3 THEN substr(x, length(x) - 3) ELSE x END", False),
        ("CASE WHEN length(x) > 3 THEN concat(x, x) ELSE x END", True),
    ],
)
def test_texts_of_a_recursive_query_do_not_double(dialect: str, next_text: str, *, is_refused: bool) -> None:
    if dialect == "mysql" and "||" in next_text:  # it is OR there
        next_text = f"concat({next_text.replace(' || ', ', ')})"
    query = (
        "WITH RECURSIVE t(x, y, n) AS (SELECT name, name, 1 FROM schools UNION ALL "
        f"SELECT {next_text}, y, n + 1 FROM t JOIN schools ON schools.id = n WHERE n < 40) SELECT x FROM t"
    )
    with pytest.raises(InvalidSQLError, match="grow too fast") if is_refused else nullcontext():
        read_select(query, Registry(Base), dialect)


@pytest.mark.parametrize("dialect", ["duckdb", "postgresql", "sqlite"])
@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        ("SELECT z || z, n + 1 FROM (SELECT x AS z, n FROM t) AS s WHERE n < 40", True),
        ("SELECT z, n + 1 FROM (SELECT x || x AS z, n FROM t) AS s WHERE n < 40", True),
        ("SELECT (SELECT z || z FROM (SELECT x AS z) AS k), n + 1 FROM t WHERE n < 40", True),
        (
            "SELECT (SELECT string_agg(z, '') FROM (SELECT x AS z UNION ALL SELECT x) AS k), n + 1 FROM t WHERE n < 40",
            True,
        ),
        ("SELECT z || 'a', n + 1 FROM (SELECT x AS z, n FROM t) AS s WHERE n < 40", False),
    ],
)
def test_nor_by_way_of_subqueries(dialect: str, step: str, *, is_refused: bool) -> None:
    query = f"WITH RECURSIVE t(x, n) AS (SELECT 'x', 1 UNION ALL {step}) SELECT x FROM t"
    with pytest.raises(InvalidSQLError, match="grow too fast") if is_refused else nullcontext():
        read_select(query, Registry(Base), dialect)


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        ("sqlite", "hex(x)"),
        ("sqlite", "json_quote(x)"),
        ("mysql", "hex(x)"),
        ("postgresql", "quote_literal(x)"),
    ],
)
def test_nor_by_way_of_codes(dialect: str, call: str) -> None:
    query = "WITH RECURSIVE t(x, n) AS (SELECT 'x', 1 UNION ALL SELECT {}, n + 1 FROM t WHERE n < 40) SELECT x FROM t"
    with pytest.raises(InvalidSQLError, match="grow too fast"):
        read_select(query.format(call), Registry(Base), dialect)
    read_select(query.format(call.replace("(x)", "(n)")), Registry(Base), dialect)


@pytest.mark.parametrize("call", HARMLESS)
def test_what_people_write_is_not(call: str) -> None:
    read_select(f"SELECT {call} AS x FROM schools", Registry(Base), "postgresql")


def test_longer_texts_than_that_are_refused_alone() -> None:
    with pytest.raises(InvalidSQLError, match="too long"):
        read_select("SELECT repeat('ab', 10000000)", Registry(Base), "postgresql")


BOUNDS = {
    "characters": (lambda n: f"SELECT '{'a' * (n - 9)}'", MAXIMUM_LENGTH),
    "SELECTs": (lambda n: " UNION ALL ".join(["SELECT 1"] * n), MAXIMUM_SELECTS),
    "digits": (lambda n: f"SELECT {'1' * n}", LONGEST_NUMBER),
}
"""By what is bounded: a text of so much of it, and the most."""


@pytest.mark.parametrize("what", BOUNDS)
def test_the_most_is_read_and_one_more_is_refused(what: str) -> None:
    text, most = BOUNDS[what]
    read_select(text(most), Registry(Base), "postgresql")
    with pytest.raises(InvalidSQLError, match="than"):
        read_select(text(most + 1), Registry(Base), "postgresql")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1; SELECT 2", "More than one statement"),
        ("DELETE FROM schools", "not a SELECT"),
        ("SELECT pg_sleep(1)", r"pg_sleep\(\)"),
    ],
)
def test_other_statements_and_functions_are_refused(text: str, message: str) -> None:
    with pytest.raises(ForbiddenSQLError, match=message):
        read_select(text, Registry(Base), "postgresql")


def test_a_text_of_a_comment_alone_is_not_taken_for_several_statements() -> None:
    with pytest.raises(InvalidSQLError, match="no SQL but a comment"):
        read_select("-- SELECT 1", Registry(Base), "postgresql")


def test_a_text_that_doubles_when_it_is_written_out_is_refused() -> None:
    doubled = "SELECT id AS x0 FROM schools"
    for number in range(1, 15):
        doubled = f"SELECT x{number - 1} + x{number - 1} AS x{number} FROM ({doubled}) AS s{number}"
    with pytest.raises(InvalidSQLError, match="grows too large"):
        read_select(doubled, Registry(Base), "postgresql")


@pytest.mark.parametrize(
    "call", ["regexp_matches(name, {})", "regexp_replace(name, {}, 'b')", "name SIMILAR TO {}"]
)
def test_a_pattern_is_a_constant_where_the_database_runs_in_our_process(call: str) -> None:
    """DuckDB compiled `'(?:\\pL\\PL\\S\\D){90}' || id` for each row, 9 seconds beyond a time limit of 2."""
    for pattern in ("'(a){90}' || id", "name", "upper('a')"):
        with pytest.raises((InvalidSQLError, ForbiddenSQLError)):
            read_select(f"SELECT id FROM schools WHERE {call.format(pattern)}", Registry(Base), "duckdb")
    read_select("SELECT id FROM schools WHERE regexp_matches(name, 'a+')", Registry(Base), "duckdb")
