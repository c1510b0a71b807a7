"""Columns that databases can hardly be asked of: a question is answered, or refused in words, and never fails."""

from __future__ import annotations

import operator
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.server import MCPServer
from sqlalchemy import (
    Column,
    DateTime,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    cast,
    create_engine,
    func,
    insert,
    literal,
    make_url,
    select,
    types,
)
from sqlalchemy.dialects import postgresql

from dualsql import DualResponseError, ValueNotRepresentableError
from dualsql.mcp import add_execute_query, add_result_tools
from dualsql_client import FetchError
from tests import engines
from tests.columns.kinds.results import Served, served, values_of

pytestmark = pytest.mark.quick(50, "sqlite", "postgresql")

_REFUSALS = frozenset(
    {"BAD_PARAMETER", "FORBIDDEN_SQL", "INVALID_SQL", "NO_TOTAL_ORDER", "NOT_FREEZABLE", "UNKNOWN_COLUMN"}
)


class Named(types.UserDefinedType[Any]):
    """A type of the database that SQLAlchemy has no class for."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        return self.name


# By name: the column's type in DDL, as SQLAlchemy has it, and two values that differ.
_POSTGRESQL: Mapping[str, tuple[str, Any, tuple[str, str]]] = {
    "xml": ("xml", types.NullType(), ("<a/>", "<b/>")),
    "named_xml": ("xml", Named("XML"), ("<a/>", "<b/>")),
    "jsonpath": ("jsonpath", postgresql.JSONPATH(), ("$.a", "$.b")),
    "loose_jsonpath": ("jsonpath", types.NullType(), ("$.a", "$.b")),
    "point": ("point", types.NullType(), ("(1,2)", "(2,1)")),
    "named_point": ("point", Named("POINT"), ("(1,2)", "(2,1)")),
    "circle": ("circle", Named("circle"), ("<(1,2),3>", "<(2,1),3>")),
    "box": ("box", types.NullType(), ("(1,1),(0,0)", "(3,1),(2,0)")),
    "quoted_char": ('"char"', types.CHAR(), ("x", "y")),
    "quoted_text": ('"char"', types.Text(), ("x", "y")),
    "loose_char": ('"char"', types.NullType(), ("x", "y")),
    "int4range": ("int4range", postgresql.INT4RANGE(), ("[1,5)", "[2,3)")),
    "multirange": ("int4multirange", postgresql.INT4MULTIRANGE(), ("{[1,5)}", "{[2,3)}")),
    "loose_range": ("int4range", types.NullType(), ("[1,5)", "[2,3)")),
    "json": ("json", types.JSON(), ('{"a": 1}', "[1]")),
    "loose_json": ("json", types.NullType(), ('{"a": 1}', "[1]")),
    "jsonb": ("jsonb", postgresql.JSONB(), ('{"a": 1}', "[1]")),
    "hstore": ("hstore", postgresql.HSTORE(), ("a=>1", "b=>2")),
    "inet": ("inet", postgresql.INET(), ("10.0.0.1", "10.0.0.2/8")),
    "cidr": ("cidr", postgresql.CIDR(), ("10.0.0.0/8", "11.0.0.0/8")),
    "macaddr": ("macaddr", postgresql.MACADDR(), ("08:00:2b:01:02:03", "08:00:2b:01:02:04")),
    "money": ("money", postgresql.MONEY(), ("12.34", "56.78")),
    "bit": ("bit(3)", postgresql.BIT(3), ("101", "110")),
    "tsvector": ("tsvector", postgresql.TSVECTOR(), ("fox", "quick")),
    "tsquery": ("tsquery", postgresql.TSQUERY(), ("fox", "quick")),
    "oid": ("oid", postgresql.OID(), ("1", "2")),
    "regclass": ("regclass", postgresql.REGCLASS(), ("pg_class", "pg_type")),
    "pg_lsn": ("pg_lsn", types.NullType(), ("16/B374D848", "16/B374D849")),
    "xid": ("xid", types.NullType(), ("1", "2")),
    "composite": ("pair", types.NullType(), ("(1,a)", "(2,b)")),
    "loose_day": ("date", types.NullType(), ("2024-01-01", "2024-01-02")),
    "loose_instant": ("timestamp", types.NullType(), ("2024-01-01 10:00", "2024-01-02 10:00")),
    "loose_zoned": ("timestamptz", types.NullType(), ("2024-01-01 10:00Z", "2024-01-02 10:00Z")),
    "loose_time": ("time", types.NullType(), ("10:00", "11:00")),
    "loose_interval": ("interval", types.NullType(), ("1 day", "2 days")),
    "loose_number": ("numeric", types.NullType(), ("1.5", "2.5")),
    "loose_integer": ("int", types.NullType(), ("1", "2")),
    "loose_bool": ("bool", types.NullType(), ("true", "false")),
    "loose_uuid": ("uuid", types.NullType(), (f"{1:032x}", f"{2:032x}")),
    "loose_bytes": ("bytea", types.NullType(), ("a", "b")),
    "loose_array": ("int[]", types.NullType(), ("{1,2}", "{3}")),
    "points": ("point[]", postgresql.ARRAY(Named("POINT")), ('{"(1,2)"}', '{"(2,1)"}')),
    "ranges": ("int4range[]", postgresql.ARRAY(postgresql.INT4RANGE()), ('{"[1,5)"}', '{"[2,3)"}')),
    "interval": ("interval", postgresql.INTERVAL(), ("1 mon", "2 days")),
}
_SQLITE: Mapping[str, tuple[str, Any, tuple[str, str]]] = {
    "untyped": ("", types.NullType(), ("a", "b")),
    "json": ("JSON", types.JSON(), ('{"a": 1}', "[1]")),
    "point": ("POINT", Named("POINT"), ("(1,2)", "(2,1)")),
    "blob": ("BLOB", types.LargeBinary(), ("a", "b")),
    "loose_day": ("DATE", types.NullType(), ("2024-01-01", "2024-01-02")),
    "interval": ("DATETIME", types.Interval(), ("1970-01-02 00:00:00.000000", "1970-01-03 00:00:00.000000")),
}
_MARIADB: Mapping[str, tuple[str, Any, tuple[str, str]]] = {
    "json": ("json", types.JSON(), ('{"a": 1}', "[1]")),
    "text": ("text", types.NullType(), ("a", "b")),
    "float": ("float", types.Float(), ("0.333333333", "0.25")),
    "loose_float": ("float", types.NullType(), ("0.5", "0.25")),
    "mariadb_bits": ("bit(8)", types.NullType(), ("1", "2")),
    "year": ("year", types.NullType(), ("2024", "2025")),
    "blob": ("blob", types.LargeBinary(), ("a", "b")),
    "inet6": ("inet6", types.NullType(), ("::1", "::2")),
    "loose_day": ("date", types.NullType(), ("2024-01-01", "2024-01-02")),
    "mariadb_time": ("time", types.NullType(), ("10:00", "11:00")),
}
_DUCKDB: Mapping[str, tuple[str, Any, tuple[str, str]]] = {
    "json": ("json", types.JSON(), ('{"a": 1}', "[1]")),
    "loose_list": ("int[]", types.NullType(), ("[1, 2]", "[3]")),
    "struct": ("struct(a int)", types.NullType(), ("{''a'': 1}", "{''a'': 2}")),
    "map": ("map(varchar, int)", types.NullType(), ("{a=1}", "{b=2}")),
    "bit": ("bit", types.NullType(), ("101", "110")),
    "blob": ("blob", types.LargeBinary(), ("a", "b")),
    "loose_day": ("date", types.NullType(), ("2024-01-01", "2024-01-02")),
    "loose_instant": ("timestamp", types.NullType(), ("2024-01-01 10:00", "2024-01-02 10:00")),
    "loose_number": ("decimal(10, 2)", types.NullType(), ("1.5", "2.5")),
    "loose_uuid": ("uuid", types.NullType(), (f"{1:032x}", f"{2:032x}")),
    "interval": ("interval", types.Interval(), ("1 day", "2 days")),
    "hugeint": ("hugeint", types.NullType(), ("1", "2")),
}
_TYPES = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL, "mariadb": _MARIADB, "duckdb": _DUCKDB}


def _table(kinds: Mapping[str, tuple[str, Any, tuple[str, str]]]) -> Table:
    columns = [Column(f"{name}_", type_) for name, (_, type_, _) in kinds.items()]
    return Table("odd", MetaData(), Column("id", Integer, primary_key=True), *columns)


def _statements(kinds: Mapping[str, tuple[str, Any, tuple[str, str]]]) -> list[str]:
    columns = ", ".join(f"{name}_ {ddl}" for name, (ddl, *_) in kinds.items())
    rows = [
        ", ".join([str(row + 1), *("'" + given[row] + "'" for *_, given in kinds.values())])
        for row in range(2)
    ]
    nothing = ", ".join(["3", *("NULL" for _ in kinds)])
    statements = [f"CREATE TABLE odd (id int PRIMARY KEY, {columns})"]
    return statements + [f"INSERT INTO odd VALUES ({row})" for row in (*rows, nothing)]


@pytest.fixture(params=sorted(_TYPES))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param != "duckdb":
        address: str = request.getfixturevalue(f"{request.param}_url")
        return address
    made = f"duckdb:///{tmp_path}/odd.duckdb"
    engine = create_engine(made)
    with engine.begin() as connection:
        for statement in _statements(_DUCKDB):
            connection.exec_driver_sql(statement)
    engine.dispose()
    return made


@pytest.fixture
async def database(url: str) -> AsyncIterator[tuple[str, Served, Table]]:
    name = url.partition(":")[0].partition("+")[0].replace("mysql", "mariadb")
    if name != "duckdb":
        before = ["CREATE EXTENSION hstore", "CREATE TYPE pair AS (x int, y text)"]
        async with engines.opened(url) as engine, engine.begin() as opened:
            for statement in [*(before if name == "postgresql" else []), *_statements(_TYPES[name])]:
                await opened.exec_driver_sql(statement)
    table = _table(_TYPES[name])
    async with served(url, table.metadata) as server:
        yield name, server, table


async def _asked(what: str, asked: Any, faults: list[str]) -> Any:
    """The answer; None where the question is refused in words."""
    try:
        return await asked
    except FetchError as error:
        if error.code not in _REFUSALS or not error.message or "current tables" in str(error):
            faults.append(f"{what}: {error.code} {error}")
        return None


_OFTEN = frozenset(
    {"xml", "jsonpath", "named_point", "quoted_char", "multirange", "loose_day", "float", "interval"}
    | {"mariadb_bits", "mariadb_time"}
)
"""Those that every run asks."""

_FOUND = frozenset({"loose_day", "loose_instant", "loose_zoned", "loose_time", "loose_interval"})
"""Columns of no declared type whose values are found, on every engine."""

_QUESTIONS: Mapping[str, dict[str, Any]] = {
    "group": {"group_by": ["v"], "aggregates": ["count"]},
    "is_null": {"filters": {"column": "v", "op": "is_null", "value": True}},
    "sort": {"order_by": [{"column": "v", "order": "desc"}]},
    **{
        name: {"aggregates": [{"function": name, "column": "v", "as": "figure"}]}
        for name in ("min", "max", "sum", "avg", "count_distinct")
    },
    **{
        name: {"filters": {"column": "v", "op": name, "value": value}}
        for name, value in (("eq", "x"), ("in", ["x", "y"]), ("lt", "x"), ("contains", "x"), ("ne", 7))
    },
}
_TEXTS = (
    "SELECT v, count(*) FROM data GROUP BY v",
    "SELECT DISTINCT v FROM data",
    "SELECT sum(v) FROM data",
    "SELECT max(v), min(v) FROM data",
    "SELECT count(*) FROM data WHERE v = 'x'",
    "SELECT id FROM data ORDER BY v",
    "SELECT upper(v) FROM data",
)


async def _all_asked(name: str, result: Any, faults: list[str]) -> None:
    page = await _asked(f"{name} page", result.fetch(), faults)
    assert page is not None
    for kind in ("sample", "full"):
        await _asked(f"{name} profile {kind}", result.profile(kind), faults)
    for order in ("asc", "desc"):
        sort: Any = {"field": "v", "order": order}
        first = await _asked(f"{name} sort {order}", result.fetch(sort=sort, limit=1), faults)
        if first is not None:
            place = {"cursor": first.next_cursor} if first.next_cursor else {"offset": 1}
            await _asked(f"{name} sort {order}, next", result.fetch(sort=sort, limit=1, **place), faults)
    for words, question in _QUESTIONS.items():
        await _asked(f"{name} {words}", result.query(**question), faults)
    for sql in _TEXTS:
        await _asked(f"{name} {sql}", result.sql(sql), faults)
    await _found_as_shown(name, result, [row["v"] for row in page.data], faults)


async def _found_as_shown(name: str, result: Any, shown: list[Any], faults: list[str]) -> None:
    for value in shown:
        if value is None or isinstance(value, list | dict):
            continue
        condition = {"column": "v", "op": "eq", "value": value}
        answer = await _asked(f"{name} eq {value!r}", result.query(filters=condition), faults)
        if answer is None and name in _FOUND:
            faults.append(f"{name} eq {value!r}: refused")
        if answer is not None and len(answer.data) != shown.count(value):
            faults.append(f"{name} eq {value!r}: {len(answer.data)} rows")
    groups = await _asked(f"{name} groups", result.query(group_by=["v"], aggregates=["count"]), faults)
    if groups is not None and sorted(str(row["v"]) for row in groups.data) != sorted(set(map(str, shown))):
        faults.append(f"{name} groups: {groups.data}")


# JSONPATH and MONEY of SQLAlchemy name no operators that they have.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")
@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_odd_types_are_answered_or_refused_in_words(
    database: tuple[str, Served, Table], *, is_whole: bool
) -> None:
    engine, server, table = database
    faults: list[str] = []
    for column in _TYPES[engine] if is_whole else sorted(_OFTEN & set(_TYPES[engine])):
        statement = select(table.c.id, table.c[f"{column}_"].label("v")).order_by(table.c.id)
        try:
            result = await server.result(statement)
        except ValueNotRepresentableError:
            continue  # refused at creation
        await _all_asked(column, result, faults)
    assert not faults, "\n".join(faults)


_BYTES = (b"a", b"\xff", b"YQ==", b"\x00\x01\x02", b"")
_LOOSE_BYTES = {
    "sqlite": ("BLOB", "x'{}'"),
    "postgresql": ("bytea", "decode('{}', 'hex')"),
    "mariadb": ("blob", "x'{}'"),
    "duckdb": ("blob", "unhex('{}')"),
}
_COMPARED: Mapping[str, Callable[[bytes, bytes], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


async def test_bytes_of_no_declared_type_are_found_as_shown(url: str) -> None:
    name = url.partition(":")[0].partition("+")[0].replace("mysql", "mariadb")
    # asyncpg takes no text where PostgreSQL expects bytes, which is a refusal.
    synchronous = make_url(url.replace("asyncpg", "psycopg2").replace("asyncmy", "pymysql"))
    engine = create_engine(synchronous.set(drivername="sqlite") if name == "sqlite" else synchronous)
    ddl, written = _LOOSE_BYTES[name]
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE loose (id int PRIMARY KEY, v {ddl})")
        rows = [f"({number}, {written.format(one.hex())})" for number, one in enumerate(_BYTES)]
        connection.exec_driver_sql(f"INSERT INTO loose VALUES {', '.join(rows)}, (99, NULL)")
    engine.dispose()
    table = Table("loose", MetaData(), Column("id", Integer, primary_key=True), Column("v", types.NullType))
    async with served(url if name == "duckdb" else engine, table.metadata) as server:
        result = await server.result(select(table).order_by(table.c.id))
        shown = [row["v"] for row in (await result.fetch()).data][:-1]
        assert shown == [b64encode(one).decode() for one in _BYTES]
        condition: Any
        # Where the database says that they are bytes, they have no order, as declared ones.
        is_described = result.columns[1]["encoding"] == "base64"
        assert is_described == (name in {"postgresql", "duckdb"})
        for given, value in zip(_BYTES, shown, strict=True):
            for operator, holds in _COMPARED.items():
                if is_described and operator not in {"eq", "ne"}:
                    continue
                condition = {"column": "v", "op": operator, "value": value}
                actual = {row["id"] for row in (await result.query(filters=condition)).data}
                assert actual == {n for n, one in enumerate(_BYTES) if holds(one, given)}, condition
        condition = {"column": "v", "op": "in", "value": shown[1:3]}
        assert [row["id"] for row in (await result.query(filters=condition)).data] == [1, 2]
        if not is_described:
            condition = {"column": "v", "op": "between", "value": [shown[0], shown[1]]}
            assert [row["id"] for row in (await result.query(filters=condition)).data] == [0, 1]
    engine.dispose()


async def test_a_column_of_texts_and_bytes_is_found_as_shown(sqlite_url: str) -> None:
    """A text that looks like base64 is a text."""
    table = Table("loose", MetaData(), Column("id", Integer, primary_key=True), Column("v", types.NullType))
    async with engines.opened(sqlite_url) as engine, engine.begin() as opened:
        await opened.exec_driver_sql("CREATE TABLE loose (id INTEGER PRIMARY KEY, v)")
        await opened.exec_driver_sql("INSERT INTO loose VALUES (1, 'YQ=='), (2, x'61'), (3, 'a'), (4, 1234)")
    async with served(sqlite_url, table.metadata) as server:
        result = await server.result(select(table).order_by(table.c.id))
        condition: Any
        for value, expected in (("YQ==", [1, 2]), ("a", [3]), (1234, [4]), ("1234", [])):
            condition = {"column": "v", "op": "eq", "value": value}
            assert [row["id"] for row in (await result.query(filters=condition)).data] == expected, value


# --- what SQLAlchemy has no type for ---------------------------------------------------------------------------

_METADATA = MetaData()
_THINGS = Table(
    "things",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(20)),
    Column("price", Numeric(10, 2)),
    Column("at", DateTime),
)
_GIVEN = [
    {"id": 1, "name": "a", "price": 1, "at": datetime.fromisoformat("2024-01-01T10:00:00")},
    {"id": 2, "name": "A", "price": 2, "at": datetime.fromisoformat("2024-01-02T11:00:00")},
    {"id": 3, "name": "é", "price": 3, "at": datetime.fromisoformat("2024-01-03T12:00:00")},
    {"id": 4, "name": "=x", "price": 4, "at": None},
]
_BY_ID = _THINGS.c.id
_COMPUTED: Mapping[str, tuple[Any, frozenset[str]]] = {
    "lag": (
        func.lag(_THINGS.c.name).over(order_by=_BY_ID),
        frozenset({"sqlite", "postgresql", "mariadb", "duckdb"}),
    ),
    "first": (func.first_value(_THINGS.c.name).over(order_by=_BY_ID.desc()), frozenset(_TYPES)),
    "joined": (func.string_agg(_THINGS.c.name, "-"), frozenset({"postgresql", "duckdb"})),
    "upper": (func.upper(_THINGS.c.name), frozenset(_TYPES)),
    "numbers": (func.lag(_BY_ID).over(order_by=_BY_ID), frozenset(_TYPES)),
    "days": (func.date_trunc("day", _THINGS.c.at), frozenset({"postgresql", "duckdb"})),
    "instants": (
        func.lag(_THINGS.c.at).over(order_by=_BY_ID),
        frozenset({"postgresql", "duckdb", "mariadb"}),
    ),
    "divided": (_THINGS.c.price / 3, frozenset(_TYPES)),
    "halves": (_BY_ID // 2, frozenset(_TYPES)),
    "third": (_BY_ID / 3, frozenset(_TYPES)),
    "one": (literal(1), frozenset(_TYPES)),
}


@pytest.fixture
async def things(url: str) -> AsyncIterator[tuple[str, Served]]:
    name = url.partition(":")[0].partition("+")[0].replace("mysql", "mariadb")
    if name == "duckdb":
        engine = create_engine(url)
        with engine.begin() as connection:
            _METADATA.create_all(connection)
            connection.execute(insert(_THINGS), _GIVEN)
        engine.dispose()
    else:
        async with engines.opened(url) as database, database.begin() as opened:
            await opened.run_sync(_METADATA.create_all)
            await opened.execute(insert(_THINGS), _GIVEN)
    async with served(url, _METADATA) as server:
        yield name, server


@pytest.mark.long
async def test_what_functions_give_is_found_as_shown(things: tuple[str, Served]) -> None:
    engine, server = things
    faults: list[str] = []
    for name, (made, known) in _COMPUTED.items():
        if engine not in known:
            continue
        result = await server.result(select(made.label("v")))
        await _all_asked(name, result, faults)
        shown = [row["v"] for row in (await result.fetch()).data]
        for format_name in ("arrow", "parquet"):
            values = values_of(await server.rows(result, format_name), format_name, "v")
            texts = [value for value in shown if isinstance(value, str)]
            if texts and not any(isinstance(value, datetime | Decimal) for value in values):
                assert sorted(map(str, values)) == sorted(map(str, shown)), (name, format_name)
    assert not faults, "\n".join(faults)


async def test_a_bare_literal_can_be_asked(things: tuple[str, Served]) -> None:
    _, server = things
    result = await server.result(select(1))
    (column,) = (await result.fetch()).data[0]
    condition: Any = {"column": column, "op": "eq", "value": 1}
    assert len((await result.query(filters=condition)).data) == 1
    for kind in ("sample", "full"):
        assert (await result.profile(kind))["columns"]


_WAITS = (None, timedelta(minutes=1))


async def _codes(server: Served, sql: str) -> AsyncIterator[tuple[str, str | None]]:
    """What each interface that takes a text answers; None for rows."""
    select_of_text = server.dual.sql.resolve(sql).select
    for wait in _WAITS:
        response = server.dual.create_response(select_of_text, name="text", is_text=True, wait=wait)
        yield f"create_response, {wait=}", await _code_of(response)
    over = sql.replace("things", "data")
    parent = await server.result(select(_THINGS).order_by(_BY_ID))
    yield "sql", await _code_of(parent.sql(over))
    for wait in _WAITS:
        response = server.dual.create_response(
            parent=parent.resource_uri, refinement={"sql": over}, name="refined", wait=wait
        )
        yield f"refine, {wait=}", await _code_of(response)
    tools: MCPServer[Any] = MCPServer("things")
    add_execute_query(server.dual, tools)
    add_result_tools(server.dual, tools)
    async with mcp.Client(tools) as model:
        arguments: dict[str, Any] = {"query": sql}
        yield "execute_query", _told(await model.call_tool("execute_query", arguments))
        arguments = {"resource": parent.resource_uri, "sql": over}
        yield "query_result", _told(await model.call_tool("query_result", arguments))


async def _code_of(asked: Any) -> str | None:
    try:
        await asked
    except (DualResponseError, FetchError) as error:
        text = f"{error.message} {error.hint}"
        assert "things" not in text
        return error.code
    return None


def _told(result: Any) -> str | None:
    return result.structured_content["error"]["code"] if result.is_error else None


@pytest.mark.quick(1, "sqlite", "postgresql")
@pytest.mark.parametrize("sql", ["SELECT sum(name) FROM things", "SELECT id FROM things WHERE name = 1"])
async def test_a_text_that_the_database_refuses_is_to_blame(things: tuple[str, Served], sql: str) -> None:
    engine, server = things
    codes = {interface: code async for interface, code in _codes(server, sql)}
    assert len(codes) == 7
    allowed = {"INVALID_SQL"} if engine == "postgresql" else {"INVALID_SQL", None}
    assert set(codes.values()) <= allowed, codes


async def test_a_select_of_the_application_s_own_blames_nobody(things: tuple[str, Served]) -> None:
    engine, server = things
    for wait in _WAITS:
        response = server.dual.create_response(select(func.sum(_THINGS.c.name)), name="sum", wait=wait)
        code = await _code_of(response)
        assert code == ("QUERY_EXECUTION_FAILED" if engine in {"postgresql", "duckdb"} else None)


async def test_a_chart_that_the_database_refuses_blames_its_question(
    database: tuple[str, Served, Table],
) -> None:
    engine, server, table = database
    odd = next(name for name in ("xml", "json") if name in _TYPES[engine])
    parent = await server.result(select(table.c.id, table.c[f"{odd}_"].label("v")))
    drawn = server.dual.charts.create(
        parent.resource_uri, {"mark": "bar", "x": "v", "y": {"aggregate": "count"}}
    )
    assert await _code_of(drawn) in ({"BAD_PARAMETER"} if engine == "postgresql" else {"BAD_PARAMETER", None})


async def test_a_result_that_converts_values_is_not_its_reader_s_mistake(postgresql_url: str) -> None:
    """Texts that are no numbers came to be in the table: who asks about the result has written no CAST."""
    table = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("words", String))
    async with engines.opened(postgresql_url) as engine, engine.begin() as opened:
        await opened.exec_driver_sql("CREATE TABLE notes (id int PRIMARY KEY, words text)")
        await opened.exec_driver_sql("INSERT INTO notes SELECT n, n FROM generate_series(1, 40) n")
    async with served(postgresql_url, table.metadata) as server:
        converting = await server.result(select(table.c.id, cast(table.c.words, Integer).label("n")))
        plain = await server.result(select(table))
        async with engines.opened(postgresql_url) as engine, engine.begin() as opened:
            await opened.exec_driver_sql("INSERT INTO notes VALUES (41, 'none')")
        filters: Any = {"column": "n", "op": "ge", "value": 0}
        descending: Any = [{"column": "n", "order": "desc"}]
        asked: tuple[Callable[[], Any], ...] = (
            lambda: converting.query(filters=filters, order_by=descending),
            lambda: converting.sql("SELECT max(n) FROM data"),
            lambda: converting.refine(order_by=descending, name="refined"),
            lambda: plain.sql("SELECT max(CAST(words AS INTEGER)) FROM data"),
        )
        messages = []
        for ask in asked:
            with pytest.raises(FetchError) as error:
                await ask()
            messages.append((error.value.code, "in the query of the result" in str(error.value)))
        assert messages == [("QUERY_EXECUTION_FAILED", True)] * 3 + [("INVALID_SQL", False)]
