"""Stored results read over MCP: what is there, for whom, how much of it, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from dualsql import BadParameterError, ConfigurationError, DualResponseServer
from dualsql.identity import BearerTokens
from dualsql.mcp import add_catalogue, add_resources
from tests.client.hosting import listening_socket, origin_of
from tests.mcp.conftest import Host, MakeDual
from tests.mcp.reading import Reader
from tests.mcp.test_identity import Verifier, calling, guarded, running, search
from tests.results.pending.conftest import FOREVER
from tests.schools import SCHOOLS, School

ALL = select(School.id, School.name).order_by(School.id)


async def test_metadata_and_the_first_page(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_resources(dual, server, page_size=5)
    response = await dual.create_response(ALL, name="All schools", metadata={"note": "of 2025"})
    async with host.connected(server) as connection:
        read = await Reader(connection).read_json(response.resource_uri)
    assert read["resource"]["name"] == "All schools"
    assert read["resource"]["metadata"] == {"note": "of 2025"}
    assert read["resource"]["total_count"] == len(SCHOOLS)
    assert read["resource"]["url"] == response.resource_url
    assert [row["id"] for row in read["page"]["data"]] == [1, 2, 3, 4, 5]
    assert read["page"]["has_next"] is True


@pytest.mark.parametrize(
    ("lifetime", "most"), [(timedelta(seconds=20), 20_000), (timedelta(hours=1), 60_000)]
)
async def test_it_is_current_no_longer_than_it_lives(
    make_dual: MakeDual, lifetime: timedelta, most: int
) -> None:
    host, dual = Host("official"), make_dual()
    server = host.server()
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All", expiration=lifetime)
    async with host.connected(server) as connection:
        result = await Reader(connection).read(response.resource_uri)
    assert most - 10_000 < result.ttl_ms <= most
    assert result.cache_scope == "private"


async def test_a_pinned_result_is_current_as_long_as_is_said(dual: DualResponseServer) -> None:
    host = Host("official")
    server = host.server()
    add_resources(dual, server, ttl=timedelta(seconds=7))
    response = await dual.create_response(ALL, name="All")
    await dual.unchecked.pin(response.resource_id)
    async with host.connected(server) as connection:
        assert (await Reader(connection).read(response.resource_uri)).ttl_ms == 7_000


async def test_the_scheme_is_the_server_s(make_dual: MakeDual, host: Host) -> None:
    dual = make_dual(uri_scheme="schools")
    server = host.server()
    add_resources(dual, server)
    response = await dual.create_response(ALL, name="All")
    assert response.resource_uri.startswith("schools://")
    async with host.connected(server) as connection:
        reader = Reader(connection)
        assert await reader.templates() == {"schools://{id}": "result"}
        assert (await reader.read_json(response.resource_uri))["page"]["data"]


async def test_results_are_not_listed(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    add_resources(dual, server)
    add_catalogue(dual, server)
    response = await dual.create_response(ALL, name="All")
    async with host.connected(server) as connection:
        reader = Reader(connection)
        assert response.resource_uri not in await reader.everything()
        assert len(await reader.templates()) == 8
        assert await reader.complete("resource://{id}", "id", response.resource_id[:5]) == []


async def test_unknown_deleted_and_expired_results_are_the_protocol_s_error(
    make_dual: MakeDual, host: Host
) -> None:
    dual = make_dual()
    server = host.server()
    add_resources(dual, server)
    deleted = await dual.create_response(ALL, name="All")
    await dual.unchecked.delete(deleted.resource_id)
    expired = await dual.create_response(ALL, name="All", expiration=timedelta(microseconds=1))
    async with host.connected(server) as connection:
        reader = Reader(connection)
        unknown = await reader.refusal("resource://" + "x" * 27)
        gone = await reader.refusal(deleted.resource_uri)
        over = await reader.refusal(expired.resource_uri)
    assert unknown.code == gone.code == over.code == -32602
    assert unknown.data["uri"] == "resource://" + "x" * 27
    assert (unknown.message, unknown.data["code"]) == (gone.message, gone.data["code"])
    assert over.data["code"] == "RESOURCE_EXPIRED"
    assert "Run the query again" in over.message


@pytest.mark.quick(1)
@pytest.mark.parametrize("uri", ["resource://nope", "resource://" + "x" * 27, "resource://a/b?c=d"])
async def test_whatever_is_read_in_vain_has_a_code_and_a_hint(
    dual: DualResponseServer, host: Host, uri: str
) -> None:
    server = host.server()

    @server.resource("resource://readme")
    def readme() -> str:
        """A resource of the application."""
        return "Read me."

    add_resources(dual, server)
    async with host.connected(server) as connection:
        reader = Reader(connection)
        refused = await reader.refusal(uri)
        foreign = await reader.refusal("other://nope")
        contents = (await reader.read("resource://readme")).contents
    assert (refused.code, refused.data["uri"]) == (-32602, uri)
    assert refused.data["code"] == "RESOURCE_NOT_FOUND" and refused.data["hint"]
    assert "code" not in (foreign.data or {})
    assert getattr(contents[0], "text", None) == "Read me."


async def test_only_its_owner_reads_a_result(make_dual: MakeDual, host: Host) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        dual = make_dual(base_url=f"{origin}/resources", authenticate=BearerTokens(Verifier()))
        server = guarded(host, origin)
        search(dual, server)
        add_resources(dual, server)
        async with running(dual, server, listening):
            async with calling(host, origin, "token-of-ana") as connection:
                result = await connection.call("search")
                uri = result.structured_content["resource"]["uri"]
                assert (await Reader(connection).read_json(uri))["page"]["data"]
            async with calling(host, origin, "token-of-bob") as connection:
                foreign = await Reader(connection).refusal(uri)
                unknown = await Reader(connection).refusal("resource://" + "x" * 27)
            async with calling(host, origin, "token-of-nobody") as connection:
                assert (await Reader(connection).refusal(uri)).code == -32603
    assert (foreign.code, foreign.message) == (unknown.code, unknown.message)


async def test_long_rows_are_fewer(make_dual: MakeDual, host: Host) -> None:
    """A model may get all of it; the application gets the rows where it always does."""
    dual = make_dual()
    server = host.server()
    add_resources(dual, server)
    text = func.printf("%.*c", 20_000, "x")
    response = await dual.create_response(select(School.id, text.label("t")).order_by(School.id), name="Long")
    alone = await dual.create_response(select(func.printf("%.*c", 300_000, "x").label("t")), name="Longer")
    async with host.connected(server) as connection:
        reader = Reader(connection)
        page = (await reader.read_json(response.resource_uri))["page"]
        error = await reader.refusal(alone.resource_uri)
    assert 1 <= len(page["data"]) <= 12
    assert page["has_next"] is True
    assert error.data["code"] == "LIMIT_EXCEEDED"
    assert alone.resource_url in error.message


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "uri",
    [
        "resource://",
        "resource://x",
        "resource://" + "x" * 28,
        "resource://" + "x" * 26 + "%",
        "resource://" + "x" * 26 + "é",
        "resource://" + "x" * 100_000,
        "resource://" + "x" * 27 + "/rows",
        "resource://" + "x" * 27 + "?limit=1",
        "resource://%78" + "x" * 26,
    ],
)
async def test_what_is_no_id_is_not_looked_up(dual: DualResponseServer, host: Host, uri: str) -> None:
    server = host.server()
    add_resources(dual, server)
    async with host.connected(server) as connection:
        assert (await Reader(connection).refusal(uri)).code == -32602


async def test_resources_of_the_server_s_own_in_the_same_scheme(dual: DualResponseServer, host: Host) -> None:
    server: Any = host.server()

    def help_() -> str:
        return "call 112"

    server.resource("resource://help")(help_)
    add_resources(dual, server)
    async with host.connected(server) as connection:
        (contents,) = (await Reader(connection).read("resource://help")).contents
    assert getattr(contents, "text", "") == "call 112"


async def test_a_query_that_fails_says_nothing_of_the_database(make_dual: MakeDual, host: Host) -> None:
    dual = make_dual()
    server = host.server()
    add_resources(dual, server)
    # The sample has no third row; the page does, and SQLite cannot count to it.
    response = await dual.create_response(
        select(School.id, func.abs(-(2**62) * School.id).label("x")).order_by(School.id),
        name="Overflow",
        sample_size=0,
        count="none",
    )
    async with host.connected(server) as connection:
        error = await Reader(connection).refusal(response.resource_uri)
    assert (error.code, error.data["code"]) == (-32603, "QUERY_EXECUTION_FAILED")
    assert "overflow" not in str(error).replace("Overflow", "").lower()


async def test_a_slow_query_has_metadata_and_no_page_yet(make_dual: MakeDual, host: Host) -> None:
    dual = make_dual()
    server = host.server()
    add_resources(dual, server)
    response = await dual.create_response(FOREVER, name="Slow", wait=timedelta())
    async with host.connected(server) as connection:
        read = await Reader(connection).read_json(response.resource_uri)
        assert (read["resource"]["status"], read["page"]) == ("pending", None)
        await dual.unchecked.delete(response.resource_id)


def test_a_page_too_large_and_a_server_of_no_sdk_are_refused(dual: DualResponseServer) -> None:
    with pytest.raises(BadParameterError):
        add_resources(dual, Host("official").server(), page_size=10**6)
    with pytest.raises(ConfigurationError):
        add_resources(dual, object())
