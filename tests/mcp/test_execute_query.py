"""The tools that run what a model asks in words: SQL or a saved query, and errors it can act on."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp_types import CallToolResult
from sqlalchemy import Integer, bindparam, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import ConfigurationError, DualResponseServer, RowFilter, SavedQuery, Shared
from dualsql.identity import BearerTokens
from dualsql.mcp import add_execute_query, add_query
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Connection, Host, MakeDual, text_of, wire_of
from tests.mcp.test_identity import Verifier, calling, guarded, running
from tests.schools import Program, School, visits
from tests.sql.attacks import ATTACKS

IN_STATE = SavedQuery(
    "schools_in",
    select(School.id, School.name)
    .where(School.state == bindparam("state"), School.id > bindparam("above", 0))
    .order_by(School.id)
    .limit(bindparam("top", type_=Integer)),
    description="The first schools of a state.",
    parameters={"state": Literal["NJ", "NY", "CA"]},
)


async def raw(connection: Connection, **arguments: Any) -> CallToolResult:
    """A result that no schema holds for: of a call that never reached the query."""
    session = connection.session
    call = session.call_tool_mcp if hasattr(session, "call_tool_mcp") else session.call_tool
    result = await call("execute_query", arguments)
    assert isinstance(result, CallToolResult)
    return result


def structure(result: CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def problem(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    actual: dict[str, Any] = structure(result)["error"]
    assert isinstance(actual["details"]["suggestions"], list)
    assert text_of(result).startswith(f"{actual['code']}: ")
    return actual


async def test_an_empty_text_is_refused_without_naming_an_argument_that_is_not_there(
    dual: DualResponseServer, host: Host
) -> None:
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        result = await raw(connection, query="")
    assert "query must not be empty." in text_of(result)
    assert "query_name" not in text_of(result)


@pytest.mark.parametrize("empty", [{"query_name": ""}, {"source_name": None, "query_name": None}])
async def test_an_empty_argument_that_this_server_lacks_is_absent(
    dual: DualResponseServer, host: Host, empty: dict[str, Any]
) -> None:
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        result = await raw(connection, query="SELECT count(*) AS n FROM schools", **empty)
        assert not result.is_error, text_of(result)
        assert (await raw(connection, query="SELECT 1", query_name="x")).is_error


@pytest.mark.quick(1)
async def test_a_text_is_answered_by_a_dual_response(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call(
            "execute_query",
            query="SELECT id, name FROM schools WHERE state = :state ORDER BY id DESC LIMIT 3; -- the last",
            parameters={"state": "NJ"},
        )
    assert structure(result)["metadata"]["total_count"] == 3, "its own LIMIT holds"
    assert structure(result)["results"][0]["name"].startswith("School")
    assert await dual.unchecked.get(structure(result)["resource"]["uri"].partition("://")[2])
    assert "all 3 rows" in text_of(result)


@pytest.mark.quick(1)
async def test_a_saved_query_is_run_by_its_name(make_dual: MakeDual, host: Host) -> None:
    dual = make_dual(saved_queries=[IN_STATE])
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call(
            "execute_query", query_name="schools_in", parameters={"state": "NJ", "top": 2}
        )
        described = (await connection.tools())["execute_query"].description or ""
        wrong = problem(
            await connection.call(
                "execute_query", query_name="schools_in", parameters={"state": "XX", "top": 2}
            )
        )
        missing = problem(
            await connection.call("execute_query", query_name="schools_in", parameters={"stat": "NJ"})
        )
        unknown = problem(await connection.call("execute_query", query_name="school_in"))
    assert [row["id"] for row in structure(result)["results"]] == [5, 10]
    assert structure(result)["resource"]["name"] == "Schools in"
    assert structure(result)["resource"]["description"] == "The first schools of a state."
    assert "UNION of SQLite." in described
    assert "query_name" in described
    assert (wrong["code"], missing["code"], unknown["code"]) == ("BAD_PARAMETER",) * 3
    assert missing["details"]["suggestions"] == ["state"]
    assert unknown["details"]["suggestions"] == ["schools_in"]


@pytest.mark.parametrize(
    "arguments", [{}, {"query": "SELECT 1", "query_name": "schools_in"}, {"parameters": {}}]
)
async def test_a_malformed_call_is_answered_as_the_sdk_answers_one(
    make_dual: MakeDual, host: Host, arguments: dict[str, Any]
) -> None:
    server = host.server()
    add_execute_query(make_dual(saved_queries=[IN_STATE]), server)
    async with host.connected(server) as connection:
        result = await raw(connection, **arguments)
        of_the_sdk = await raw(connection, query=["SELECT 1"])
    for refused in (result, of_the_sdk):
        assert refused.is_error
        assert refused.structured_content is None
    assert "exactly one of query and query_name" in text_of(result)


ERRORS = {
    "SELECT * FROM school": ("UNKNOWN_TABLE", ["schools"]),
    "SELECT nam FROM schools": ("UNKNOWN_COLUMN", ["name"]),
    "SELECT upperr(name) FROM schools": ("FORBIDDEN_SQL", ["upper"]),
    "DELETE FROM schools": ("FORBIDDEN_SQL", []),
    "SELECT FROM WHERE": ("INVALID_SQL", []),
    "SELECT id FROM schools WHERE name = :name": ("INVALID_SQL", []),
    "SELECT abs(-9223372036854775807 - 1) FROM schools": ("QUERY_EXECUTION_FAILED", None),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("query", ERRORS)
async def test_an_error_says_what_to_do(dual: DualResponseServer, host: Host, query: str) -> None:
    code, suggestions = ERRORS[query]
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call("execute_query", query=query)
    actual = problem(result) if suggestions is not None else structure(result)["error"]
    assert actual["code"] == code
    assert actual["hint"]
    if suggestions is not None:
        assert actual["details"]["suggestions"][: len(suggestions)] == suggestions
    if code == "UNKNOWN_TABLE":
        assert set(actual["details"]["tables"]) == {"schools", "programs", "visits", "notes"} & set(
            actual["details"]["tables"]
        )
    if code == "UNKNOWN_COLUMN":
        assert "state" in actual["details"]["columns"]


async def test_a_table_one_may_not_know_of_looks_like_none(make_dual: MakeDual, host: Host) -> None:
    saved = SavedQuery("hidden_visits", select(visits))
    server = host.server()
    add_execute_query(
        make_dual(saved_queries=[saved, IN_STATE]), server, visible=lambda who, table: table.name != "visits"
    )
    async with host.connected(server) as connection:
        hidden = await connection.call("execute_query", query="SELECT * FROM visits")
        absent = await connection.call("execute_query", query="SELECT * FROM visitz")
        by_name = await connection.call("execute_query", query_name="hidden_visits")
        no_name = await connection.call("execute_query", query_name="hidden_visitz")
        inside = await connection.call(
            "execute_query", query="SELECT id FROM schools WHERE id IN (SELECT id FROM main.visits)"
        )
    for one, other in ((hidden, absent), (by_name, no_name)):
        assert wire_of(one).replace("visits", "visitz") == wire_of(other)
        assert 'suggestions":["visits' not in wire_of(other).replace(" ", "")
    assert problem(inside)["code"] == "UNKNOWN_TABLE"


@pytest.mark.quick(1)
async def test_hooks_hold_for_what_a_model_writes(make_dual: MakeDual, host: Host) -> None:
    states = {"acme": "NJ", "globex": "NY"}
    hooks = [
        RowFilter(School, lambda who: School.state == states[str(who.tenant)]),
        Shared(Program, visits),
    ]
    query = "SELECT DISTINCT state FROM schools UNION SELECT max(state) FROM (SELECT * FROM schools) AS x"
    seen = {}
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(
            base_url=f"{origin}/resources",
            authenticate=BearerTokens(Verifier()),
            hooks=hooks,
            saved_queries=[IN_STATE],
            tables=[School, Program, visits],
        )
        server = guarded(host, origin)
        add_execute_query(dual, server)
        async with running(dual, server, listening):
            for token in ("token-of-ana", "token-of-bob"):
                async with calling(host, origin, token) as connection:
                    result = await connection.call("execute_query", query=query)
                    named = await connection.call(
                        "execute_query", query_name="schools_in", parameters={"state": "NJ", "top": 5}
                    )
                    seen[token] = (
                        [list(row.values()) for row in structure(result)["results"]],
                        structure(named)["metadata"]["total_count"],
                    )
    assert seen == {"token-of-ana": ([["NJ"]], 4), "token-of-bob": ([["NY"]], 0)}


async def test_a_stranger_learns_nothing_where_hooks_want_a_principal(
    make_dual: MakeDual, host: Host
) -> None:
    hooks = [RowFilter(School, lambda who: School.state == who.tenant), Shared(Program, visits)]
    tables = [School, Program, visits]
    server = host.server()
    add_execute_query(make_dual(hooks=hooks, tables=tables, saved_queries=[IN_STATE]), server)
    async with host.connected(server) as connection:
        for arguments in ({"query": "SELECT * FROM nothing"}, {"query_name": "nothing"}):
            actual = problem(await connection.call("execute_query", **arguments))
            assert actual["code"] == "FORBIDDEN"
            assert "schools" not in str(actual)


@pytest.mark.quick(1)
async def test_one_of_several_databases(
    make_dual: MakeDual,
    host: Host,
    schools: AsyncEngine,
    postgresql_url: str,
    make_engine: Callable[[str], Any],
) -> None:
    dual = make_dual(databases={"here": schools, "there": make_engine(postgresql_url)}, saved_queries=[])
    server = host.server()
    add_execute_query(dual, server)
    async with host.connected(server) as connection:
        described = (await connection.tools())["execute_query"].description or ""
        here = await connection.call("execute_query", query="SELECT 1 AS one", source_name="here")
        there = await connection.call(
            "execute_query", query="SELECT date_trunc('year', localtimestamp) AS y", source_name="there"
        )
        neither = problem(await connection.call("execute_query", query="SELECT 1 AS one"))
        unknown = problem(await connection.call("execute_query", query="SELECT 1", source_name="hre"))
    assert "here (SQLite), there (PostgreSQL)" in described
    assert not here.is_error
    assert not there.is_error
    assert "several" in neither["message"]
    assert (
        unknown["details"]["suggestions"] == ["here", "there"] or "here" in unknown["details"]["suggestions"]
    )
    with pytest.raises(ConfigurationError, match="Which database"):
        add_query(dual, host.server())


async def test_the_plain_tool_takes_sql_and_nothing_else(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_query(dual, server)
    async with host.connected(server) as connection:
        schema = (await connection.tools())["query"].input_schema
        result = await connection.call("query", sql="SELECT count(*) AS n FROM schools")
        wrong = problem(await connection.call("query", sql="SELECT * FROM school"))
    assert list(schema["properties"]) == schema["required"] == ["sql"]
    assert structure(result)["results"] == [{"n": 23}]
    assert wrong["details"]["suggestions"] == ["schools"]


@pytest.mark.quick(1)
async def test_the_corpus_of_attacks_is_refused_by_the_tool(
    make_dual: MakeDual, filled: Path, host: Host, schools: AsyncEngine
) -> None:
    """Through a real client, and afterwards the database is what it was."""
    server = host.server()
    add_execute_query(make_dual(), server)
    passed = []
    async with host.connected(server) as connection:
        for attack in ATTACKS:
            result = await raw(connection, query=attack)
            if not result.is_error or "DUAL_RESPONSE_ERROR" in text_of(result):
                passed.append(attack)
    assert passed == []
    assert filecmp.cmp(str(schools.url.database), filled, shallow=False)
