"""Clients are told when a result is pinned, has expired or is gone: in both eras of the protocol, on either SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, Subscription, ToolsListChanged
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    EmptyResult,
    ResourceUpdatedNotification,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from sqlalchemy import select

from dualsql import Changes, DualResponseServer, SQLResourceStore
from dualsql.identity import BearerTokens
from dualsql.mcp import add_resources
from dualsql.mcp.resource_server import low_level_server
from dualsql.mcp.resources import MAXIMUM_SUBSCRIPTIONS
from dualsql.store import upgrade
from tests.client.hosting import listening_socket, origin_of, serving
from tests.engines import sqlite_url_in
from tests.mcp.conftest import Host, MakeDual
from tests.mcp.test_identity import Verifier, guarded, running, search
from tests.schools import School

ALL = select(School.id).order_by(School.id)
SDKS = ["official", "fastmcp"]

# What older clients send is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture(params=SDKS)
def server(request: pytest.FixtureRequest) -> Any:
    return Host(request.param).server()


async def told(stream: Subscription) -> Any:
    """The next event of a stream."""
    return await asyncio.wait_for(anext(aiter(stream)), 20)


async def test_a_stream_tells_of_pins_and_deletions(dual: DualResponseServer, server: Any) -> None:
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All")
    uri = response.resource_uri
    async with (
        mcp.Client(low_level_server(server)) as client,
        client.listen(resource_subscriptions=[uri]) as stream,
    ):
        assert stream.honored.resource_subscriptions == [uri]
        await dual.unchecked.pin(response.resource_id)
        assert await told(stream) == ResourceUpdated(uri=uri)
        await dual.unchecked.delete(response.resource_id)
        assert await told(stream) == ResourceUpdated(uri=uri)


@pytest.mark.long
async def test_a_stream_tells_of_an_expiry(make_dual: MakeDual, server: Any) -> None:
    dual = make_dual(watch_interval=timedelta(hours=1))
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All", expiration=timedelta(seconds=1))
    uri = response.resource_uri
    async with (
        mcp.Client(low_level_server(server)) as client,
        client.listen(resource_subscriptions=[uri]) as stream,
    ):
        assert await told(stream) == ResourceUpdated(uri=uri)
        with pytest.raises(MCPError, match="expired"):
            await client.read_resource(uri)


async def test_what_another_process_does_is_told(make_dual: MakeDual, tmp_path: Path, server: Any) -> None:
    url = sqlite_url_in(tmp_path)
    await asyncio.to_thread(upgrade, url)
    secrets = ["s" * 40]
    here = make_dual(store=SQLResourceStore(url), secrets=secrets, watch_interval=timedelta(seconds=0.2))
    there = make_dual(store=SQLResourceStore(url), secrets=secrets)
    add_resources(here, server)
    response = await here.create_response(ALL, name="All")
    uri = response.resource_uri
    async with (
        mcp.Client(low_level_server(server)) as client,
        client.listen(resource_subscriptions=[uri]) as stream,
    ):
        await there.unchecked.pin(response.resource_id)
        assert await told(stream) == ResourceUpdated(uri=uri)


async def test_nothing_is_followed_once_the_stream_is_closed(make_dual: MakeDual, server: Any) -> None:
    dual = make_dual(watch_interval=timedelta(seconds=0.2))
    add_resources(dual, server)
    uri = (await dual.create_response(ALL, name="All")).resource_uri
    async with mcp.Client(low_level_server(server)) as client:
        async with client.listen(resource_subscriptions=[uri]):
            watching = dual.features.get(Changes).notifier._task
        assert watching is not None
        await asyncio.wait_for(watching, 20)
    assert not dual.features.get(Changes).notifier._listeners


async def test_several_streams_are_told_once_each(dual: DualResponseServer, server: Any) -> None:
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All")
    uri = response.resource_uri
    async with (
        mcp.Client(low_level_server(server)) as client,
        client.listen(resource_subscriptions=[uri, uri]) as one,
        client.listen(resource_subscriptions=[uri]) as two,
    ):
        await dual.unchecked.pin(response.resource_id)
        assert await told(one) == await told(two) == ResourceUpdated(uri=uri)
        async with client.listen(resource_subscriptions=[uri]):
            pass
        await dual.unchecked.delete(response.resource_id)
        assert await told(one) == await told(two) == ResourceUpdated(uri=uri)


async def test_a_tool_s_own_event_comes_on_the_same_stream(dual: DualResponseServer) -> None:
    server: Any = Host("official").server()

    async def change(context: Context[Any, Any]) -> str:
        await context.notify_tools_changed()
        return "done"

    server.tool()(change)
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All")
    async with mcp.Client(server) as client:
        parameters: dict[str, Any] = {
            "resource_subscriptions": [response.resource_uri],
            "tools_list_changed": True,
        }
        async with client.listen(**parameters) as stream:
            await client.call_tool("change")
            assert await told(stream) == ToolsListChanged()
            await dual.unchecked.pin(response.resource_id)
            assert await told(stream) == ResourceUpdated(uri=response.resource_uri)


async def test_an_older_client_subscribes_and_unsubscribes(dual: DualResponseServer, server: Any) -> None:
    add_resources(dual, server)
    one, two = [await dual.create_response(ALL, name="All") for _ in range(2)]
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    async with mcp.Client(low_level_server(server), mode="legacy", message_handler=take) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe is True
        for response in (one, two, two):
            await client.subscribe_resource(response.resource_uri)
        await client.unsubscribe_resource(one.resource_uri)
        await client.unsubscribe_resource(one.resource_uri)
        await dual.unchecked.pin(one.resource_id)
        await dual.unchecked.pin(two.resource_id)
        assert await asyncio.wait_for(heard.get(), 20) == two.resource_uri
        await dual.unchecked.delete(two.resource_id)
        assert await asyncio.wait_for(heard.get(), 20) == two.resource_uri
        await client.subscribe_resource((await dual.create_response(ALL, name="x")).resource_uri)
        assert dual.features.get(Changes).notifier._listeners
    assert heard.empty()
    assert not dual.features.get(Changes).notifier._listeners


async def test_an_older_client_cannot_subscribe_to_what_it_cannot_read(
    dual: DualResponseServer, server: Any
) -> None:
    add_resources(dual, server)
    async with mcp.Client(low_level_server(server), mode="legacy") as client:
        for uri in ("resource://" + "x" * 27, "resource://x", "notes://today"):
            with pytest.raises(MCPError) as error:
                await client.subscribe_resource(uri)
            assert error.value.error.code == -32602
            about = "are not announced" if len(uri) < 27 else "There is no such resource"
            assert about in str(error.value)
            await client.unsubscribe_resource(uri)


async def test_the_server_s_own_resources_keep_their_own_handlers(
    dual: DualResponseServer, server: Any
) -> None:
    requests: list[tuple[str, str]] = []
    below = low_level_server(server)
    for method, params_type in (
        ("resources/subscribe", SubscribeRequestParams),
        ("resources/unsubscribe", UnsubscribeRequestParams),
    ):

        async def own(context: Any, params: Any, method: str = method) -> EmptyResult:
            requests.append((method, str(params.uri)))
            return EmptyResult()

        below.add_request_handler(method, params_type, own)
    add_resources(dual, server)
    uri = (await dual.create_response(ALL, name="All")).resource_uri
    async with mcp.Client(below, mode="legacy") as client:
        for each in ("notes://today", uri):
            await client.subscribe_resource(each)
        assert dual.features.get(Changes).notifier._listeners
        for each in ("notes://today", uri):
            await client.unsubscribe_resource(each)
    assert requests == [("resources/subscribe", "notes://today"), ("resources/unsubscribe", "notes://today")]


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_stateless_server_declares_no_subscriptions_to_older_clients(
    make_dual: MakeDual, sdk: Any
) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources")
        server: Any = Host(sdk).server()
        add_resources(dual, server)
        make_app = server.http_app if sdk == "fastmcp" else server.streamable_http_app
        async with serving(make_app(stateless_http=True), listening):
            response = await dual.create_response(ALL, name="All")
            async with client_of(origin, "nobody's", mode="legacy") as older:
                assert older.server_capabilities.resources is not None
                assert older.server_capabilities.resources.subscribe is False
                with pytest.raises(MCPError, match="subscriptions/listen") as error:
                    await older.subscribe_resource(response.resource_uri)
                assert error.value.error.code == METHOD_NOT_FOUND
            async with (
                client_of(origin, "nobody's") as client,
                client.listen(resource_subscriptions=[response.resource_uri]) as stream,
            ):
                await dual.unchecked.pin(response.resource_id)
                assert await told(stream) == ResourceUpdated(uri=response.resource_uri)


async def test_there_is_an_end_to_what_one_stream_follows(dual: DualResponseServer, server: Any) -> None:
    add_resources(dual, server)
    many = [f"resource://{number:027}" for number in range(MAXIMUM_SUBSCRIPTIONS + 1)]
    async with mcp.Client(low_level_server(server)) as client:
        with pytest.raises(MCPError, match="At most 100"):
            async with client.listen(resource_subscriptions=many):
                pass


async def test_when_too_many_are_followed_already(make_dual: MakeDual, server: Any) -> None:
    dual = make_dual(maximum_watched=1)
    add_resources(dual, server)
    one, two = [(await dual.create_response(ALL, name="All")).resource_uri for _ in range(2)]
    async with mcp.Client(low_level_server(server)) as client, client.listen(resource_subscriptions=[one]):
        with pytest.raises(MCPError, match="No more resources"):
            async with client.listen(resource_subscriptions=[two]):
                pass


@asynccontextmanager
async def client_of(origin: str, token: str, **options: Any) -> AsyncIterator[mcp.Client]:
    """A client that shows `token`, over real HTTP."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        transport = streamable_http_client(f"{origin}/mcp", http_client=http)
        async with mcp.Client(transport, **options) as client:
            yield client


@pytest.mark.quick(1)
@pytest.mark.parametrize("sdk", SDKS)
async def test_over_http_only_the_owner_hears_of_a_result(make_dual: MakeDual, sdk: Any) -> None:
    host = Host(sdk)
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        search(dual, server)
        add_resources(dual, server)
        async with (
            running(dual, server, listening),
            client_of(origin, "token-of-ana") as ana,
            client_of(origin, "token-of-bob") as bob,
        ):
            content = (await ana.call_tool("search", {})).structured_content
            assert content is not None
            uri, url = content["resource"]["uri"], content["resource"]["url"]
            async with (
                ana.listen(resource_subscriptions=[uri]) as hers,
                bob.listen(resource_subscriptions=[uri, "resource://" + "x" * 27]) as his,
            ):
                assert hers.honored.resource_subscriptions == [uri]
                assert not his.honored.resource_subscriptions
                async with httpx.AsyncClient(headers={"Authorization": "Bearer token-of-ana"}) as rest:
                    assert (await rest.put(url)).status_code == 200
                assert await told(hers) == ResourceUpdated(uri=uri)


@pytest.mark.parametrize("sdk", SDKS)
async def test_over_http_an_older_client_is_told_on_its_connection(make_dual: MakeDual, sdk: Any) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def take(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources")
        server: Any = Host(sdk).server()
        add_resources(dual, server)
        tools = server.http_app() if sdk == "fastmcp" else server.streamable_http_app()
        async with (
            serving(tools, listening),
            client_of(origin, "nobody's", mode="legacy", message_handler=take) as client,
        ):
            response = await dual.create_response(ALL, name="All")
            await client.subscribe_resource(response.resource_uri)
            told = ""
            # What is told before the client's GET has arrived is lost; then there is a second change.
            for change in (dual.unchecked.pin, dual.unchecked.delete):
                await change(response.resource_id)
                with suppress(TimeoutError):
                    told = told or await asyncio.wait_for(heard.get(), 10)
    assert told == response.resource_uri
