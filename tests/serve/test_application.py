"""MCP and REST as one application: who may come in, what tools are told, and what a stateless endpoint refuses."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest
from mcp import Client
from mcp.server import MCPServer
from sqlalchemy import MetaData, Select, select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from dualsql import ConfigurationError, DualResponseServer, ForbiddenError, Principal
from dualsql.mcp import plain_tool, transport_security
from dualsql.serve import Selection, build_mcp, build_server, one_token, provided, required, serve_app
from dualsql.serve.listening import running
from dualsql.serve.sockets import listen
from tests.client.hosting import listening_socket, origin_of, serving
from tests.serve.conftest import TOKEN, calling, text_of
from tests.servers import create_server, with_features

EVERYTHING = Selection(everything=True)
MODES: tuple[Literal["auto", "legacy"], ...] = ("auto", "legacy")


async def by_name(request: Request) -> Principal | None:
    """Who a request says it is from."""
    name = request.headers.get("x-name")
    return None if name is None else Principal(id=name)


@asynccontextmanager
async def application(
    shop: str, *, path: str = "/resources", mcp: Any = None, context: Any = None, **options: Any
) -> AsyncIterator[tuple[str, DualResponseServer]]:
    """The shop under uvicorn; `mcp` makes an MCP server for the dual response server."""
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual, _ = await build_server(shop, EVERYTHING, base_url=f"{origin}{path}", **with_features(options))
        app = serve_app(dual, None if mcp is None else mcp(dual), context=context)
        async with serving(app, listening):
            yield origin, dual


@pytest.mark.quick(1)
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_a_stateless_endpoint_takes_posts_alone(shop: str, method: str) -> None:
    async with application(shop) as (origin, _), httpx.AsyncClient() as http:
        for headers in ({}, {"mcp-protocol-version": "2026-07-28"}, {"mcp-session-id": "x"}):
            refused = await http.request(method, f"{origin}/mcp", headers=headers)
            assert refused.status_code == 405
            assert refused.headers["allow"] == "POST"


async def test_foreign_hosts_and_origins_are_refused_at_both_doors(shop: str) -> None:
    async with application(shop) as (origin, _), httpx.AsyncClient() as http:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            for url in (f"{origin}/mcp", f"{origin}/resources/x"):
                assert (await http.post(url, headers=headers, json={})).status_code == 403


async def test_pages_of_a_named_origin_may_call(shop: str) -> None:
    asking = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with (
        application(shop, cors_origins=["https://app.example"]) as (origin, _),
        httpx.AsyncClient() as http,
    ):
        allowed = await http.options(f"{origin}/mcp", headers=asking)
        refused = await http.options(f"{origin}/mcp", headers={**asking, "origin": "https://evil.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert refused.status_code == 403


async def test_who_calls_is_known_in_tools_and_over_rest_by_one_function(shop: str) -> None:
    async with application(shop, authenticate=by_name) as (origin, dual), httpx.AsyncClient() as http:
        for name in ("ana", "bo"):
            async with calling(origin, {"x-name": name}) as model:
                result = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
            structure = result.structured_content
            assert isinstance(structure, dict)
            resource = await dual.unchecked.get(structure["resource"]["uri"].partition("://")[2])
            assert resource is not None
            assert resource.owner == name
            url = structure["resource"]["url"]
            answers = [
                (await http.get(url, headers={"x-name": asking})).status_code for asking in ("ana", "bo")
            ]
            assert answers == [200 if name == asking else 404 for asking in ("ana", "bo")]


async def test_an_anonymous_caller_that_authenticate_has_read_is_not_warned_of(
    shop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with application(shop, authenticate=by_name) as (origin, _), calling(origin, {}) as model:
        assert not (await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})).is_error
    assert "verified token" not in caplog.text


async def test_the_context_provider_is_called_on_every_mcp_request(shop: str) -> None:
    seen: list[tuple[str | None, Principal | None]] = []

    async def provide(request: Request, principal: Principal | None) -> dict[str, Any]:
        seen.append((request.headers.get("x-trace"), principal))
        return {"trace": request.headers.get("x-trace")}

    def with_tools(dual: DualResponseServer) -> MCPServer[Any]:
        mcp = build_mcp(dual)

        @plain_tool(dual, mcp)
        async def awaited(principal: Principal | None) -> dict[str, Any]:
            return {"provided": provided(), "who": principal and principal.id}

        @plain_tool(dual, mcp)
        def threaded(principal: Principal | None) -> dict[str, Any]:
            return {"provided": provided(), "who": principal and principal.id}

        return mcp

    async with application(shop, mcp=with_tools, context=provide, authenticate=by_name) as (origin, _):
        for mode in MODES:
            for name, trace in (("ana", "1"), ("bo", "2")):
                seen.clear()
                async with calling(origin, {"x-name": name, "x-trace": trace}, mode=mode) as model:
                    before = len(seen)
                    for tool in ("awaited", "threaded"):
                        result = await model.call_tool(tool, {})
                        assert result.structured_content == {"provided": {"trace": trace}, "who": name}
                assert len(seen) >= before + 2
                assert set(seen) == {(trace, Principal(id=name))}
    assert provided() is None


@pytest.mark.parametrize("error", [HTTPException(451), ForbiddenError("Not today.")])
async def test_a_context_provider_may_refuse(shop: str, error: Exception) -> None:
    async def refuse(request: Request, principal: Principal | None) -> None:
        raise error

    async with application(shop, context=refuse) as (origin, _), httpx.AsyncClient() as http:
        answer = await http.post(f"{origin}/mcp", json={})
    assert answer.status_code == getattr(error, "status_code", 403)


async def test_what_a_context_provider_did_not_mean_to_say_is_not_said(shop: str) -> None:
    async def fail(request: Request, principal: Principal | None) -> None:
        raise ValueError("postgresql://user:secret@host/db")

    async with application(shop, context=fail) as (origin, _), httpx.AsyncClient() as http:
        answer = await http.post(f"{origin}/mcp", json={})
    assert answer.status_code == 500
    assert "secret" not in answer.text


async def test_one_token_is_wanted_at_both_doors(shop: str) -> None:
    async with application(shop, authenticate=one_token(TOKEN)) as (origin, _), httpx.AsyncClient() as http:
        for value in (None, "Bearer " + TOKEN[:-1], f"Basic {TOKEN}", f"Bearer {TOKEN},x", "Bearer"):
            headers = {} if value is None else {"authorization": value}
            for url in (f"{origin}/mcp", f"{origin}/resources/x"):
                refused = await http.post(url, headers=headers, json={})
                assert refused.status_code == 401
                assert TOKEN not in refused.text
        async with calling(origin, {"authorization": f"Bearer {TOKEN}"}) as model:
            assert "execute_query" in {tool.name for tool in (await model.list_tools()).tools}


@pytest.mark.parametrize(
    "token", ["", "a" * 15, "a" * 15 + " ", "a" * 15 + "é", "a" * 15 + "\n", 'a"' * 8, "a,b" * 8]
)
def test_a_token_that_is_short_or_no_header_s_value_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="16 or more"):
        one_token(token)


async def test_who_is_nobody_is_refused_where_somebody_is_required(shop: str) -> None:
    async with application(shop, authenticate=required(by_name)) as (origin, _), httpx.AsyncClient() as http:
        assert (await http.post(f"{origin}/mcp", json={})).status_code == 401
        async with calling(origin, {"x-name": "ana"}) as model:
            assert (await model.list_tools()).tools


async def test_a_path_of_its_own_behind_a_proxy(shop: str) -> None:
    async with application(shop, path="/data/v1/rows") as (origin, _), httpx.AsyncClient() as http:
        async with Client(f"{origin}/data/v1/mcp") as model:
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
        structure = result.structured_content
        assert isinstance(structure, dict)
        assert structure["resource"]["url"].startswith(f"{origin}/data/v1/rows/")
        assert (await http.get(structure["resource"]["url"])).status_code == 200
        assert (await http.post(f"{origin}/mcp", json={})).status_code == 404


async def test_a_server_of_ones_own_that_starts_and_stops_everything_itself(shop: str) -> None:
    """Who has written `lifespan=dual.lifespan`, as for an application of their own, need not take it away."""

    with listening_socket() as listening:
        origin = origin_of(listening)
        dual, tables = await build_server(shop, EVERYTHING, base_url=f"{origin}/resources")
        mcp: MCPServer[Any] = MCPServer("own", lifespan=dual.lifespan)

        @dual.tool(mcp)
        def makers() -> Select[Any]:
            return select(tables.metadata.tables["makers"])

        async with serving(serve_app(dual, mcp), listening), Client(f"{origin}/mcp") as model:
            result = await model.call_tool("makers", {})
    assert "all 40 rows" in text_of(result)


async def test_requests_of_any_size_are_not_read(shop: str) -> None:
    async with application(shop) as (origin, _), httpx.AsyncClient() as http:
        large = await http.post(f"{origin}/mcp", content=b" " * (2 * 1024 * 1024))
    assert large.status_code == 413


@pytest.mark.parametrize("path", ["/data/resources", "/resources"])
async def test_no_redirect_has_a_host_or_a_scheme(shop: str, path: str) -> None:
    """Of each path of the application, with a slash and without: a proxy may have another host, scheme and prefix."""
    above, moves = path.removesuffix("/resources"), set()
    async with application(shop, path=path) as (origin, _), httpx.AsyncClient() as http:
        for end in (
            "",
            "/mcp",
            "/resources",
            "/resources/openapi.json",
            "/.well-known/resource-link-service",
            "/none",
        ):
            for given in (f"{above}{end}", f"{above}{end}/", f"{above}{end}//"):
                for method in ("GET", "POST", "DELETE"):
                    answer = await http.request(method, f"{origin}{given or '/'}?limit=3")
                    location = answer.headers.get("location")
                    if location is not None:
                        assert not location.startswith(("/", "http:")), (method, given, location)
                        moves.add((given, str(answer.request.url.join(location)).removeprefix(origin)))
    assert {
        (f"{above}/resources", f"{above}/resources/?limit=3"),
        (f"{above}/mcp/", f"{above}/mcp?limit=3"),
    } <= moves


async def test_the_sdk_s_own_application_answers_to_the_public_name(
    shop: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers 421 to every name but those of the loopback unless it is told others; the log says how."""
    public, also = "https://data.example.com/resources", "also.example"
    dual = create_server(shop, base_url=public, tables=MetaData(), allowed_hosts=[also])
    app = build_mcp(dual).streamable_http_app(
        stateless_http=True, transport_security=transport_security(dual)
    )
    statuses = []
    with listening_socket() as listening:
        async with serving(app, listening), httpx.AsyncClient() as http:
            for host in ("data.example.com", "data.example.com:8443", also, "evil.example"):
                answer = await http.post(f"{origin_of(listening)}/mcp", json={}, headers={"Host": host})
                statuses.append(answer.status_code)
    assert [status == 421 for status in statuses] == [False, False, False, True]
    [line] = [
        record.getMessage() for record in caplog.records if record.name == "mcp.server.transport_security"
    ]
    assert "evil.example" in line and line.count("dualsql.mcp.transport_security(dual)") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="it counts segments as Linux does")
async def test_a_head_is_sent_with_its_body_and_alone_where_that_is_late() -> None:
    head_came = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/late":
            await head_came.wait()
        await send({"type": "http.response.body", "body": b"rows"})

    with listen("127.0.0.1", 0) as listener:
        origin = origin_of(listener)
        async with running(app, listener), httpx.AsyncClient() as http:
            answer = await http.get(origin)
            connection = answer.extensions["network_stream"].get_extra_info("socket")
            # tcp(7): tcpi_data_segs_in of struct tcp_info.
            segments = struct.unpack_from(
                "I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), 152
            )
            assert (answer.content, segments, "server" in answer.headers) == (b"rows", (1,), False)
            async with http.stream("GET", f"{origin}/late") as late:
                head_came.set()
                assert await late.aread() == b"rows"


@pytest.mark.parametrize(("before", "during"), [(700, 10_000), (50_000, 50_000), (0, 0)])
async def test_garbage_is_looked_for_less_often_while_a_command_serves(
    shop: str, before: int, during: int, thresholds: None
) -> None:
    gc.set_threshold(before)
    with listen("127.0.0.1", 0) as listener:
        dual, _ = await build_server(shop, EVERYTHING, base_url=f"{origin_of(listener)}/resources")
        app = serve_app(dual)
        async with (
            app.router.lifespan_context(app),
            running(app, listener),
            httpx.AsyncClient() as http,
        ):
            assert gc.get_threshold()[0] == during
            assert (await http.get(f"{origin_of(listener)}/resources/x")).status_code == 404
    assert gc.get_threshold()[0] == before


@pytest.fixture
def thresholds() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
