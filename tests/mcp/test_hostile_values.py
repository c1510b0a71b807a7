"""Values that no database takes, in every argument of every tool and every parameter: answered in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    Interval,
    LargeBinary,
    Numeric,
    Select,
    SmallInteger,
    String,
    Time,
    Uuid,
    bindparam,
    create_engine,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import BadParameterError, SavedQuery
from dualsql.errors import CountExecutionError, DualResponseError, NotFreezableError, QueryExecutionError
from dualsql.mcp import add_catalogue, add_data_manager, add_execute_query, add_result_tools
from tests.http.application import INSTITUTIONS, METADATA, ROWS, fill, running
from tests.http.test_hostile_values import VALUES
from tests.mcp.conftest import Host
from tests.quick import case_of

HOSTILE: tuple[Any, ...] = (
    *VALUES, 10**5_000, -(10**5_000), [10**5_000], {"a": {"b": 10**5_000}}, -1, 2**63 - 1, 2**53, 1e30, "PT1e5S",
    "P999999999999D", "12:00", "a\0b", "random:" + "9" * 30, "capped:" + "9" * 30, "1E+400000000",
)  # fmt: skip
TYPES: dict[str, Any] = {
    "i": Integer(), "big": BigInteger(), "n": Numeric(), "f": Double(), "d": Date(), "dt": DateTime(), "t": Time(),
    "u": Uuid(), "s": String(), "b": Boolean(), "iv": Interval(), "by": LargeBinary(), "j": JSON(),
    "e": Enum("red", "blue", native_enum=False),
}  # fmt: skip
TOP = SavedQuery("top", select(INSTITUTIONS).limit(bindparam("v", type_=Integer())))
AMONG = SavedQuery(
    "among",
    select(INSTITUTIONS).where(INSTITUTIONS.c.id.in_(bindparam("v", expanding=True, type_=Integer()))),
)
QUERIES = [
    TOP,
    AMONG,
    *(
        SavedQuery(name, select(INSTITUTIONS.c.id).add_columns(bindparam("v", type_=kind).label("shown")))
        for name, kind in TYPES.items()
    ),
]
TEXTS = (
    "SELECT id FROM institutions WHERE tuition > :v",
    "SELECT :v AS a, id FROM institutions WHERE founded > :v OR id = :v",
)
UNFORESEEN = {
    error.code for error in (DualResponseError, NotFreezableError, QueryExecutionError, CountExecutionError)
}
"""What a caller is told of a mistake of ours, of a tool's author, and of a database that refused the statement."""

Calls = Iterator[tuple[str, dict[str, Any]]]


def calls(tools: dict[str, Any], uri: str) -> Calls:
    """Every hostile value as every parameter, and as every argument beside good ones."""
    good = {
        "resource": uri, "data_access_id": uri, "operation": "query", "sql": "SELECT * FROM data",
        "table": "institutions", "terms": ["a"], "query": "SELECT * FROM institutions",
    }  # fmt: skip
    for value in HOSTILE:
        for query in QUERIES:
            given = [value] if query is AMONG else value
            yield "execute_query", {"query_name": query.name, "parameters": {"v": given}}
        for text in TEXTS:
            yield "execute_query", {"query": text, "parameters": {"v": value}}
        for name, tool in tools.items():
            arguments = tool.input_schema["properties"]
            beside = {key: one for key, one in good.items() if key in arguments}
            if "filters" in arguments:
                del beside["sql"]
            for argument in arguments:
                yield name, {**beside, argument: value}


async def faults(host: Host, url: str, *, step: int, start: int = 0) -> list[str]:
    """The calls, of every `step`, that raise or are answered by anything but rows and refusals."""
    found = []
    async with running(url, saved_queries=QUERIES, maximum_refinements=1_000_000) as application:
        server = host.server()
        add_execute_query(application.server, server)
        add_result_tools(application.server, server)
        add_data_manager(application.server, server)
        add_catalogue(application.server, server)
        async with host.connected(server) as connection:
            uri = f"resource://{(await application.create()).rpartition('/')[2]}"
            asked = list(calls(await connection.tools(), uri))
            call = connection.session.call_tool_mcp if host.is_fast else connection.session.call_tool
            for name, arguments in asked[start::step]:
                answer = await call(name, arguments)
                assert isinstance(answer, CallToolResult)
                if (code := _code(answer)) in UNFORESEEN:
                    found.append(
                        f"{name} {code}: {list(arguments)} {[_brief(v) for v in arguments.values()]}"
                    )
    return found


def _code(result: CallToolResult) -> str | None:
    """None for rows, and for a call that is malformed."""
    content: Any = result.structured_content
    return content["error"]["code"] if result.is_error and content else None


def _brief(value: Any) -> str:
    return (
        hex(value)[:30] if isinstance(value, int) else ascii(value)[:60] if not _has_giant(value) else "..."
    )


def _has_giant(value: Any) -> bool:
    return isinstance(value, list | dict) and any(not isinstance(one, str | float) for one in value)


@pytest.mark.quick(1)
async def test_one_in_many(host: Host, sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> None:
    await fill(make_engine(sqlite_url))
    assert await faults(host, sqlite_url, step=29) == []


@pytest.mark.parametrize("start", [case_of(part, is_long=True, is_exhaustive=part > 0) for part in range(4)])
async def test_all(
    host: Host, sqlite_url: str, make_engine: Callable[[str], AsyncEngine], start: int
) -> None:
    await fill(make_engine(sqlite_url))
    assert await faults(host, sqlite_url, step=4, start=start) == []


@pytest.mark.parametrize("start", [case_of(part, is_long=True, is_exhaustive=part > 0) for part in range(4)])
async def test_on_postgresql(
    postgresql_url: str, make_engine: Callable[[str], AsyncEngine], start: int
) -> None:
    await fill(make_engine(postgresql_url))
    assert await faults(Host("official"), postgresql_url, step=4, start=start) == []


@pytest.mark.parametrize("query", [query for query in QUERIES if query.name != "j"], ids=lambda one: one.name)
def test_a_parameter_is_read_or_refused_by_its_name(query: SavedQuery) -> None:
    for value in HOSTILE:
        try:
            read = query.takes["v"].read([value] if query is AMONG else value)
        except BadParameterError as error:
            assert error.details["parameter"] == "v"  # noqa: PT017 - either is right
        else:
            assert not isinstance(read, int) or abs(read) <= 2**63
            assert not isinstance(read, Decimal) or len(format(read, "f")) < 2_500


def test_parameters_that_are_no_json() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for value in (10**5_000, nested):
        with pytest.raises(BadParameterError):
            TOP.with_values({"v": value})


# --- a value that the driver would refuse -----------------------------------------------------------------------

MISFITS: tuple[Any, ...] = (
    2**15, 2**31, 2**63 - 1, -(2**31) - 1, 0.5, 1e30, "1E+400", "Infinity", "NaN", "abc", "", "x" * 100, True, "1", 7,
    "2024-02-29", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00", "9999-12-31T23:59:59.999999+23:59",
    "0001-01-01T00:00:00+05:00", "12:00:00", "12:00:00+02:00", "P1D", "red", "green", "YQ==",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None, [1], {"a": 1},
)  # fmt: skip
KINDS: dict[str, Any] = {
    **TYPES,
    "small": SmallInteger(), "price": Numeric(6, 2), "zoned": DateTime(timezone=True), "ut": Uuid(as_uuid=False),
}  # fmt: skip
SHOWN = [
    SavedQuery(
        f"{name}_{said}",
        select(INSTITUTIONS.c.id).add_columns(bindparam("v", type_=kind).label("shown")),
        parameters=parameters,
    )
    for name, kind in KINDS.items()
    for said, parameters in (("typed", {}), ("loose", {"v": Any}))
]
COMPARED = [
    SavedQuery(
        f"by_{column.name}_{kind}", select(INSTITUTIONS).where(column > bindparam("v")), parameters=given
    )
    for column in INSTITUTIONS.c
    for kind, given in (("typed", {}), ("loose", {"v": Any}))
]


@pytest.fixture(
    params=[
        "sqlite",
        "postgresql",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("mariadb", "duckdb")),
    ]
)
async def filled_url(
    request: pytest.FixtureRequest, tmp_path: Path, make_engine: Callable[[str], AsyncEngine]
) -> str:
    """The URL of a database with the institutions."""
    if request.param == "duckdb":
        url = f"duckdb:///{tmp_path}/institutions.duckdb"
        engine = create_engine(url)
        with engine.begin() as connection:
            METADATA.create_all(connection)
            connection.execute(insert(INSTITUTIONS), ROWS)
        engine.dispose()
        return url
    address: str = request.getfixturevalue(f"{request.param}_url")
    await fill(make_engine(address))
    return address


@pytest.mark.long
async def test_a_value_that_the_database_does_not_take_is_refused_by_its_name(filled_url: str) -> None:
    refused, faults = 0, []
    async with running(filled_url, saved_queries=[*QUERIES, *SHOWN, *COMPARED]) as application:
        server = application.server
        for query in (*QUERIES, *SHOWN, *COMPARED):
            for value in MISFITS:
                given = [value] if query is AMONG else value
                try:
                    statement = server.sql.saved_queries.resolve(query.name, parameters={"v": given})
                    await server.create_response(statement.select, name="x")
                except BadParameterError as error:
                    refused += 1
                    if error.details.get("parameter") != "v" or not error.hint.startswith("It must "):
                        faults.append(f"{query.name} {value!r}: {error}")
                except DualResponseError as error:
                    if error.code in UNFORESEEN:
                        faults.append(f"{query.name} {value!r}: {error.code} {error.__cause__!r}"[:300])
    assert not faults, "\n".join(faults)
    assert refused > 100


# --- the arguments of an application's own tools -----------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_an_argument_of_an_own_tool_is_refused_by_its_name(
    host: Host, engine: str, request: pytest.FixtureRequest, make_engine: Callable[[str], AsyncEngine]
) -> None:
    url: str = request.getfixturevalue(f"{engine}_url")
    await fill(make_engine(url))
    async with running(url) as application:
        server = host.server()

        @application.server.tool(server)
        def more_than(number: int, words: list[str]) -> Select[Any]:
            column = INSTITUTIONS.c
            return select(INSTITUTIONS).where(column.enrollment > number, column.name.not_in(words))

        async with host.connected(server) as connection:
            for name, value in (("number", 10**30), ("number", -(2**63) - 1), ("words", ["a", "\ud800"])):
                parameters: dict[str, Any] = {"number": 1900, "words": ["a"], name: value}
                if host.is_fast and name == "words":
                    continue  # its client sends no such text
                problem = await _problem(connection, parameters)
                assert problem == ("BAD_PARAMETER", {"name": name}), (name, value)
            if engine == "postgresql":
                for name, value in (("number", 2**31), ("words", ["a\0b"])):
                    parameters = {"number": 1900, "words": ["a"], name: value}
                    assert await _problem(connection, parameters) == ("BAD_PARAMETER", {"name": name}), (
                        name,
                        value,
                    )
            assert await _problem(connection, {"number": 1900, "words": ["a"]}) is None


async def _problem(connection: Any, arguments: dict[str, Any]) -> tuple[str, Any] | None:
    answer = await connection.call("more_than", **arguments)
    content: Any = answer.structured_content
    return (content["error"]["code"], content["error"]["details"]) if answer.is_error else None
