"""Who asks sees his own rows on every kind of engine, whichever way they are read."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from sqlalchemy import func, select

from dualsql import DualResponseServer, ForbiddenError, PageRequest, Principal, Shared, TenantFilter
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import MakeServer
from tests.schools import PROGRAMS, SCHOOLS, Program, School, visits

RULES = [TenantFilter(column="state", value=lambda person: person.tenant), Shared(Program, visits)]
STATEMENTS: dict[str, Any] = {
    "table": select(School.id, School.state),
    "join": select(School.id, Program.field).join(School.programs),
    "aggregate": select(School.state, func.count().label("n")).group_by(School.state),
    "union": select(School.id, School.state).union(select(School.id, School.state)),
    "grouped by its key": select(School.id, School.state, func.count(Program.field))
    .join(School.programs)
    .group_by(School.id),
}


def person(state: str) -> Principal:
    return Principal(id=f"somebody of {state}", tenant=state)


async def seen(server: DualResponseServer, statement: Any, principal: Principal) -> list[Any]:
    """The rows of a page, which are those of the sample and of the stream."""
    response = await server.create_response(statement, name="x", sample_size=1000, principal=principal)
    resource = await server.open_resource(response.resource_id, principal, "read")
    page = await server.read_page_unchecked(resource, principal, PageRequest(limit=1000))
    stream = await server.stream_unchecked(resource, principal, StreamRequest(format="json"))
    streamed = orjson.loads(b"".join([bytes(chunk.data) async for chunk in stream.chunks]))
    assert page.rows == response.sample == (streamed["rows"] if isinstance(streamed, dict) else streamed)
    assert response.total_count == len(page.rows)
    return list(page.rows)


@pytest.mark.quick(1)
async def test_each_tenant_has_its_own_rows(make_server: MakeServer) -> None:
    """NJ is not nj, though MariaDB's collations say so."""
    server = await make_server(hooks=RULES)
    for state in ("NJ", "nj", "PA"):
        mine = {row["id"] for row in SCHOOLS if row["state"] == state}
        found = {name: await seen(server, statement, person(state)) for name, statement in STATEMENTS.items()}
        assert {row["id"] for row in found["table"]} == {row["id"] for row in found["union"]} == mine
        assert len(found["join"]) == sum(row["school_id"] in mine for row in PROGRAMS)
        assert sum(row["n"] for row in found["aggregate"]) == len(mine)
        assert {row["id"] for row in found["grouped by its key"]} <= mine


@pytest.mark.quick(1)
async def test_two_tenants_at_once(make_server: MakeServer) -> None:
    server = await make_server(hooks=RULES, maximum_streams=20)
    states = ["NY", "PA"] * 10
    answers = await asyncio.gather(*(seen(server, STATEMENTS["table"], person(state)) for state in states))
    assert [{row["state"] for row in rows} for rows in answers] == [{state} for state in states]


async def test_nobody_is_no_tenant(make_server: MakeServer) -> None:
    server = await make_server(hooks=RULES)
    with pytest.raises(ForbiddenError):
        await server.create_response(STATEMENTS["table"], name="x")
