"""Spark without a cluster: literals, types from their names, compiled SQL, and what is refused before a connection.

tests/spark has what needs a cluster.
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    cast,
    create_engine,
    select,
    types,
)

from dualsql import ConfigurationError, DualResponseServer
from dualsql.columns.exact import Unfit
from dualsql.databases.engines import parsed_url
from dualsql.databases.guard import FailureKind
from dualsql.databases.spark import BACKEND
from dualsql.databases.spark.dialect import SparkDialect, sqlalchemy_type
from dualsql.databases.spark.driver import SparkConnection, SparkError, literal, read_column, spark_error
from dualsql.databases.threads import new_synchronous_engine

URL = "hive://reader@127.0.0.1:1/default"
THINGS = Table(
    "things",
    MetaData(),
    Column("id", BigInteger, primary_key=True),
    Column("kind", String),
    Column("tags", types.ARRAY(Integer)),
    Column("details", types.JSON),
)
PRICED = Table("priced", MetaData(), Column("prices", types.ARRAY(Numeric(20, 10))))


def unescaped(written: str) -> str:
    """What Spark's parser makes of a literal that has escapes with four digits only."""
    assert written[0] == written[-1] == "'"
    parts = written[1:-1].split("\\")
    assert all(part[0] == "u" for part in parts[1:])
    return parts[0] + "".join(chr(int(part[1:5], 16)) + part[5:] for part in parts[1:])


@given(
    strategies.text(
        alphabet=strategies.one_of(strategies.sampled_from("'\"\\`${}%\n\r\t\0-/*;"), strategies.characters())
    )
)
def test_no_text_ends_its_literal_or_is_replaced_in_it(given_text: str) -> None:
    written = literal(given_text)
    assert not set(written[1:-1]) & set("'\"`$\n\r\0")
    assert unescaped(written) == given_text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (5, "5"),
        (-5, "(-5)"),
        (True, "true"),
        (None, "NULL"),
        (0.1, "(0.1D)"),
        (float("nan"), "double('nan')"),
        (Decimal("-1E+3"), "(-1000BD)"),
        (date(1, 2, 3), "DATE'0001-02-03'"),
        (datetime.fromisoformat("2026-01-02 03:04:05.000006"), "TIMESTAMP_NTZ'2026-01-02 03:04:05.000006'"),
        (datetime(2026, 1, 2, tzinfo=UTC), "TIMESTAMP'2026-01-02 00:00:00Z'"),
        (timedelta(days=-1, seconds=-1), "(INTERVAL -'1 00:00:01.000000' DAY TO SECOND)"),
        (b"'\x00", "X'2700'"),
        (["a'", 1], "array('a\\u0027', 1)"),
    ],
)
def test_a_value_has_a_literal_of_its_type(value: Any, written: str) -> None:
    assert literal(value) == written


@pytest.mark.parametrize("value", [object(), {"a": 1}, Decimal("NaN")])
def test_a_value_without_a_literal_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        literal(value)


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("DATE_TYPE", ["2026-01-02", None], [date(2026, 1, 2), None]),
        ("DATE_TYPE", ["2026-01-02", "+12000-01-01"], [date(2026, 1, 2), Unfit("+12000-01-01")]),
        ("TIMESTAMP_TYPE", ["2026-01-02 03:04:05.1"], [datetime.fromisoformat("2026-01-02 03:04:05.100")]),
        ("DECIMAL_TYPE", ["1.10", "0E-18"], [Decimal("1.10"), Decimal("0E-18")]),
        ("INTERVAL_DAY_TIME_TYPE", ["-1 02:03:04.000005000"], [-timedelta(1, 7384, 5)]),
        ("STRING_TYPE", ["2026-01-02"], ["2026-01-02"]),
    ],
)  # fmt: skip
def test_what_thrift_carries_as_text_becomes_a_value(kind: str, texts: list[Any], values: list[Any]) -> None:
    assert read_column(kind, texts) == values


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("bigint", types.BigInteger),
        ("decimal(12,2)", types.Numeric),
        ("varchar(20)", types.String),
        ("timestamp", types.DateTime),
        ("array<decimal(12,2)>", types.ARRAY),
        ("array<array<int>>", types.JSON),
        ("map<string,array<int>>", types.JSON),
        ("struct<a:int,b:string>", types.JSON),
        ("struct<a:binary>", types.NullType),
        ("variant", types.NullType),
        ("interval year to month", types.NullType),
    ],
)
def test_a_type_is_known_by_its_name(name: str, type_: type[Any]) -> None:
    actual = sqlalchemy_type(name)
    assert type(actual) is type_
    if isinstance(actual, types.DateTime):
        assert actual.timezone


def compiled(statement: Any) -> str:
    return " ".join(str(statement.compile(dialect=SparkDialect(paramstyle="pyformat"))).split())


def test_sql_is_spark_s() -> None:
    paged = select(THINGS.c.id // 2, (THINGS.c.id % 7)).order_by(THINGS.c.id).offset(5)
    assert compiled(paged) == (
        "SELECT (`things`.`id` div %(id_1)s) AS `anon_1`, `things`.`id` %% %(id_2)s AS `anon_2` "
        "FROM `things` ORDER BY `things`.`id` OFFSET %(param_1)s"
    )
    casts: list[Any] = [
        Numeric(),
        Numeric(12, 2),
        DateTime(),
        DateTime(timezone=True),
        types.Float(),
        types.REAL(),
        String(3),
    ]
    written = compiled(select(*(cast(THINGS.c.id, type_) for type_ in casts)))
    for name in (
        "DECIMAL(38, 18)",
        "DECIMAL(12, 2)",
        "TIMESTAMP_NTZ)",
        "TIMESTAMP)",
        "DOUBLE",
        "FLOAT",
        "STRING",
    ):
        assert name in written


def test_no_name_ends_its_quotes() -> None:
    hostile = '` FROM secrets -- "'
    assert 'AS ``` FROM secrets -- "`' in compiled(select(THINGS.c.id.label(hostile)))


def test_nested_values_are_read_as_json() -> None:
    written = compiled(select(THINGS.c.tags, THINGS.c.details))
    assert written.count("to_json(named_struct('v', ") == 2
    assert "to_json" not in compiled(select(select(THINGS).subquery().c.id))
    dialect: Any = SparkDialect(paramstyle="pyformat")
    (column,) = select(PRICED.c.prices).compile(dialect=dialect)._result_columns
    read: Any = column.type.dialect_impl(dialect).result_processor(dialect, None)
    assert read('{"v":[1.10,null,1E-10]}') == [Decimal("1.10"), None, Decimal("1E-10")]


def test_a_url_of_hive_gets_dualsql_s_driver() -> None:
    engine = new_synchronous_engine(parsed_url(URL))
    assert type(engine.dialect) is SparkDialect
    assert not engine.dialect.only_reads
    BACKEND.guard.prepare(engine)
    assert engine.dialect.only_reads


def test_a_url_of_hive_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyhive", "pyhive.hive", "pyhive.sqlalchemy_hive"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    with pytest.raises(ConfigurationError, match="driver hive is not installed") as error:
        DualResponseServer(URL, base_url="https://a.example/resources", tables=THINGS.metadata)
    assert error.value.hint == "Install it: pip install 'dualsql[spark]'"


def test_a_server_asks_for_unproved_read_only() -> None:
    with pytest.raises(ConfigurationError, match="no read-only sessions"):
        DualResponseServer(URL, base_url="https://a.example/resources", tables=THINGS.metadata)


@pytest.mark.parametrize(
    "sql", ["INSERT INTO x VALUES (1)", "drop table x", "SET a=b", "(CREATE TABLE x (a INT))", "FROM x INSERT INTO y"]
)  # fmt: skip
def test_a_connection_that_reads_sends_nothing_else(sql: str) -> None:
    connection = SparkConnection.__new__(SparkConnection)
    connection.only_reads = True
    with pytest.raises(SparkError, match="Only statements that read"):
        connection.execute(sql)


def test_an_error_tells_no_value() -> None:
    text = (
        "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'secret' of the type \"STRING\" "
        "cannot be cast. SQLSTATE: 22018\n== SQL (line 1) ==\nselect 'secret'"
    )
    error = spark_error(text)
    assert (str(error), error.kind) == ("CAST_INVALID_INPUT (SQLSTATE 22018)", FailureKind.VALUE)
    lost = spark_error("Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)")
    assert lost.kind is FailureKind.BUSY


def test_no_statement_is_written_to_the_log_of_pyhive() -> None:
    """PyHive's own cursor logs each statement, with its values."""
    source = (Path(__file__).parents[2] / "dualsql/databases/spark/driver.py").read_text()
    assert ".cursor()" not in source.replace("connection.cursor()", "")


def test_an_engine_of_the_application_is_refused() -> None:
    engine = create_engine("hive+pyhive://127.0.0.1:1/default")
    assert not engine.dialect.only_reads  # type: ignore[attr-defined]
