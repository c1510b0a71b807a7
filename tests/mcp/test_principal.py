"""A tool's function is told who calls, and no client can say that it is another."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from sqlalchemy import select

from dualsql import ConfigurationError, DualResponseServer, Principal
from dualsql.freeze.document import AnySelect
from dualsql.identity import BearerTokens
from dualsql.mcp import plain_tool
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Host, MakeDual
from tests.mcp.test_identity import Verifier, calling, guarded, running
from tests.schools import School


def search(state: str, who: Principal | None, also: Annotated[Principal | None, "twice"] = None) -> AnySelect:
    assert who == also
    return select(School.id, School.name.label(who.tenant if who and who.tenant else "nobody"))


def known_only(who: Principal) -> dict[str, str]:
    return {"id": who.id}


async def test_no_client_sees_the_parameter(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    dual.tool(server)(search)
    plain_tool(dual, server)(known_only)
    async with host.connected(server) as connection:
        tools = await connection.tools()
    assert set(tools["search"].input_schema["properties"]) == {"state"}
    assert tools["known_only"].input_schema.get("properties", {}) == {}


async def test_without_a_token_nobody_calls(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    dual.tool(server)(search)
    plain_tool(dual, server)(known_only)
    async with host.connected(server) as connection:
        result = await connection.call("search", state="NJ")
        refused = await connection.call("known_only")
    assert result.structured_content is not None
    assert list(result.structured_content["results"][0]) == ["id", "nobody"]
    assert refused.structured_content is not None
    assert refused.structured_content["error"]["code"] == "UNAUTHENTICATED"


async def test_an_argument_of_its_name_changes_nothing(dual: DualResponseServer, host: Host) -> None:
    """Both SDKs differ in whether they refuse what the schema does not have; neither hands it on."""
    server = host.server()
    dual.tool(server)(search)
    async with host.connected(server) as connection:
        call = connection.session.call_tool_mcp if host.is_fast else connection.session.call_tool
        result = await call("search", {"state": "NJ", "who": {"id": "ana", "tenant": "acme"}})
    assert "acme" not in str(result.structured_content)


@pytest.mark.quick(1)
@pytest.mark.parametrize(("token", "tenant"), [("token-of-ana", "acme"), ("token-of-bob", "globex")])
async def test_the_token_tells_who_calls(make_dual: MakeDual, host: Host, token: str, tenant: str) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        dual.tool(server)(search)
        plain_tool(dual, server)(known_only)
        async with running(dual, server, listening), calling(host, origin, token) as connection:
            result = await connection.call("search", state="NJ")
            plain = await connection.call("known_only")
    assert result.structured_content is not None
    assert list(result.structured_content["results"][0]) == ["id", tenant]
    assert plain.structured_content is not None
    assert plain.structured_content["id"].endswith(f"subject:{token.removeprefix('token-of-')}")


def test_a_parameter_that_may_be_something_else_is_a_clients(dual: DualResponseServer, host: Host) -> None:
    def odd(who: Principal | str) -> dict[str, Any]:
        return {}

    server = host.server()
    plain_tool(dual, server)(odd)
    with pytest.raises(ConfigurationError):
        plain_tool(dual, server)(lambda who: {})
