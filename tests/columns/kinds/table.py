"""The table of types in docs/types.md, filled by asking each database for a value of each in every format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from duckdb_sqlalchemy import datatypes as duckdb_types
from sqlalchemy import (
    ARRAY,
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Time,
    Uuid,
    select,
    types,
)
from sqlalchemy.dialects import mysql, postgresql as pg

from tests.columns.kinds.results import Served, table_of, values_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "types.md"
BEGINS = "<!-- Written by: pytest tests/columns/kinds/test_table.py --rewrite-types -->\n"

_ROW = re.compile(r'\{"[^"]+":(?P<cell>.*?)(?P<unfit>,"\$unfit":.*)?\}')


class Kind(NamedTuple):
    """A type as its database spells it, as SQLAlchemy declares it, and a value in SQL."""

    sql_type: str
    type: Any
    value: str


COMMON = (
    Kind("INTEGER", Integer(), "42"),
    Kind("BIGINT", BigInteger(), "9007199254740993"),
    Kind("NUMERIC(10,2)", Numeric(10, 2), "1.50"),
    Kind("BOOLEAN", Boolean(), "true"),
    Kind("VARCHAR(20)", String(20), "'a\"b'"),
    Kind("DATE", Date(), "'2024-02-29'"),
    Kind("TIME", Time(), "'12:30:00.500000'"),
)
KINDS: Mapping[str, Sequence[Kind]] = {
    "SQLite": (
        *COMMON,
        Kind("REAL", Double(), "0.1"),
        Kind("TEXT", Text(), "'text'"),
        Kind("DATETIME", DateTime(), "'2024-02-29 12:30:00.5'"),
        Kind("BLOB", LargeBinary(), "x'00ff'"),
        Kind("JSON", JSON(), "'{\"a\": [1, 2.5]}'"),
        Kind("CHAR(32)", Uuid(), "'a0eebc999c0b4ef8bb6d6bb9bd380a11'"),
        Kind("ENUM", Enum("a", "b", name="letter"), "'a'"),
    ),
    "PostgreSQL": (
        *COMMON,
        Kind("SMALLINT", types.SmallInteger(), "7"),
        Kind("NUMERIC", Numeric(), "'NaN'"),
        Kind("REAL", types.REAL(), "0.1"),
        Kind("DOUBLE PRECISION", Double(), "'Infinity'"),
        Kind("MONEY", pg.MONEY(), "'1234.5'"),
        Kind("TEXT", Text(), "'text'"),
        Kind("TIMETZ", Time(timezone=True), "'12:30+02'"),
        Kind("TIMESTAMP", DateTime(), "'2024-02-29 12:30:00.5'"),
        Kind("TIMESTAMPTZ", DateTime(timezone=True), "'2024-02-29 12:30+02'"),
        Kind("TIMESTAMPTZ ", DateTime(timezone=True), "'infinity'"),
        Kind("DATE ", Date(), "'0044-03-15 BC'"),
        Kind("INTERVAL", Interval(), "'1 day 02:03:04.5'"),
        Kind("INTERVAL ", Interval(), "'1 year 2 mons'"),
        Kind("BYTEA", LargeBinary(), "'\\x00ff'"),
        Kind("JSONB", pg.JSONB(), "'{\"a\": [1, 2.5]}'"),
        Kind("UUID", Uuid(), "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        Kind("INET", pg.INET(), "'10.0.0.1/8'"),
        Kind("CIDR", pg.CIDR(), "'10.0.0.0/8'"),
        Kind("MACADDR", pg.MACADDR(), "'08:00:2b:01:02:03'"),
        Kind("BIT VARYING", pg.BIT(varying=True), "B'101'"),
        Kind("OID", pg.OID(), "4294967295"),
        Kind("PG_LSN", types.NullType(), "'16/B374D848'"),
        Kind("TSVECTOR", pg.TSVECTOR(), "'a b'"),
        Kind("INTEGER[]", ARRAY(Integer), "'{1,NULL}'"),
        Kind("FLOAT8[]", ARRAY(Double), "'{1.5,NaN}'"),
        Kind("NUMERIC[]", ARRAY(Numeric), "'{1.50,NaN}'"),
        Kind("TEXT[]", ARRAY(Text), "'{a,\"\"}'"),
        Kind("DATE[]", ARRAY(Date), "'{2024-02-29}'"),
        Kind("INT4RANGE", pg.INT4RANGE(), "'[1,5)'"),
        Kind("TSTZRANGE", pg.TSTZRANGE(), "'[2024-01-01 00:00+00,infinity)'"),
        Kind("INT4MULTIRANGE", pg.INT4MULTIRANGE(), "'{[1,3),[5,9)}'"),
    ),
    "MariaDB": (
        *COMMON,
        Kind("FLOAT", mysql.FLOAT(), "0.1"),
        Kind("DOUBLE", Double(), "0.1"),
        Kind("TEXT", Text(), "'text'"),
        Kind("DATETIME(6)", DateTime(), "'2024-02-29 12:30:00.5'"),
        Kind("BLOB", LargeBinary(), "x'00ff'"),
        Kind("JSON", JSON(), "'{\"a\": [1, 2.5]}'"),
        Kind("CHAR(32)", Uuid(native_uuid=False), "'a0eebc999c0b4ef8bb6d6bb9bd380a11'"),
        Kind("ENUM('a','b')", Enum("a", "b", name="letter"), "'a'"),
        Kind("SET('a','b')", mysql.SET("a", "b"), "'b,a'"),
    ),
    "DuckDB": (
        *COMMON,
        Kind("DOUBLE", Double(), "0.1"),
        Kind("TIMESTAMP", DateTime(), "'2024-02-29 12:30:00.5'"),
        Kind("BLOB", LargeBinary(), "'\\x00\\xff'"),
        Kind("TIMESTAMPTZ", DateTime(timezone=True), "'2024-02-29 12:30+02'"),
        Kind("TIMESTAMP ", DateTime(), "'infinity'"),
        Kind("DATE ", Date(), "'0044-03-15 (BC)'"),
        Kind("INTERVAL", Interval(), "INTERVAL '1 day 02:03:04.5'"),
        Kind("INTERVAL ", Interval(), "INTERVAL '1 month'"),
        Kind("UUID", Uuid(), "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        Kind("ENUM('b', 'a')", Enum("b", "a", name="letter"), "'a'"),
        Kind("HUGEINT", duckdb_types.HugeInteger(), str(2**100)),
        Kind("UHUGEINT", duckdb_types.UHugeInteger(), str(2**128 - 1)),
        Kind("BIT", types.NullType(), "'0101'"),
        Kind("JSON", JSON(), "'{\"a\": [1, 2.5]}'"),
        Kind("INTEGER[]", ARRAY(Integer), "[1, NULL]"),
        Kind("VARCHAR[][]", ARRAY(Text, dimensions=2), "[['a'], []]"),
        Kind("STRUCT(a INTEGER)", duckdb_types.Struct({"a": Integer()}), "{'a': 1}"),
        Kind("MAP(VARCHAR, INTEGER)", duckdb_types.Map(Text(), Integer()), "MAP {'a': 1}"),
        Kind("UNION(n INTEGER)", types.NullType(), "union_value(n := 5)"),
    ),
}


def statements(kinds: Sequence[Kind]) -> list[str]:
    """SQL that makes a table of these types, with one row."""
    columns = ", ".join(f"c{number} {kind.sql_type}" for number, kind in enumerate(kinds))
    values = ", ".join(kind.value for kind in kinds)
    return [
        f"CREATE TABLE kinds (id INTEGER PRIMARY KEY, {columns})",
        f"INSERT INTO kinds VALUES (1, {values})",
    ]


def declared(kinds: Sequence[Kind]) -> Table:
    """The same table as SQLAlchemy has it."""
    columns = [Column(f"c{number}", kind.type) for number, kind in enumerate(kinds)]
    return Table("kinds", MetaData(), Column("id", Integer, primary_key=True), *columns)


async def lines(server: Served, kinds: Sequence[Kind], tables: Table) -> list[str]:
    """A line of the table for each type."""
    result = await server.result(select(tables).order_by(tables.c.id))
    described = {column["name"]: column for column in result.columns}
    found = []
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        cells = [*_named(kind, described[name]), *await _shown(server, result, name)]
        found.append(f"| {' | '.join(cells)} |")
    return found


def _named(kind: Kind, described: Mapping[str, Any]) -> list[str]:
    items = f" of {described['items']}" if "items" in described else ""
    return [kind.sql_type.strip(), _code(kind.value), described["encoding"] + items]


async def _shown(server: Served, result: Any, name: str) -> list[str]:
    """The cells of all formats, and whether the column is filtered by what is shown, sorted and grouped."""
    ndjson = await server.rows(result, "ndjson", columns=[name])
    row = json.loads(ndjson.text.splitlines()[0])
    assert (await server.rows(result, "json", columns=[name])).json() == [row]
    csv = (await server.rows(result, "csv", columns=[name])).content.decode()
    return [
        _json(ndjson.text.splitlines()[0]),
        _code(csv.partition("\r\n")[2].removesuffix("\r\n")),
        _type(await server.rows(result, "arrow", columns=[name]), "arrow", name),
        _type(await server.rows(result, "parquet", columns=[name]), "parquet", name),
        await _asked(server, result, filters=[{"column": name, "op": "eq", "value": row[name]}]),
        await _asked(server, result, order_by=[{"column": name}]),
        await _asked(server, result, group_by=[name], aggregates=["count"]),
    ]


def _json(line: str) -> str:
    """The cell of a row of one column, as it is written."""
    match = _ROW.fullmatch(line)
    assert match is not None, line
    return _code(match["cell"]) + (", in `$unfit`" if match["unfit"] else "")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _type(answer: Any, format_name: str, name: str) -> str:
    """The type of the column; `refused` where the stream ends with a problem."""
    code = values_of(answer, format_name, name)
    if isinstance(code, str):
        assert code == "VALUE_NOT_REPRESENTABLE", code
        return "refused"
    return str(table_of(answer, format_name).schema.field(name).type)


async def _asked(server: Served, result: Any, **options: Any) -> str:
    """Whether a question is answered with the one row of the table, finds none, or is refused."""
    path = f"/resources/{result.resource_uri.rpartition('/')[2]}/query"
    answer = await server.http.post(path, json=options)
    if answer.status_code == 200:
        return "yes" if len(answer.json()["data"]) == 1 else "finds none"
    assert 400 <= answer.status_code < 500, (options, answer.text)
    return "refused"


def section(engine: str, listed: Sequence[str]) -> str:
    """What the document says of an engine."""
    head = "| type | value in SQL | encoding | JSON, NDJSON | CSV | Arrow | Parquet | filter | sort | group |"
    return f"### {engine}\n\n{head}\n" + "|---" * 10 + "|\n" + "\n".join(listed) + "\n"


def documented() -> tuple[str, dict[str, str]]:
    """The document before the table, and the section of each engine."""
    before, _, sections = DOCUMENT.read_text().partition(BEGINS)
    actual = [f"### {one.strip()}\n" for one in sections.split("### ")[1:]]
    return before, {one.splitlines()[0].removeprefix("### "): one for one in actual}


def rewrite(engine: str, listed: Sequence[str]) -> None:
    """Put what was seen of an engine into the document."""
    before, sections = documented()
    sections[engine] = section(engine, listed)
    ordered = [sections[one] for one in KINDS if one in sections]
    DOCUMENT.write_text(before + BEGINS + "\n" + "\n".join(ordered))
