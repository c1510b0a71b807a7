"""Tools that go on with an earlier result, on either SDK. A model passes a URI on, and moves no rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from dualsql import ConfigurationError, DualResponseServer
from dualsql.envelope import validate_dual_mode
from dualsql.freeze.document import AnySelect
from dualsql.identity import BearerTokens
from dualsql.mcp import add_data_manager, add_result_tools
from dualsql.resource import Clock
from dualsql_client import DualResponseClient
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Connection, Host, MakeDual, text_of
from tests.mcp.test_identity import Verifier, calling, guarded, running
from tests.schools import SCHOOLS, School


def search() -> AnySelect:
    """All schools."""
    return select(School.id, School.name, School.state, School.enrollment, School.founded)


def _server(dual: DualResponseServer, host: Host, **options: Any) -> Any:
    server = host.server(**options)
    dual.tool(server)(search)
    add_result_tools(dual, server, sample_size=5)
    add_data_manager(dual, server)
    return server


async def _uri(connection: Connection) -> str:
    response = DualResponseClient().parse(await connection.call("search"), strict=True)
    return response.resource_uri


@pytest.mark.quick(1)
async def test_a_question_is_answered_over_all_rows(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(_server(dual, host)) as connection:
        uri = await _uri(connection)
        result = await connection.call(
            "query_result",
            resource=uri,
            filters=[{"column": "enrollment", "op": "is_null", "value": False}],
            group_by=["state"],
            aggregates=[{"function": "count"}, {"function": "max", "column": "enrollment"}],
            order_by=[{"column": "count", "order": "desc"}],
        )
        assert not result.is_error, text_of(result)
        answer = DualResponseClient().parse(result, strict=True)
    known = [row for row in SCHOOLS if row["enrollment"] is not None]
    assert sum(row["count"] for row in answer.sample) == len(known)
    assert [column["name"] for column in answer.columns] == ["state", "count", "max_enrollment"]
    assert answer.resource_uri != uri
    assert "Search: where enrollment has a value" in text_of(result)


@pytest.mark.quick(1)
async def test_a_part_of_a_result_is_a_result(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(_server(dual, host)) as connection:
        result = await connection.call(
            "refine_result",
            resource=await _uri(connection),
            filters=[{"column": "state", "op": "in", "value": ["NJ", "NY"]}],
            columns=["id", "state"],
            order_by=[{"column": "id", "order": "desc"}],
            limit=6,
        )
        answer = DualResponseClient().parse(result, strict=True)
        again = await connection.call(
            "query_result", resource=answer.resource_uri, sql="SELECT count(*) AS n FROM data"
        )
    assert answer.total_count == 6 and len(answer.sample) == 5
    wanted = [row["id"] for row in reversed(SCHOOLS) if row["state"] in {"NJ", "NY"}]
    assert [row["id"] for row in answer.sample] == wanted[:5]
    assert again.structured_content is not None and again.structured_content["results"] == [{"n": 6}]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("query_result", {"filters": [{"column": "stat", "value": "NJ"}]}, "UNKNOWN_COLUMN"),
        ("query_result", {"sql": "SELECT * FROM programs"}, "UNKNOWN_TABLE"),
        ("query_result", {"sql": "SELECT id FROM data", "group_by": ["state"]}, "BAD_PARAMETER"),
        ("query_result", {"aggregates": [{"function": "eval", "column": "id"}]}, "BAD_PARAMETER"),
        ("refine_result", {"columns": ["__class__"]}, "UNKNOWN_COLUMN"),
        ("refine_result", {"resource": "resource://" + "x" * 27}, "RESOURCE_NOT_FOUND"),
        ("refine_result", {"resource": "https://evil.example/resources/abc"}, "RESOURCE_NOT_FOUND"),
        ("data_manager", {"operation": "query", "sql": "DROP TABLE schools"}, "FORBIDDEN_SQL"),
        ("data_manager", {"operation": "query"}, "BAD_PARAMETER"),
    ],
)
async def test_what_cannot_be_asked_says_why(
    dual: DualResponseServer, host: Host, tool: str, arguments: dict[str, Any], code: str
) -> None:
    async with host.connected(_server(dual, host)) as connection:
        name = "data_access_id" if tool == "data_manager" else "resource"
        result = await connection.call(tool, **({name: await _uri(connection)} | arguments))
    assert result.is_error and result.structured_content is not None
    assert result.structured_content["error"]["code"] == code
    assert "evil.example" not in text_of(result)


@pytest.mark.quick(1)
async def test_clients_of_staged_data_go_on_working(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(_server(dual, host)) as connection:
        uri = await _uri(connection)
        access = uri.rpartition("/")[2]
        schema = await connection.call("data_manager", operation="schema", data_access_id=access)
        asked = "SELECT state, count(*) AS n FROM data WHERE id > 3 GROUP BY state ORDER BY n DESC, state"
        rows = await connection.call(
            "data_manager", operation="query", data_access_id=access, sql=asked, limit=2
        )
        listed = await connection.call("data_manager", operation="list")
    assert schema.structured_content is not None and rows.structured_content is not None
    described, answered = schema.structured_content["data"], rows.structured_content["data"]
    assert f"dataAccessId: {access}" in text_of(schema)
    assert (described["table"], described["columns"][:2]) == ("data", ["id", "name"])
    assert answered["columns"] == ["state", "n"]
    assert (answered["rowCount"], len(answered["rows"]), answered["hasMore"]) == (2, 2, True)
    for result in (schema, rows, listed):  # such clients take an answer without `success` for an error
        assert validate_dual_mode(result.structured_content) == []
        assert result.structured_content["success"] is not result.is_error
        assert result.structured_content["metadata"]["operation"] == "data_manager"


async def test_an_anonymous_caller_is_not_sent_round_in_a_circle(
    dual: DualResponseServer, host: Host
) -> None:
    """Nobody is known to ask, so nobody has a list: the hint is what the result itself printed."""
    async with host.connected(_server(dual, host)) as connection:
        listed = await connection.call("data_manager", operation="list")
        unnamed = await connection.call("data_manager", operation="query", sql="SELECT 1 FROM data")
    for result, code in ((listed, "UNAUTHENTICATED"), (unnamed, "BAD_PARAMETER")):
        error = result.structured_content["error"]
        assert error["code"] == code
        assert "resource://" in error["details"]["suggestion"]
        assert "list" not in error["details"]["suggestion"]


async def test_the_data_manager_without_an_envelope(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    dual.tool(server)(search)
    add_data_manager(dual, server, envelope="none")
    async with host.connected(server) as connection:
        uri = await _uri(connection)
        result = await connection.call("data_manager", operation="schema", data_access_id=uri)
        refused = await connection.call("data_manager", operation="list")
    assert result.structured_content is not None and refused.structured_content is not None
    assert result.structured_content["table"] == "data"
    assert refused.structured_content["error"]["code"] == "UNAUTHENTICATED"
    with pytest.raises(ConfigurationError, match="envelope"):
        add_data_manager(dual, host.server(), envelope="dual_response")  # type: ignore[arg-type]


@pytest.mark.quick(1)
async def test_a_result_is_asked_by_its_principal_alone(make_dual: MakeDual, host: Host) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        dual.tool(server)(search)
        add_result_tools(dual, server)
        add_data_manager(dual, server)
        counted = {"aggregates": [{"function": "count"}]}
        async with running(dual, server, listening):
            async with calling(host, origin, "token-of-ana") as connection:
                uri = await _uri(connection)
                made = await connection.call("query_result", resource=uri, **counted)
                listed = await connection.call("data_manager", operation="list")
            async with calling(host, origin, "token-of-bob") as connection:
                refused = await connection.call("query_result", resource=uri, **counted)
                managed = await connection.call(
                    "data_manager", operation="query", data_access_id=uri, sql="SELECT 1 FROM data"
                )
    assert made.structured_content is not None and not made.is_error
    assert listed.structured_content is not None and len(listed.structured_content["data"]["resources"]) == 2
    for result in (refused, managed):
        assert result.structured_content is not None
        assert result.structured_content["error"]["code"] == "RESOURCE_NOT_FOUND"


async def test_descriptions_tell_a_model_when_to_use_them(dual: DualResponseServer, host: Host) -> None:
    async with host.connected(_server(dual, host)) as connection:
        tools = await connection.tools()
    assert "all rows of an earlier result" in str(tools["query_result"].description)
    for name in ("query_result", "refine_result", "data_manager"):
        assert "caller" not in tools[name].input_schema["properties"]


_COUNT = {"column": "Count", "op": "gt", "value": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        {"filters": [{"column": "STATE", "op": "eq", "value": "NJ"}], "columns": ["Id", "NAME"], "order_by": ["ID"]},
        {"group_by": ["State"], "aggregates": [{"function": "sum", "column": "Enrollment"}], "order_by": ["STATE"]},
        {
            "group_by": ["STATE"],
            "aggregates": ["count"],
            "having": [{"or": [_COUNT, {"not": {"column": "State", "op": "is_null"}}]}],
        },
        {"sql": "SELECT State, count(*) AS n FROM data GROUP BY STATE ORDER BY state"},
    ],
)  # fmt: skip
async def test_case_does_not_matter_in_names_of_columns(
    dual: DualResponseServer, host: Host, arguments: dict[str, Any]
) -> None:
    def lower(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: part if name == "value" else lower(part) for name, part in value.items()}
        return [lower(part) for part in value] if isinstance(value, list) else value.lower()

    async with host.connected(_server(dual, host)) as connection:
        uri = await _uri(connection)
        written = await connection.call("query_result", resource=uri, **arguments)
        exact = await connection.call("query_result", resource=uri, **lower(arguments))
    assert not written.is_error, text_of(written)
    assert written.structured_content is not None and exact.structured_content is not None
    assert written.structured_content["results"] == exact.structured_content["results"]
    assert (
        written.structured_content["metadata"]["columns"] == exact.structured_content["metadata"]["columns"]
    )


async def test_names_that_differ_in_case_alone_are_not_mixed_up(dual: DualResponseServer, host: Host) -> None:
    server = _server(dual, host)
    dual.tool(server, name="both")(lambda: select(School.id.label("N"), School.name.label("n")))
    async with host.connected(server) as connection:
        uri = ((await connection.call("both")).structured_content or {})["resource"]["uri"]
        own = await connection.call("query_result", resource=uri, columns=["n_2"], limit=1)
        assert (own.structured_content or {})["results"] == [{"n_2": "School 1"}]
        uri = await _uri(connection)
        twice = await connection.call("query_result", resource=uri, columns=["ID", "id"])
    assert "no column 'ID'" in text_of(twice)


@pytest.mark.parametrize(
    "form", ["{url}", "{url}/rows?format=csv", "<{url}>", "[School]({url}#top)", "{uri}", "{id}"]
)
async def test_any_form_of_its_link_names_a_result(dual: DualResponseServer, host: Host, form: str) -> None:
    async with host.connected(_server(dual, host)) as connection:
        link = ((await connection.call("search")).structured_content or {})["resource"]
        written = form.format(**link, id=link["uri"].partition("://")[2])
        counted = await connection.call("query_result", resource=written, aggregates=["count"])
    assert (counted.structured_content or {})["results"] == [{"count": len(SCHOOLS)}]


async def test_an_expired_result_says_which_calls_make_it_again(
    dual: DualResponseServer, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = host.server()

    @dual.tool(server, expiration=timedelta(minutes=1))
    def of_state(state: str, least: int | None = None) -> AnySelect:
        return search().where(School.state == state)

    add_result_tools(dual, server)
    add_data_manager(dual, server)
    async with host.connected(server) as connection:
        first = (await connection.call("of_state", state="NJ")).structured_content or {}
        uri = first["resource"]["uri"]
        second = (
            await connection.call("refine_result", resource=uri, columns=["id"])
        ).structured_content or {}
        assert "metadata" in first and "tool_calls" not in str((first, second))
        resource = await dual.unchecked.get(uri.partition("://")[2])
        assert resource is not None and "tool_calls" in resource.metadata
        assert "tool_calls" not in dual.unchecked.metadata_of(resource)["metadata"]
        monkeypatch.setattr(Clock, "now", lambda _: datetime.now(UTC) + timedelta(hours=1))
        for content, hint in (
            (first, 'Make it again: of_state {"state":"NJ"}'),
            (
                second,
                'Make it again: of_state {"state":"NJ"}, then of that result query_result {"columns":["id"]}',
            ),
        ):
            expired = await connection.call("query_result", resource=content["resource"]["uri"], limit=1)
            assert text_of(expired).endswith(hint), text_of(expired)
        # The hint is followed: what refine_result made, query_result makes again.
        again = (await connection.call("of_state", state="NJ")).structured_content or {}
        refined = await connection.call("query_result", resource=again["resource"]["uri"], columns=["id"])
        assert (refined.structured_content or {})["results"] == second["results"] != []
        unknown = await connection.call("query_result", resource="resource://" + "a" * 27, limit=1)
        assert "of_state" not in text_of(unknown)


@pytest.mark.parametrize(("count", "is_hinted"), [("none", True), ("capped:3", True), ("exact", False)])
async def test_rows_that_are_not_counted_can_be_counted(
    dual: DualResponseServer, host: Host, count: Any, is_hinted: bool
) -> None:
    server = _server(dual, host)
    dual.tool(server, name="some", count=count, sample_size=2)(search)
    async with host.connected(server) as connection:
        result = await connection.call("some")
        metadata = (result.structured_content or {})["metadata"]
        for text in (text_of(result), metadata.get("hint", "")):
            assert ('query this result: aggregates ["count"]' in text) == is_hinted
        counted = await connection.call(
            "query_result",
            resource=(result.structured_content or {})["resource"]["uri"],
            aggregates=["count"],
        )
    assert (counted.structured_content or {})["results"] == [{"count": len(SCHOOLS)}]
