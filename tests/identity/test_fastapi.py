"""Who calls a FastAPI application: its own dependency says so, for results and tools as for its endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from mcp.server import MCPServer

from dualsql import ConfigurationError, DualResponseServer, Principal
from dualsql.identity import fastapi_user
from dualsql.serve import serve_app
from tests.http.application import ALL, BASE_URL, METADATA

HTTP = "http://127.0.0.1:8000"
CLOSED: list[str] = []


async def session(request: Request) -> AsyncIterator[str]:
    """Something that a request opens, and that is closed after it."""
    yield f"session of {request.app.title}"
    CLOSED.append(request.url.path)


def current_user(
    opened: Annotated[str, Depends(session)],
    x_user: Annotated[str, Header(max_length=9)],
    body: Annotated[str | None, Header(alias="x-of-no-use")] = None,
) -> dict[str, str] | None:
    """In a thread, as FastAPI runs what is not async."""
    if x_user == "mallory":
        raise HTTPException(401, "Not you", {"WWW-Authenticate": "Header"})
    return None if x_user == "nobody" else {"name": x_user, "by": opened}


def principal(user: Any) -> Principal | None:
    return None if user is None else Principal(id=f"{user['name']} by {user['by']}")


@asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[FastAPI, DualResponseServer, httpx.AsyncClient]]:
    """An application with its own routes, and the server among them."""
    dual = DualResponseServer(
        url, base_url=BASE_URL, tables=METADATA, authenticate=fastapi_user(current_user, principal)
    )
    data = serve_app(dual, MCPServer("shop"))
    app = FastAPI(title="Shop", lifespan=data.lifespan)
    app.router.routes.append(data.as_route())

    @app.get("/me/{number}")
    async def me(number: int, user: Annotated[Any, Depends(current_user)]) -> Any:
        return user

    transport = httpx.ASGITransport(app)
    async with data.lifespan(app), httpx.AsyncClient(transport=transport, base_url=HTTP) as http:
        yield app, dual, http


async def test_its_dependency_is_asked_for_results_as_for_endpoints(institutions_url: str) -> None:
    async with running(institutions_url) as (_, dual, http):
        user = (await http.get("/me/1", headers={"x-user": "ana"})).json()
        response = await dual.create_response(ALL, name="All", principal=principal(user))
        path = f"/resources/{response.resource_id}"
        CLOSED.clear()
        answers = {name: await http.get(path, headers={"x-user": name}) for name in ("ana", "ben", "nobody")}
        assert {name: answer.status_code for name, answer in answers.items()} == {
            "ana": 200, "ben": 404, "nobody": 404,
        }  # fmt: skip
        assert [path] * 3 == CLOSED
        posted = await http.post(path, json={"limit": 3}, headers={"x-user": "ana"})
        assert len(posted.json()["data"]) == 3


@pytest.mark.parametrize(
    ("headers", "message"),
    [({"x-user": "mallory"}, "Not you"), ({}, "identifies its caller"), ({"x-user": "x" * 10}, "identifies")],
)
async def test_what_it_refuses_is_refused_everywhere(
    institutions_url: str, headers: dict[str, str], message: str
) -> None:
    async with running(institutions_url) as (_, dual, http):
        response = await dual.create_response(ALL, name="All")
        for method, path in (("GET", f"/resources/{response.resource_id}"), ("POST", "/mcp")):
            refused = await http.request(method, path, headers=headers)
            assert refused.status_code == 401 and message in refused.json()["message"]
            assert refused.headers.get("www-authenticate")


async def test_overrides_of_the_application_apply(institutions_url: str) -> None:
    async with running(institutions_url) as (app, _, http):
        app.dependency_overrides[current_user] = lambda: {"name": "zoe", "by": "a test"}
        assert (await http.get("/resources/")).json() == {"resources": [], "next_cursor": None}
        app.dependency_overrides.clear()
        assert (await http.get("/resources/")).status_code == 401


async def test_routes_of_the_application_stay_as_they_were(institutions_url: str) -> None:
    """A mount at "/" would answer for unknown paths, and end FastAPI's redirects."""
    async with running(institutions_url) as (_, _, http):
        assert (await http.get("/unknown")).json() == {"detail": "Not Found"}
        assert (await http.get("/me/1/")).headers["location"] == f"{HTTP}/me/1"
        assert (await http.get("/me/x", headers={"x-user": "ana"})).status_code == 422
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.get("/.well-known/resource-link-service")).status_code == 200
        described = (await http.get("/openapi.json")).json()
        assert list(described["paths"]) == ["/me/{number}"]


async def test_an_application_that_does_not_run_its_lifespan_is_told(institutions_url: str) -> None:
    data = serve_app(
        DualResponseServer(institutions_url, base_url=BASE_URL, tables=METADATA), MCPServer("shop")
    )
    app = FastAPI()
    app.router.routes.append(data.as_route())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=HTTP) as http:
        for path in ("/mcp", "/resources/"):
            with pytest.raises(ConfigurationError, match="does not run the lifespan"):
                await http.post(path)
