"""A real server over real rows, spoken to in process. Nothing on the way is faked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Date,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from dualsql.features import DualResponseServer
from dualsql.resource import Principal
from dualsql_client.wire import Problem
from tests.engines import fill_once
from tests.servers import create_server

BASE_URL = "http://127.0.0.1:8000/resources"

METADATA = MetaData()
INSTITUTIONS = Table(
    "institutions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(40), nullable=False),
    Column("state", String(2), nullable=False),
    Column("enrollment", Integer),
    Column("budget", BigInteger, nullable=False),
    Column("tuition", Numeric(12, 2), nullable=False),
    Column("founded", Date, nullable=False),
)
ALL = select(INSTITUTIONS)

BEYOND_DOUBLES = 2**53 + 1
STATES = ("NJ", "NY", "PA")


def institution(number: int) -> dict[str, Any]:
    """Row `number`: states repeat, every fourth enrollment is NULL, no budget fits a double."""
    return {
        "id": number,
        "name": f"Institution {number:03}",
        "state": STATES[number % 3],
        "enrollment": None if number % 4 == 0 else 1_000 - number % 7,
        "budget": BEYOND_DOUBLES + 2 * number,
        "tuition": Decimal(number) + Decimal("0.10"),
        "founded": date(1900, 1, 1),
    }


ROWS = [institution(number) for number in range(1, 61)]


async def fill(engine: AsyncEngine, rows: Sequence[dict[str, Any]] | None = None) -> None:
    """Create the table and put `rows` into it, or the sixty of `ROWS`."""
    if rows is None:
        await fill_once(engine, _create)
        return
    async with engine.begin() as connection:
        await connection.run_sync(_create, rows)


def _create(connection: Connection, rows: Sequence[dict[str, Any]] = tuple(ROWS)) -> None:
    METADATA.create_all(connection)
    connection.execute(insert(INSTITUTIONS), list(rows))


async def by_header(request: Request) -> Principal | None:
    """An authenticator for tests: X-User names the caller, X-Tenant whose they are."""
    user = request.headers.get("x-user")
    return Principal(id=user, tenant=request.headers.get("x-tenant")) if user else None


@dataclass(frozen=True)
class Application:
    """A server and a client that speaks to its routes."""

    server: DualResponseServer
    http: httpx.AsyncClient

    async def create(self, statement: Any = ALL, **options: Any) -> str:
        """Store a result; its path, as seen by `http`."""
        response = await self.server.create_response(statement, name="Institutions", **options)
        return f"/resources/{response.resource_id}"


@asynccontextmanager
async def running(database: str | AsyncEngine, **options: Any) -> AsyncIterator[Application]:
    """A server on `database`, mounted in an application, until the end of the block."""
    settings: dict[str, Any] = {"base_url": BASE_URL, "tables": METADATA, **options}
    async with create_server(database, **settings) as server:
        app = Starlette(routes=[Mount("/resources", server.router())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            yield Application(server, http)


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The body of a refusal, after checking that it is shaped and protected as all refusals are."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert_private(response)
    problem: dict[str, Any] = response.json()
    assert problem.keys() == Problem.__annotations__.keys()
    return problem


def headers_of(response: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, without the id that every answer has for itself."""
    return [header for header in response.headers.raw if header[0].lower() != b"x-request-id"]


def assert_private(response: httpx.Response) -> None:
    """No cache keeps the answer and no other site learns the address it came from."""
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["x-content-type-options"] == "nosniff"
