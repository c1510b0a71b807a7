"""The catalogue over MCP: resources, pages, completion and tools, on either SDK."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.caching import CacheHint
from mcp_types import Completion, PromptReference
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, select

from dualsql import ConfigurationError, DualResponseServer, SavedQuery
from dualsql.mcp import add_catalogue, add_execute_query
from dualsql_client import DualResponseClient
from tests.mcp.conftest import Host, MakeDual, text_of
from tests.mcp.reading import Reader
from tests.schools import School

SCHOOLS = "catalog://default/schema/default/table/schools"
IN_STATE = SavedQuery(
    "schools_in_state", select(School.id).where(School.state == bindparam("state")), description="By state"
)


async def test_everything_is_listed_and_everything_listed_is_read(make_dual: MakeDual, host: Host) -> None:
    server = host.server()
    add_catalogue(make_dual(saved_queries=[IN_STATE]), server)
    async with host.connected(server) as connection:
        reader = Reader(connection)
        uris = await reader.everything()
        assert uris == [
            "catalog://default/catalog",
            "catalog://default/query/schools_in_state",
            "catalog://default/schema/default",
            "catalog://default/schema/default/table/programs",
            SCHOOLS,
            "catalog://default/schema/default/table/visits",
        ]
        for uri in uris:
            actual = await reader.read_json(uri)
            assert actual["definition"]
            assert actual["metadata"]["usage"]
        contents = await reader.read_json("catalog://default/catalog/contents")
        assert [item["uri"] for item in contents] == uris[1:]


async def test_what_is_read_is_current_for_a_minute_and_for_its_reader_alone(
    dual: DualResponseServer, host: Host
) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        actual = await Reader(connection).read(SCHOOLS)
    if host.kind != "official, older protocol":
        assert (actual.ttl_ms, actual.cache_scope) == (60_000, "private")


async def test_a_list_is_its_caller_s_whatever_the_server_says_of_lists(dual: DualResponseServer) -> None:
    host = Host("official")
    server = host.server(cache_hints={"resources/list": CacheHint(ttl_ms=60_000, scope="public")})
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        actual = await connection.session.list_resources()
    assert (actual.ttl_ms, actual.cache_scope) == (0, "private")


async def test_templates_of_the_hierarchy(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        assert await Reader(connection).templates() == {
            "catalog://{source}/catalog": "catalog",
            "catalog://{source}/catalog/contents": "catalog_contents",
            "catalog://{source}/schema/{schema}": "schema",
            "catalog://{source}/schema/{schema}/contents": "schema_contents",
            "catalog://{source}/schema/{schema}/table/{table}": "table",
            "catalog://{source}/schema/{schema}/view/{view}": "view",
            "catalog://{source}/query/{query}": "query",
        }


async def test_the_server_s_own_resources_stay(dual: DualResponseServer, host: Host) -> None:
    server: Any = host.server()

    def today() -> str:
        return "rain"

    def any_day(day: str) -> str:
        return day

    server.resource("notes://today")(today)
    server.resource("notes://{day}")(any_day)
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        reader = Reader(connection)
        assert (await reader.everything())[:2] == ["notes://today", "catalog://default/catalog"]
        assert "notes://{day}" in await reader.templates()
        for uri, text in (("notes://today", "rain"), ("notes://monday", "monday")):
            (contents,) = (await reader.read(uri)).contents
            assert getattr(contents, "text", "") == text
        assert (await reader.refusal("elsewhere://x")).code == -32602


async def test_a_long_list_comes_in_pages(make_dual: MakeDual, host: Host) -> None:
    metadata = MetaData()
    for number in range(250):
        Table(f"t{number:03}", metadata, Column("id", Integer, primary_key=True))
    server = host.server()
    add_catalogue(make_dual(tables=metadata), server)
    async with host.connected(server) as connection:
        reader = Reader(connection)
        first, cursor = await reader.page()
        assert len(first) == 100
        assert cursor is not None
        uris = await reader.everything()
        assert len(uris) == len(set(uris)) == 252


async def test_completion_knows_what_was_chosen_before(make_dual: MakeDual, host: Host) -> None:
    server = host.server()
    add_catalogue(make_dual(saved_queries=[IN_STATE]), server)
    table = "catalog://{source}/schema/{schema}/table/{table}"
    async with host.connected(server) as connection:
        reader = Reader(connection)
        assert await reader.complete(table, "source", "") == ["default"]
        assert await reader.complete(table, "schema", "de", source="default") == ["default"]
        assert await reader.complete(table, "table", "S", source="default", schema="default") == [
            "schools",
            "programs",
            "visits",
        ]
        assert await reader.complete(table, "table", "", source="elsewhere") == []
        assert await reader.complete("catalog://{source}/query/{query}", "query", "sch") == [
            "schools_in_state"
        ]
        assert await reader.complete(table, "nothing", "") == []
        assert await reader.complete("other://{x}", "x", "") == []


async def test_the_server_s_own_completion_stays(dual: DualResponseServer, host: Host) -> None:
    server: Any = host.server()

    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        return Completion(values=["mine"]) if isinstance(ref, PromptReference) else None

    (server.completion if host.is_fast else server.completion())(complete)
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        reader = Reader(connection)
        complete_ = reader.session.complete_mcp if reader.is_fast else reader.session.complete
        actual = await complete_(PromptReference(name="p"), {"name": "a", "value": ""})
        assert actual.completion.values == ["mine"]
        assert await reader.complete("catalog://{source}/catalog", "source", "") == ["default"]


async def test_tables_are_listed_in_pages(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        first = (await connection.call("list_tables", limit=2)).structured_content
        assert first is not None
        assert [table["name"] for table in first["tables"]] == ["programs", "schools"]
        assert first["total"] == 3
        rest = (await connection.call("list_tables", cursor=first["next_cursor"])).structured_content
        assert rest is not None
        assert [table["name"] for table in rest["tables"]] == ["visits"]
        assert "next_cursor" not in rest
        assert rest["tables"] == [{"kind": "table", "name": "visits"}], "nothing that no model needs"
        for schema in ("default", "main", "public"):
            listed = (await connection.call("list_tables", schema_name=schema)).structured_content
            assert listed is not None and listed["total"] == 3


async def test_a_table_is_described(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        result = await connection.call("describe_table", table="programs")
        assert result.structured_content is not None
        assert result.structured_content["primary_key"] == ["school_id", "field", "level"]
        (key,) = result.structured_content["foreign_keys"]
        assert key == {"columns": ["school_id"], "target_table": "schools", "target_columns": ["id"]}
        assert "catalog://" not in text_of(result) + str(result.structured_content)
        assert {"source", "schema", "sql_name", "rows", "unique"} & set(result.structured_content) == set()
        identifier = result.structured_content["columns"][0]
        assert identifier == {"name": "school_id", "type": "INTEGER", "nullable": False}
        for table in (["programs"], "main.programs", "default.programs"):
            again = await connection.call("describe_table", table=table)
            assert again.structured_content == result.structured_content
        several = await connection.call("describe_table", table=["programs", "schools"])
        assert several.structured_content is not None
        assert list(several.structured_content["tables"]) == ["programs", "schools"]
        assert several.structured_content["tables"]["programs"] == result.structured_content
        columns = result.structured_content["columns"]
        assert all(f"|{column['name']}|" in text_of(several) for column in columns), "nothing is cut"
        missing = await connection.call("describe_table", table="skools")
        assert missing.is_error
        assert missing.structured_content is not None
        assert missing.structured_content["error"]["code"] == "UNKNOWN_TABLE"
        assert missing.structured_content["error"]["details"]["suggestions"] == ["schools"]


async def test_the_catalogue_is_searched_in_batches(make_dual: MakeDual, host: Host) -> None:
    server = host.server()
    add_catalogue(make_dual(saved_queries=[IN_STATE]), server)
    async with host.connected(server) as connection:
        result = await connection.call(
            "search_catalog", terms=["enrolment", "skool in stat", "xyzzy"], limit=3
        )
    assert result.structured_content is not None
    matches = result.structured_content["matches"]
    actual = {
        term: [match for match in matches if match["term"] == term] for term in ("enrolment", "skool in stat")
    }
    assert (actual["enrolment"][0]["name"], actual["enrolment"][0]["columns"][0]) == ("schools", "enrollment")
    assert "schools_in_state" in {match["name"] for match in actual["skool in stat"]}
    assert result.structured_content["unmatched"] == ["xyzzy"]
    assert all(match["name"] in text_of(result) for match in matches)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_catalog", {"terms": ["x" * 10_000]}),
        ("search_catalog", {"terms": ["x"] * 1_000}),
        ("search_catalog", {"terms": []}),
        ("search_catalog", {"terms": ["%"]}),
        ("search_catalog", {"terms": ["x"], "limit": 10**9}),
        ("list_tables", {"cursor": "forged"}),
        ("list_tables", {"cursor": "x" * 100_000}),
        ("list_tables", {"limit": 0}),
        ("list_tables", {"source_name": "elsewhere"}),
        ("describe_table", {"table": "../../etc/passwd"}),
        ("describe_table", {"table": "sqlite_master"}),
        ("describe_table", {"table": "schools'; DROP TABLE schools --"}),
        ("describe_table", {"table": "x" * 100_000}),
    ],
)
async def test_what_is_too_much_or_makes_no_sense_is_refused(
    dual: DualResponseServer, tool: str, arguments: dict[str, Any]
) -> None:
    host = Host("official")
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        result = await connection.session.call_tool(tool, arguments)
    assert result.is_error


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "uri",
    [
        "catalog://default/schema/default/table/sqlite_master",
        "catalog://default/schema/default/table/%2e%2e%2fschools",
        "catalog://default/schema/default/table/schools%00",
        "catalog://default/schema/default/view/schools",
        "catalog://default/query/nothing",
        "catalog://elsewhere/catalog",
        "catalog://",
        "catalog://" + "x/" * 50_000,
    ],
)
async def test_nothing_else_is_read(dual: DualResponseServer, host: Host, uri: str) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        error = await Reader(connection).refusal(uri)
    assert error.code == -32602
    assert error.data["uri"] == uri
    assert error.data["code"] == "RESOURCE_NOT_FOUND"
    assert error.data["hint"]


async def test_a_near_miss_is_told_what_may_be_meant(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        error = await Reader(connection).refusal(SCHOOLS.replace("schools", "skools"))
    assert error.data["suggestions"] == [SCHOOLS]
    assert SCHOOLS in error.message


@pytest.mark.parametrize("cursor", ["catalogue.", "catalogue.forged!", "catalogue." + "A" * 100_000])
async def test_a_forged_cursor_is_refused(dual: DualResponseServer, host: Host, cursor: str) -> None:
    server = host.server()
    add_catalogue(dual, server)
    async with host.connected(server) as connection:
        with pytest.raises(Exception, match="cursor is not from this server"):
            await Reader(connection).page(cursor)


async def test_what_fails_within_is_not_told(make_dual: MakeDual, host: Host) -> None:
    def visible(*_: Any) -> bool:
        raise RuntimeError("postgresql://admin:secret@db")

    server = host.server()
    add_catalogue(make_dual(), server, visible=visible)
    async with host.connected(server) as connection:
        error = await Reader(connection).refusal(SCHOOLS)
        result = await connection.call("list_tables")
    assert error.code == -32603
    for text in (str(error), str(result)):
        assert "secret" not in text
        assert "incident" in text


def test_a_scheme_that_is_taken_is_refused(dual: DualResponseServer, host: Host) -> None:
    with pytest.raises(ConfigurationError):
        add_catalogue(dual, host.server(), scheme="resource")
    with pytest.raises(ConfigurationError):
        add_catalogue(dual, host.server(), scheme="https")
    with pytest.raises(ConfigurationError):
        add_catalogue(dual, object())


def test_tools_are_left_out_if_that_is_wanted(dual: DualResponseServer) -> None:
    host = Host("official")
    server: Any = host.server()
    add_catalogue(dual, server, has_tools=False)
    assert not server._tool_manager.list_tools()


async def test_neither_the_catalogue_nor_an_error_has_a_link(make_dual: MakeDual, host: Host) -> None:
    """Comments and notes are data, and a model's words come back in errors: a host may keep nothing but text."""
    link = "The application gets every row from resource://Zk3qT9vWmm4LxR7bNc1YdPo8HsTzESv9s (kept)."
    metadata = MetaData()
    Table("notes", metadata, Column("id", Integer, primary_key=True, comment=link), comment=link)
    server = host.server()
    dual = make_dual(tables=metadata)
    add_catalogue(dual, server, notes=link)
    add_execute_query(dual, server)
    client = DualResponseClient()
    async with host.connected(server) as connection:
        for tool, arguments in (
            ("list_tables", {}),
            ("describe_table", {"table": ["notes"]}),
            ("search_catalog", {"terms": ["application"]}),
            ("execute_query", {"query": f'SELECT t."{link[36:-8]}" FROM notes t'}),
            ("execute_query", {"query": f'SELECT * FROM "{link[36:-8]}"'}),
        ):
            result = await connection.call(tool, **arguments)
            assert "resource://Zk3qT9vW…" in text_of(result), tool
            assert client.find(text_of(result)) == client.find(result) == []
