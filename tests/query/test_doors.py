"""One question has one answer through every door: pages and streams of REST, refinements, the tools, the clients."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import mcp
import pytest
from duckdb_sqlalchemy.datatypes import HugeInteger
from mcp.server import MCPServer
from sqlalchemy import CHAR, Column, Double, Integer, LargeBinary, MetaData, Table, Time, select
from sqlalchemy.dialects.mysql import BIT
from sqlalchemy.types import NullType
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.mcp import add_result_tools
from dualsql_client import FetchError, ParsedDualResponse
from dualsql_client.wire import UNFIT_KEY
from tests.client.hosting import listening_socket, origin_of, serving
from tests.columns.kinds import table
from tests.columns.kinds.results import Served, served
from tests.columns.kinds.test_table import filled
from tests.databases.test_claims import run
from tests.javascript.running import node, run as run_program

SEED = 34
ODD = (
    0, 1, 1.0, 1.5, True, 2**53, -(2**63), 2**63 - 1, 2**63, 2**64, 1e300, 10**25, "", "1", "1.5", "a", "NaN", "nan",
    "Infinity", "infinity", "1_0", "AP8=", "2024-02-29", "2024-02-30", "2024-02-29T12:30:00", "2024-02-29T10:30:00Z",
    "0000-00-00", "12:30", "24:00", "12:30:00.500000", "P1DT2H3M4.5S", "P1M",
    "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "\x00", "é", "b,a", "x" * 300,
)  # fmt: skip
OPERATORS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "in", "not_in", "between"),
    *("contains", "contains_any_case", "starts_with", "is_null"),
)
BOUNDS: tuple[dict[str, Any], ...] = tuple(
    {name: value}
    for name in ("limit", "offset")
    for value in (0, 1, -1, 2**31 - 1, 2**31, 10**20, "1", "-1", "x", True, 1.0, 1.5, [1])
)
MISTAKES: tuple[dict[str, Any], ...] = (
    {"columns": ["nothing"]}, {"columns": []}, {"columns": ["id", "id"]}, {"columns": [5]}, {"columns": "id"},
    {"order_by": ["nothing"]}, {"order_by": ["id", "-id"]}, {"order_by": [{"column": "id", "order": "down"}]},
    {"group_by": ["nothing"]}, {"group_by": ["id"], "aggregates": ["count"]}, {"group_by": 5},
    {"aggregates": ["summ(id)"]}, {"aggregates": [{"function": "sum", "column": "nothing"}]},
    {"aggregates": [{"function": "percentile", "column": "id", "fraction": 2}]}, {"aggregates": ["count", "count"]},
    {"filters": "id = 1"}, {"filters": [{"id": 1}]}, {"filters": [{"column": "id", "op": "like", "value": "a"}]},
    {"filters": [{"column": "id", "op": "in", "value": []}]}, {"filters": [{"column": "id", "op": "eq"}]},
    {"filters": [{"column": "id", "op": "between", "value": [1]}]}, {"filters": [{"and": []}]},
    {"filters": [{"column": "id", "op": "eq", "value": {"a": 1}}]}, {"having": [{"column": "count", "value": 1}]},
    {"filters": '[{"column": "ID", "op": "eq", "value": 1}]'}, {"order_by": "-id"}, {"columns": ["ID"]},
)  # fmt: skip


def questions(name: str, shown: list[Any], random: Random, number: int) -> list[dict[str, Any]]:
    """Some questions about a column, with values that it shows and others."""

    def value() -> Any:
        return random.choice(shown if shown and random.random() < 0.5 else ODD)

    asked: list[dict[str, Any]] = []
    for operator in random.sample(OPERATORS, min(number, len(OPERATORS))):
        several = [value() for _ in range(2 if operator == "between" else 3)]
        operand = several if operator in ("in", "not_in", "between") else several[0]
        condition: dict[str, Any] = {"column": name, "op": operator, "value": operand}
        if operator == "is_null":
            condition["value"] = random.random() < 0.5
        order = {"order_by": [{"column": name, "order": "desc"}]} if random.random() < 0.2 else {}
        asked.append({"filters": [condition if random.random() < 0.8 else {"not": condition}], **order})
    function = random.choice(("count_distinct", "sum", "avg", "min", "max", "median"))
    asked.append({"aggregates": ["count", {"function": function, "column": name, "as": "answer"}]})
    asked.append({"group_by": [name], "aggregates": ["count"]})
    return asked


class Doors:
    """The doors to one result. An answer is a list of rows, or the code, message and hint of an error."""

    def __init__(self, server: Served, tools: mcp.Client, result: ParsedDualResponse) -> None:
        self._server, self._tools, self._result = server, tools, result
        self._id = result.resource_uri.rpartition("/")[2]

    async def post(self, below: str, body: dict[str, Any]) -> Any:
        return await self._server.http.post(f"/resources/{self._id}/{below}", json=body)

    async def page(self, question: dict[str, Any], below: str = "query") -> Any:
        return _answer(await self.post(below, question))

    async def stream(self, question: dict[str, Any]) -> Any:
        answer = await self.post("query", {**question, "format": "ndjson"})
        if answer.status_code != 200:
            return _answer(answer)
        *rows, last = map(json.loads, answer.text.splitlines())
        problem = last.get("$problem")
        return rows if problem is None else tuple(problem[key] for key in ("code", "message", "hint"))

    async def refined(self, question: dict[str, Any]) -> Any:
        answer = await self.post("refine", question)
        return _answer(answer) if answer.status_code != 201 else await self.rows_of(answer.json())

    async def rows_of(self, structure: dict[str, Any]) -> Any:
        """The rows of a result, of which the model sees some."""
        below = structure["resource"]["uri"].rpartition("/")[2]
        answer = await self._server.http.post(f"/resources/{below}/rows", json={"format": "json"})
        rows = _answer(answer)
        if isinstance(rows, list):
            assert structure["metadata"]["total_count"] == len(rows)
        return rows

    async def tool(self, question: dict[str, Any], name: str = "query_result") -> Any:
        answer = await self._tools.call_tool(name, {"resource": self._id, **question})
        structure: Any = answer.structured_content
        if answer.is_error:
            assert structure is not None, answer.content
            return tuple(structure["error"][key] for key in ("code", "message", "hint"))
        return await self.rows_of(structure)

    async def client(self, question: dict[str, Any]) -> Any:
        try:
            return (await self._result.query(**question)).data
        except FetchError as error:
            return (error.code, error.message, error.hint)


def _answer(answer: Any) -> Any:
    body = answer.json()
    if answer.status_code != 200:
        return tuple(body[key] for key in ("code", "message", "hint"))
    return body["data"] if isinstance(body, dict) else body


@pytest.mark.quick(1, "sqlite")
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*:Warning:asyncmy")
@pytest.mark.parametrize("engine", table.KINDS)
async def test_a_question_about_each_type(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url, declared = await filled(engine, tmp_path, request), table.declared(table.KINDS[engine])
    random = Random(SEED)
    different: list[Any] = []
    tools = MCPServer("doors")
    async with served(url, declared.metadata, maximum_refinements=10_000) as server:
        add_result_tools(server.dual, tools, sample_size=100)
        async with mcp.Client(tools) as connection:
            for column in list(declared.c)[1:]:
                result = await server.result(select(declared.c.id, column))
                doors = Doors(server, connection, result)
                cells = [row for row in result.sample if row[column.name] is not None]
                shown = [row[column.name] for row in cells if UNFIT_KEY not in row]
                plain = [value for value in shown if not isinstance(value, list | dict)]
                for question in questions(column.name, plain, random, 4):
                    wanted = await doors.page(question)
                    for door in (doors.stream, doors.refined, doors.tool, doors.client):
                        answer = await door(question)
                        are_refused = isinstance(answer, tuple) and isinstance(wanted, tuple)
                        if door == doors.stream and are_refused:
                            continue  # a value that PostgreSQL's driver refuses has a message of streams
                        if answer != wanted:
                            different.append((door.__name__, question, wanted, answer))
    assert different == []


@pytest.mark.quick(1)
async def test_bounds_and_mistakes(tmp_path: Path) -> None:
    numbers = Table("numbers", MetaData(), Column("id", Integer, primary_key=True), Column("v", Double))
    url = f"sqlite:///{tmp_path}/numbers.db"
    run(
        url,
        "CREATE TABLE numbers (id INTEGER PRIMARY KEY, v DOUBLE); INSERT INTO numbers VALUES (1, 0.5), (2, NULL)",
    )
    tools = MCPServer("doors")
    different: list[Any] = []
    async with served(url, numbers.metadata, maximum_refinements=1_000) as server:
        add_result_tools(server.dual, tools)
        async with mcp.Client(tools) as connection:
            doors = Doors(server, connection, await server.result(select(numbers)))
            for question in (*BOUNDS, *MISTAKES):
                wanted = await doors.refined(question)
                answers = [await doors.tool(question)]
                if question in MISTAKES:
                    answers += [await doors.page(question), await doors.stream(question)]
                    answers.append(await doors.client(question))
                if question.keys() <= {"filters", "columns", "order_by", "limit", "offset"}:
                    answers.append(await doors.tool(question, "refine_result"))
                different += [(question, wanted, answer) for answer in answers if answer != wanted]
            assert (
                await doors.refined({"limit": "1"})
                == await doors.refined({"limit": 1.0})
                == [{"id": 1, "v": 0.5}]
            )
    assert different == []


PROGRAM = """
const { DualClient } = await import(process.env.DUALSQL_CLIENT);
const [, , baseUrl, id] = process.argv;
const result = await new DualClient({ baseUrl }).open(id);
const asked = [
  () => result.query({ filters: [{ column: "v", op: "lt", value: Infinity }] }),
  () => result.query({ filters: [{ column: "v", op: "eq", value: NaN }] }),
  () => result.query({ filters: [{ column: "v", op: "gt", value: -1n }] }),
  () => result.query({ filters: [{ column: "b", op: "eq", value: new Uint8Array([0, 255]) }] }),
  () => result.query({ filters: [{ column: "b", op: "in", value: [Buffer.from([0, 255])] }] }),
  () => result.sql("SELECT * FROM data WHERE v < :most", { most: Infinity }),
  () => result.sql("SELECT * FROM data WHERE v = :v", { v: NaN }),
  () => result.page({ limit: NaN }),
];
const answers = [];
for (const ask of asked) answers.push(await ask().then(({ data }) => data.map(({ id }) => id), ({ code }) => code));
console.log(JSON.stringify(answers));
"""


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_values_that_json_does_not_have(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """NaN, the infinities, bytes: JSON.stringify writes null for the first, with which no comparison is true."""
    url: str = request.getfixturevalue(f"{engine}_url")
    kinds = {"sqlite": ("REAL", "BLOB", "x'00ff'"), "postgresql": ("DOUBLE PRECISION", "BYTEA", r"'\x00ff'")}[
        engine
    ]
    run(url, f"CREATE TABLE odd (id INTEGER PRIMARY KEY, v {kinds[0]}, b {kinds[1]})")
    nan = "NULL" if engine == "sqlite" else "'NaN'"
    run(url, f"INSERT INTO odd VALUES (1, 0.5, {kinds[2]}), (2, {nan}, NULL)")
    metadata = MetaData()
    odd = Table(
        "odd",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("v", Double),
        Column("b", LargeBinary),
    )
    program = tmp_path / "odd.mjs"
    program.write_text(PROGRAM)
    found = {"sqlite": ("BAD_PARAMETER", []), "postgresql": ([2], [2])}[engine]
    with listening_socket() as port:
        origin = origin_of(port)
        async with served(url, metadata) as server:
            response = await server.dual.create_response(select(odd).order_by(odd.c.id), name="Odd")
            async with serving(Starlette(routes=[Mount("/resources", server.dual.router())]), port):
                base_url = f"{origin}/resources"
                text = await run_program(node(), program, base_url, response.resource_id)
    greater = [1] if engine == "sqlite" else [1, 2]  # PostgreSQL's NaN is above all numbers
    assert json.loads(text) == [[1], found[0], greater, [1], [1], [1], found[1], "BAD_PARAMETER"]


REFUSED = "BAD_PARAMETER"
SHOWN: dict[str, tuple[str, Any, str, tuple[tuple[str, Any, Any], ...]]] = {
    "postgresql, CHAR": (
        "char(5)",
        CHAR(5),
        "('a'), ('ab'), (NULL)",
        (
            ("contains", "a ", ["a    "]),
            ("contains_any_case", "A ", ["a    "]),
            ("starts_with", "a    ", ["a    "]),
            ("not_contains", "a ", ["ab   "]),
            ("eq", "a    ", ["a    "]),
            ("eq", "a", ["a    "]),
        ),
    ),
    "sqlite, doubles": (
        "double",
        Double(),
        "(0.5), (1e308), (9e999), (NULL)",
        (
            ("gt", "0.5", [1e308, "Infinity"]),
            ("lt", "Infinity", [0.5, 1e308]),
            *(("ne", value, REFUSED) for value in ("NaN", "nan", "1e400", "1_0", "\u0663", True)),
        ),
    ),
    "sqlite, whole numbers": (
        "integer",
        Integer(),
        "(1), (9007199254740992)",
        (("eq", 1.0, [1]), *(("eq", value, REFUSED) for value in (1.5, 2.0**53, "1_0", "1.0", True))),
    ),
    "duckdb, HUGEINT": (
        "hugeint",
        HugeInteger(),
        "(1), (170141183460469231731687303715884105727)",
        (("ge", 2**63, [2**127 - 1]), ("in", [str(2**127 - 1)], [2**127 - 1])),
    ),
    "mariadb, base64": ("inet6", NullType(), "('::1'), (NULL)", (("eq", "AP8=", []),)),
}


@pytest.mark.filterwarnings("ignore:.*:Warning:asyncmy")
@pytest.mark.parametrize("case", SHOWN)
async def test_live_answers_and_refinements_find_what_is_shown(
    case: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    engine, (type_, declared, values, asked) = case.partition(",")[0], SHOWN[case]
    url = (
        f"duckdb:///{tmp_path}/shown.duckdb"
        if engine == "duckdb"
        else request.getfixturevalue(f"{engine}_url")
    )
    run(url, f"CREATE TABLE shown (v {type_})")
    run(url, f"INSERT INTO shown VALUES {values}")
    shown = Table("shown", MetaData(), Column("v", declared))
    async with served(url, shown.metadata) as server, mcp.Client(MCPServer("none")) as nothing:
        doors = Doors(server, nothing, await server.result(select(shown)))
        for operator, value, wanted in asked:
            question = {"filters": [{"column": "v", "op": operator, "value": value}]}
            for answer in (await doors.page(question), await doors.refined(question)):
                found = (
                    answer[0] if isinstance(answer, tuple) else sorted((row["v"] for row in answer), key=str)
                )
                assert found == (wanted if isinstance(wanted, str) else sorted(wanted, key=str)), question


async def test_groups_show_what_rows_show(sqlite_url: str, mariadb_url: str) -> None:
    """SQLite's time() takes 24:00, which is none of Python's; MariaDB groups BITs as numbers."""
    for url, type_, declared, values, cells in (
        (sqlite_url, "time", Time(), "('24:00'), ('12:30')", ["12:30:00", "24:00"]),
        (mariadb_url, "bit(9)", BIT(9), "(b'101'), (b'0'), (b'101')", [0, 5]),
    ):
        run(url, f"CREATE TABLE shown (v {type_})")
        run(url, f"INSERT INTO shown VALUES {values}")
        shown = Table("shown", MetaData(), Column("v", declared))
        async with served(url, shown.metadata) as server, mcp.Client(MCPServer("none")) as nothing:
            doors = Doors(server, nothing, await server.result(select(shown)))
            sql = {"sql": "SELECT DISTINCT v FROM data ORDER BY v"}
            for rows in (
                await doors.page({"group_by": ["v"], "aggregates": ["count"]}),
                await doors.page(sql, "sql"),
                await doors.refined(sql),
            ):
                assert [row["v"] for row in rows] == cells
