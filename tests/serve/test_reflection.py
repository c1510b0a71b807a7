"""What `dualsql serve` finds in a database: every engine that queries run on, with what people keep in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import Column, Date, Integer, MetaData, Table, make_url, select

from dualsql import ConfigurationError, DualResponseServer
from dualsql.databases.reflection import MOST_TABLES, ReflectedTables, Selection, reflect
from dualsql.databases.source import open_source
from dualsql.freeze import Registry
from dualsql.settings import Settings
from tests.engines import PostgreSQL, opened
from tests.serve.peculiar import PECULIAR

TABLES = """
CREATE TABLE makers (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, added TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE parts (
    maker_id INTEGER NOT NULL, number INTEGER NOT NULL, price DECIMAL(10, 2),
    PRIMARY KEY (maker_id, number), FOREIGN KEY (maker_id) REFERENCES makers (id));
CREATE VIEW dear_parts AS SELECT * FROM parts WHERE price > 100;
CREATE TABLE dualsql_resources (id INTEGER)
""".split(";")

EVERYTHING = Selection(everything=True)


async def run(url: str, *statements: str) -> None:
    async with opened(url) as engine, engine.begin() as connection:
        for statement in statements:
            await connection.exec_driver_sql(statement)


async def reflected(url: str, selection: Selection, settings: Settings | None = None) -> ReflectedTables:
    source = open_source("default", url, Registry(MetaData()), settings)
    try:
        return await reflect(source, selection)
    finally:
        await source.close()


async def test_tables_views_keys_and_types(source_url: str) -> None:
    await run(source_url, *TABLES)
    tables = await reflected(source_url, EVERYTHING)
    assert sorted(tables.metadata.tables) == ["dear_parts", "makers", "parts"], (
        "and not where results are kept"
    )
    assert tables.left_out == []
    parts, view = tables.metadata.tables["parts"], tables.metadata.tables["dear_parts"]
    assert [column.name for column in parts.primary_key] == ["maker_id", "number"]
    assert {key.target_fullname for key in parts.c.maker_id.foreign_keys} == {"makers.id"}
    assert parts.c.price.type.python_type.__name__ == "Decimal"
    assert not parts.c.number.nullable
    assert not tables.metadata.tables["makers"].c.id.nullable, "which SQLAlchemy does not tell of SQLite"
    assert view.info == {"is_view": True}
    assert not list(view.primary_key)
    assert tables.metadata.tables["makers"].c.added.server_default is None, "a default is SQL of somebody's"


async def test_a_key_of_sqlite_that_may_be_null(tmp_path: Path) -> None:
    keys = ["INTEGER", "TEXT NOT NULL", "TEXT", "INT"]
    with closing(sqlite3.connect(tmp_path / "keys.sqlite")) as made:
        for number, type_ in enumerate(keys):
            made.execute(f"CREATE TABLE t{number} (id {type_} PRIMARY KEY)")
        made.execute("CREATE TABLE t4 (id TEXT PRIMARY KEY) WITHOUT ROWID")
        made.execute("CREATE TABLE t5 (id INTEGER PRIMARY KEY DESC)")
    tables = (await reflected(f"sqlite:///{tmp_path}/keys.sqlite", EVERYTHING)).metadata.tables
    assert [tables[f"t{number}"].c.id.nullable for number in range(6)] == [
        False,
        False,
        True,
        True,
        False,
        True,
    ]


async def test_only_what_is_named_and_no_key_that_leads_out_of_it(source_url: str) -> None:
    await run(source_url, *TABLES)
    tables = await reflected(source_url, Selection(tables=["parts"]))
    assert list(tables.metadata.tables) == ["parts"]
    assert not tables.metadata.tables["parts"].foreign_keys


async def test_what_is_not_there_is_named_and_the_nearest_with_it(source_url: str) -> None:
    await run(source_url, *TABLES)
    for selection, name in ((Selection(tables=["part"]), "parts"), (Selection(schema="nowhere"), "")):
        with pytest.raises(ConfigurationError, match="The database has no") as refusal:
            await reflected(source_url, selection)
        assert name in refusal.value.hint
    with pytest.raises(ConfigurationError, match="'dualsql_resources'"):
        await reflected(source_url, Selection(tables=["dualsql_resources"]))


async def test_an_empty_database(source_url: str) -> None:
    await run(source_url, "CREATE TABLE gone (id INTEGER)", "DROP TABLE gone")
    with pytest.raises(ConfigurationError, match="sees no tables"):
        await reflected(source_url, EVERYTHING)
    await run(source_url, "CREATE TABLE dualsql_things (id INTEGER)")
    with pytest.raises(ConfigurationError, match="only tables whose names begin with dualsql_"):
        await reflected(source_url, EVERYTHING)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must be selected"),
        ({"schema": "a", "tables": ["b"]}, "--schema and --tables cannot be combined"),
        ({"tables": ["b"], "everything": True}, "--tables and --all cannot be combined"),
    ],
)
def test_a_selection_is_exactly_one(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Selection(**options)  # type: ignore[arg-type]


async def test_too_many(sqlite_url: str) -> None:
    with closing(sqlite3.connect(str(make_url(sqlite_url).database))) as connection:
        tables = "".join(f"CREATE TABLE t{n} (id INTEGER);" for n in range(MOST_TABLES + 1))
        connection.executescript(f"BEGIN; {tables} COMMIT;")
    with pytest.raises(ConfigurationError, match="has 1,001 tables"):
        await reflected(sqlite_url, EVERYTHING)
    assert len((await reflected(sqlite_url, Selection(tables=["t7", "t8"]))).metadata.tables) == 2


async def test_what_is_broken_is_left_out(source_url: str) -> None:
    keeps_views_whole = "postgresql" in source_url
    await run(
        source_url,
        *TABLES,
        "CREATE TABLE doomed (id INTEGER)",
        *(
            ["CREATE VIEW broken AS SELECT id FROM doomed", "DROP TABLE doomed"]
            if "postgresql" not in source_url
            else []
        ),
    )
    tables = await reflected(source_url, EVERYTHING)
    assert "broken" not in tables.metadata.tables
    assert {"makers", "parts", "dear_parts"} <= set(tables.metadata.tables)
    assert list(tables.left_out) == ([] if keeps_views_whole else ["broken"])


async def test_names_as_people_write_them(source_url: str) -> None:
    names = ['we"ird', "SELECT", "naïve %s ?", "100% :x {y}", "-- x", "Two words"]
    metadata = MetaData()
    for name in names:
        Table(name, metadata, Column("id", Integer, primary_key=True), Column(name, Integer))
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    tables = await reflected(source_url, EVERYTHING)
    assert set(tables.metadata.tables) == set(names)
    assert all(table.c.keys() == ["id", table.name] for table in tables.metadata.tables.values())


UNKNOWN = {
    "postgresql": ["odd.bx", "odd.l", "odd.p", "odd.pt", "odd.x"],
    "mariadb": ["odd.g", "odd.i"],
    "sqlite": [],
}


@pytest.mark.quick(1, "sqlite")
async def test_every_type_comes_through_or_is_said_to_be_left_out(source_url: str) -> None:
    kind = next(kind for kind in PECULIAR if kind[:5] in source_url.replace("mysql", "maria"))
    await run(source_url, *PECULIAR[kind].split(";"))
    tables = await reflected(source_url, EVERYTHING)
    [table] = tables.metadata.tables.values()
    assert list(tables.left_out) == UNKNOWN[kind]
    async with DualResponseServer(source_url, base_url="http://127.0.0.1/r", tables=tables.metadata) as dual:
        for column in table.c:
            [row] = (await dual.create_response(select(column), name="x")).sample
            assert row[column.name] is not None, column.name
        assert len((await dual.create_response(select(table), name="x")).sample) == 1
    if kind != "sqlite":
        assert (table.comment, table.c.m.comment) == ("Oddities", "How one feels")


async def test_sqlite_s_columns_have_the_types_of_what_they_hold(sqlite_url: str) -> None:
    """SQLite keeps any value in any column; one that does not fit its column's type would fail every answer."""
    await run(
        sqlite_url,
        "CREATE TABLE loose (id INTEGER PRIMARY KEY, day DATE, amount DECIMAL(8, 2), tiny NUMERIC, file BLOB)",
        "INSERT INTO loose VALUES (1, 'yesterday', 'n/a', 1e-12, 'text'), (2, '2025-01-31', 5, 2, x'00')",
        "CREATE TABLE strict_enough (id INTEGER PRIMARY KEY, day DATE)",
        "INSERT INTO strict_enough VALUES (1, '2025-01-31')",
    )
    metadata = (await reflected(sqlite_url, EVERYTHING)).metadata
    assert isinstance(metadata.tables["strict_enough"].c.day.type, Date)
    async with DualResponseServer(sqlite_url, base_url="http://127.0.0.1/r", tables=metadata) as dual:
        response = await dual.create_response(select(metadata.tables["loose"]), name="x")
    held = {"id": 1, "day": "yesterday", "amount": "n/a", "tiny": 1e-12, "file": "text"}
    assert response.sample[0] == held | {"$unfit": ["file"]}


async def test_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        connection.execute(
            "CREATE TABLE makers (id INTEGER PRIMARY KEY, big HUGEINT, m mood, l INTEGER[], s STRUCT(a INTEGER))"
        )
        connection.execute("INSERT INTO makers VALUES (1, 2, 'ok', [1], {'a': 1})")
        connection.execute("CREATE VIEW a_view AS SELECT id, 1.5::DOUBLE AS x FROM makers")
        connection.execute("CREATE SCHEMA other; CREATE TABLE other.things (id INTEGER)")
    url = f"duckdb:///{path}"
    tables = await reflected(url, EVERYTHING)
    assert sorted(tables.metadata.tables) == ["a_view", "makers"]
    assert [column.name for column in tables.metadata.tables["makers"].primary_key] == ["id"]
    other = await reflected(url, Selection(tables=["shop.other.things"]))
    assert list(other.metadata.tables) == ["shop.other.things"]
    async with DualResponseServer(url, base_url="http://127.0.0.1/r", tables=tables.metadata) as dual:
        for table in tables.metadata.tables.values():
            assert len((await dual.create_response(select(table), name="x")).sample) == 1


@pytest.mark.long
async def test_postgresql_s_schemas_rights_and_roles(
    postgresql_url: str, postgresql_server: PostgreSQL
) -> None:
    role = f"reader_{make_url(postgresql_url).database}"
    await run(
        postgresql_url,
        *TABLES,
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders (id INTEGER PRIMARY KEY, part INTEGER, maker INTEGER REFERENCES makers (id))",
        "CREATE MATERIALIZED VIEW sales.sums AS SELECT count(*) AS n FROM sales.orders",
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA sales TO {role}",
        f"GRANT SELECT ON makers, sales.sums TO {role}",
        f"GRANT SELECT (id), UPDATE (part) ON sales.orders TO {role}",
    )
    try:
        everything = await reflected(postgresql_url, EVERYTHING)
        assert set(everything.metadata.tables) == {
            "dear_parts",
            "makers",
            "parts",
            "sales.orders",
            "sales.sums",
        }
        [reference] = everything.metadata.tables["sales.orders"].c.maker.foreign_keys
        assert reference.target_fullname == "makers.id"
        sales = await reflected(postgresql_url, Selection(schema="sales"))
        assert set(sales.metadata.tables) == {"sales.orders", "sales.sums"}
        with pytest.raises(ConfigurationError, match=r"Did you mean sales\.orders"):
            await reflected(postgresql_url, Selection(tables=["orders"]))
        taken = Settings(read_only_roles={"default": role})
        as_reader = await reflected(postgresql_url, EVERYTHING, taken)
        assert set(as_reader.metadata.tables) == {"makers", "sales.sums"}
        assert as_reader.left_out == ["dear_parts", "parts", "sales.orders"]
        with pytest.raises(ConfigurationError, match="cannot read any of the tables"):
            await reflected(postgresql_url, Selection(tables=["parts"]), taken)
    finally:
        await run(postgresql_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
