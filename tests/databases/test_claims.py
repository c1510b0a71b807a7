"""Pages have every row of tables that do not keep what the application's model declares of them, on each database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, make_url, select
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL

from dualsql import Settings
from dualsql.databases.claims import unenforced
from dualsql.databases.health import SourceHealth
from tests.http.application import Application, running
from tests.servers import create_server

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
}

METADATA = MetaData()
LEGACY = Table(
    "legacy",
    METADATA,
    Column("id", String(9), primary_key=True),
    Column("size", Integer, nullable=False),
    Column("place", String(9), nullable=False),
)
REPEATED = Table("repeated", METADATA, Column("id", Integer, primary_key=True), Column("place", String(9)))
VIEWED = Table("viewed", METADATA, Column("id", Integer, primary_key=True), Column("place", String(9)))
ROWS_OF_LEGACY = """
('a', 1, 'p'), ('b', NULL, NULL), ('c', 2, 'q'), ('d', NULL, 'r'), (NULL, 3, NULL), ('f', NULL, 's'), (NULL, 1, 't'),
(NULL, 1, 't')"""
LOOSE = f"""
CREATE TABLE legacy (id varchar(9), size integer, place varchar(9));
INSERT INTO legacy VALUES {ROWS_OF_LEGACY};
CREATE TABLE repeated (id integer, place varchar(9));
INSERT INTO repeated VALUES (1, 'p'), (1, 'q'), (1, 'p'), (2, 'p'), (2, 'p'), (2, 'r'), (3, 'p');
CREATE VIEW viewed AS SELECT id, place FROM repeated"""

KEYS = MetaData()
"""Tables whose database enforces what they declare, each in a way of its own."""

for name in ("by_key", "by_index", "of_two", "Cased"):
    Table(name, KEYS, Column("id", Integer, primary_key=True), Column("place", String(9), nullable=False))
STRICT = """
CREATE TABLE by_key (id integer primary key, place varchar(9) not null);
CREATE TABLE by_index (id integer not null, place varchar(9) not null);
CREATE UNIQUE INDEX by_index_id ON by_index (id);
CREATE TABLE of_two (id integer not null unique, place varchar(9) not null, primary key (id, place));
CREATE TABLE "Cased" (id integer primary key, place varchar(9) not null)"""


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "duckdb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database, on each of them."""
    if request.param == "duckdb":
        yield f"duckdb:///{tmp_path}/claims.duckdb"
    else:
        yield request.getfixturevalue(f"{request.param}_url")


def run(url: str, statements: str) -> None:
    parsed: URL = make_url(url)
    backend = parsed.get_backend_name()
    engine = create_engine(parsed.set(drivername=DRIVERS[backend]))
    with engine.begin() as connection:
        for statement in statements.split(";"):
            sql = statement.replace('"', "`") if backend == "mysql" else statement
            connection.exec_driver_sql(sql)
    engine.dispose()


async def pages(application: Application, path: str, sort: str) -> list[Any]:
    """All rows by cursors, two at a time."""
    rows: list[Any] = []
    asked: dict[str, Any] = {"limit": 2, "sort": sort} if sort else {"limit": 2}
    cursor = ""
    for _ in range(20):
        page = (
            await application.http.get(path, params={**asked, "cursor": cursor} if cursor else asked)
        ).json()
        rows += page["data"]
        cursor = page["next_cursor"]
        if not page["has_next"]:
            assert cursor is None
            return rows
        assert cursor, page["order"]
    raise AssertionError("the pages do not end")


async def require_every_row(application: Application, table: Table, number: int) -> None:
    path = await application.create(select(table))
    sorts = [f"{sign}{column.name}" for column in table.c for sign in ("", "-")]
    for sort in ("", *sorts):
        whole = await application.http.get(
            f"{path}/rows", params={"format": "json", **({"sort": sort} if sort else {})}
        )
        assert len(whole.json()) == number
        assert await pages(application, path, sort) == whole.json(), (table.name, sort)
        sorted_by = [row[sort.removeprefix("-")] for row in whole.json()] if sort else []
        missing = [value is None for value in sorted_by]
        assert missing == sorted(missing), "NULLs are not last"


async def test_pages_have_every_row_whatever_the_model_declares(url: str) -> None:
    run(url, LOOSE)
    async with running(url, tables=METADATA) as application:
        await require_every_row(application, LEGACY, 8)
        await require_every_row(application, REPEATED, 7)
        await require_every_row(application, VIEWED, 7)


async def test_a_text_that_is_the_key_of_a_sqlite_table_may_be_null(sqlite_url: str) -> None:
    keyed = LOOSE.replace("legacy (id varchar(9)", "legacy (id varchar(9) primary key")
    run(sqlite_url, keyed)
    async with running(sqlite_url, tables=METADATA) as application:
        await require_every_row(application, LEGACY, 8)


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_postgresql_table_has_the_rows_of_those_that_inherit_it(
    postgresql_url: str, is_declared: bool
) -> None:
    """Their keys repeat its own."""
    run(
        postgresql_url,
        """CREATE TABLE repeated (id integer primary key, place varchar(9));
        CREATE TABLE child (size integer) INHERITS (repeated);
        INSERT INTO repeated VALUES (1, 'p'), (2, 'q');
        INSERT INTO child VALUES (1, 'p', 1), (1, 'p', 2), (2, 'r', 3), (1, 'q', 4)""",
    )
    metadata = METADATA
    if not is_declared:
        metadata = MetaData()
        engine = create_engine(make_url(postgresql_url).set(drivername="postgresql+psycopg"))
        metadata.reflect(engine)
        engine.dispose()
    async with running(postgresql_url, tables=metadata) as application:
        await require_every_row(application, metadata.tables["repeated"], 6)


async def test_bits_of_mariadb_are_keys_of_pages(mariadb_url: str) -> None:
    """The driver gives bytes, which MariaDB reads as digits beside a BIT."""
    values = ", ".join(f"(b'{number:b}')" for number in (5, 511, 0, 48, 49, 256, 5, 304))
    run(mariadb_url, f"CREATE TABLE bits (v bit(9)); INSERT INTO bits VALUES {values}, (NULL)")
    table = Table("bits", MetaData(), Column("v", mysql.BIT(9)))
    async with running(mariadb_url, tables=table) as application:
        await require_every_row(application, table, 9)


async def test_what_the_database_enforces_is_relied_on(url: str) -> None:
    run(url, STRICT)
    async with create_server(url, base_url="http://127.0.0.1/r", tables=KEYS) as server:
        declared = await unenforced(server.parts.sources["default"])
        assert declared.keys == ({(None, "by_index")} if url.startswith("duckdb") else set())
        assert declared.filled == set()


async def test_keys_of_partitions_and_of_tables_without_row_numbers_are_relied_on(
    sqlite_url: str, postgresql_url: str
) -> None:
    metadata = MetaData()
    Table(
        "parts", metadata, Column("id", Integer, primary_key=True), Column("place", String, primary_key=True)
    )
    statement = "CREATE TABLE parts (id integer, place text, primary key (id, place))"
    run(sqlite_url, f"{statement} WITHOUT ROWID")
    run(
        postgresql_url,
        f"{statement} PARTITION BY LIST (place); CREATE TABLE part PARTITION OF parts FOR VALUES IN ('p')",
    )
    for each in (sqlite_url, postgresql_url):
        async with create_server(each, base_url="http://127.0.0.1/r", tables=metadata) as server:
            declared = await unenforced(server.parts.sources["default"])
            assert (declared.keys, declared.filled) == (set(), set())


@pytest.mark.parametrize(
    "index", ["(id) WHERE place = 'p'", "((id + 0))", "(id, place)"], ids=["partial", "expression", "wider"]
)
async def test_an_index_that_is_no_key_of_these_columns_is_none(postgresql_url: str, index: str) -> None:
    run(
        postgresql_url,
        f"""CREATE TABLE repeated (id integer not null, place varchar(9) not null);
        CREATE UNIQUE INDEX one ON repeated {index}; INSERT INTO repeated VALUES (1, 'q'), (1, 'r'), (2, 's')"""
        if index != "((id + 0))"
        else """CREATE TABLE repeated (id integer not null, place varchar(9));
        CREATE UNIQUE INDEX one ON repeated ((id + 0))""",
    )
    async with create_server(postgresql_url, base_url="http://127.0.0.1/r", tables=REPEATED) as server:
        declared = await unenforced(server.parts.sources["default"])
        assert declared.keys == {(None, "repeated")}


async def test_a_broken_view_or_virtual_table_hides_no_constraints(sqlite_url: str) -> None:
    """SQLite describes neither, and its answer would be an error in place of the other tables."""
    run(
        sqlite_url,
        f"""{LOOSE}; CREATE VIEW broken AS SELECT * FROM gone; PRAGMA writable_schema = ON;
        INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING nowhere')""",
    )
    async with create_server(sqlite_url, base_url="http://127.0.0.1/r", tables=METADATA) as server:
        declared = await unenforced(server.parts.sources["default"])
        assert declared.keys == {(None, "legacy"), (None, "repeated"), (None, "viewed")}
        assert declared.filled >= {(None, "legacy", "size"), (None, "legacy", "place")}


async def test_tables_whose_names_differ_in_case_have_constraints_of_their_own(postgresql_url: str) -> None:
    run(
        postgresql_url,
        """CREATE TABLE "Legacy" (id varchar(9) primary key, size integer not null, place varchar(9) not null);
        CREATE TABLE legacy (id varchar(9), size integer, place varchar(9))""",
    )
    metadata = MetaData()
    for name in ("Legacy", "legacy"):
        LEGACY.to_metadata(metadata, name=name)
    async with create_server(postgresql_url, base_url="http://127.0.0.1/r", tables=metadata) as server:
        declared = await unenforced(server.parts.sources["default"])
        assert declared.keys == {(None, "legacy")}
        assert declared.filled == {(None, "legacy", name) for name in ("id", "size", "place")}


async def test_a_not_null_that_tables_below_do_not_have_is_none(postgresql_url: str) -> None:
    run(
        postgresql_url,
        f"""CREATE TABLE legacy (id varchar(9) not null, size integer not null, place varchar(9) not null);
        CREATE TABLE child () INHERITS (legacy); CREATE TABLE grandchild () INHERITS (child);
        ALTER TABLE grandchild ALTER id DROP NOT NULL, ALTER size DROP NOT NULL, ALTER place DROP NOT NULL;
        INSERT INTO grandchild VALUES {ROWS_OF_LEGACY}""",
    )
    async with running(postgresql_url, tables=METADATA) as application:
        await require_every_row(application, LEGACY, 8)


async def test_a_not_null_of_a_foreign_table_is_not_relied_on(postgresql_url: str) -> None:
    run(
        postgresql_url,
        """CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER far FOREIGN DATA WRAPPER nothing;
        CREATE FOREIGN TABLE legacy (id varchar(9) not null, size integer not null, place varchar(9)) SERVER far;
        CREATE TABLE repeated (id integer not null, place varchar(9));
        CREATE FOREIGN TABLE below () INHERITS (repeated) SERVER far""",
    )
    try:
        async with create_server(postgresql_url, base_url="http://127.0.0.1/r", tables=METADATA) as server:
            declared = await unenforced(server.parts.sources["default"])
            assert declared.filled == {
                (None, "repeated", "id"),
                *((None, "legacy", name) for name in ("id", "size", "place")),
            }
    finally:
        run(postgresql_url, "DROP FOREIGN DATA WRAPPER nothing CASCADE")


async def test_constraints_are_asked_again_after_an_outage(sqlite_url: str) -> None:
    """Another server may have taken the place of the first. What was derived before is not used any more."""
    strict = "CREATE TABLE repeated (id integer, place varchar(9), unique (id)"
    run(sqlite_url, f"{strict}, primary key (id)); INSERT INTO repeated VALUES (1, 'p'), (2, 'q')")
    async with running(sqlite_url, tables=METADATA) as application:
        path = await application.create(select(REPEATED))
        first = await application.http.get(path, params={"limit": 1})
        source = application.server.parts.sources["default"]
        run(
            sqlite_url,
            """DROP TABLE repeated; CREATE TABLE repeated (id integer, place varchar(9));
            INSERT INTO repeated VALUES (1, 'p'), (1, 'q'), (1, 'p'), (2, 'p'), (2, 'p'), (2, 'r'), (3, 'p')""",
        )
        health = SourceHealth(source, (), Settings(), timedelta(seconds=9))
        health._must_be_proved = True
        assert await health.state() == "ok"
        await require_every_row(application, REPEATED, 7)
        cursor = first.json()["next_cursor"]
        refused = await application.http.get(path, params={"limit": 1, "cursor": cursor})
        assert refused.status_code == 400 and refused.json()["code"] == "BAD_CURSOR"


@pytest.mark.parametrize("catalogue", ["pg_collation", "pg_index", "pg_class"])
async def test_a_server_starts_without_rights_on_catalogues(
    postgresql_url: str, catalogue: str, caplog: pytest.LogCaptureFixture
) -> None:
    reader = f"reader_{uuid4().hex}"
    run(
        postgresql_url,
        f"""CREATE TABLE repeated (id integer primary key, place varchar(9));
        INSERT INTO repeated VALUES (1, 'p'), (2, 'P'), (3, NULL), (4, 'p');
        CREATE ROLE {reader} LOGIN; GRANT SELECT ON repeated TO {reader};
        REVOKE SELECT ON {catalogue} FROM PUBLIC""",
    )
    try:
        async with running(postgresql_url.replace("postgres@", f"{reader}@"), tables=REPEATED) as application:
            assert "could not be read" in caplog.text
            await require_every_row(application, REPEATED, 4)
    finally:
        run(
            postgresql_url,
            f"GRANT SELECT ON {catalogue} TO PUBLIC; DROP OWNED BY {reader}; DROP ROLE {reader}",
        )
