"""Tenants at once on every kind of engine; dualsql.testing has what each of them sees."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from dualsql import DualResponseServer, PageRequest, Principal, Shared, TenantFilter
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import MakeServer
from tests.schools import Program, School, visits

pytestmark = pytest.mark.quick(50, "sqlite", "postgresql")

RULES = [TenantFilter(column="state", value=lambda person: person.tenant), Shared(Program, visits)]
STATEMENT = select(School.id, School.state)


def person(state: str) -> Principal:
    return Principal(id=f"somebody of {state}", tenant=state)


async def seen(server: DualResponseServer, statement: Any, principal: Principal) -> list[Any]:
    """The rows of a page, which are those of the sample and of the stream."""
    response = await server.create_response(statement, name="x", sample_size=1000, principal=principal)
    resource = await server.open_resource(response.resource_id, principal, "read")
    page = await server.unchecked.read_page(resource, principal, PageRequest(limit=1000))
    stream = await server.unchecked.stream(resource, principal, StreamRequest(format="json"))
    streamed = orjson.loads(b"".join([bytes(chunk.data) async for chunk in stream.chunks]))
    assert page.rows == response.sample == (streamed["rows"] if isinstance(streamed, dict) else streamed)
    assert response.total_count == len(page.rows)
    return list(page.rows)


@pytest.mark.quick(1, "sqlite", "postgresql")
async def test_two_tenants_at_once(make_server: MakeServer) -> None:
    server = await make_server(hooks=RULES, maximum_streams=40)
    states = ["NY", "PA"] * 10
    answers = await asyncio.gather(*(seen(server, STATEMENT, person(state)) for state in states))
    assert [{row["state"] for row in rows} for rows in answers] == [{state} for state in states]
