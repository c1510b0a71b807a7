"""Servers with pages of results and nothing else, which answer in JSON, and what clients say of each refusal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from tests.client.hosting import OTHER_ID, RESOURCE_ID, listening_socket, origin_of, serving

ROWS = [{"id": number} for number in range(7)]
_MISSING = {"error": "not_found", "message": "Resource not found or expired"}


class Refusal(NamedTuple):
    """Its words for an unknown route, a method that a route does not take, and a missing result: status and body."""

    route: tuple[int, Any]
    method: tuple[int, Any]
    result: Any


_EXPRESS = (404, {"error": "Not Found"})
_CODED = {"code": "RESOURCE_NOT_FOUND", **_MISSING}
_NO_LIST = {"message": "This server has no list of results.", "hint": "Open a result at its address."}
_NO_ROUTE = {"title": "Not Found", "status": 404, "detail": "No route."}
_REFUSALS = (
    # Those of FastAPI, of Express, of a server with one word for all, of one with problem details, of one with codes,
    # and of dualsql without features.
    Refusal(
        (404, {"detail": "Not Found"}), (405, {"detail": "Method Not Allowed"}), {"detail": "None such."}
    ),
    Refusal(_EXPRESS, _EXPRESS, {"error": "Resource not found"}),
    Refusal((404, _MISSING), (404, _MISSING), _MISSING),
    Refusal((404, _NO_ROUTE), (501, None), _MISSING),
    Refusal((404, {"code": "NOT_FOUND"}), (404, {"code": "NOT_FOUND"}), {"code": "NOT_FOUND"}),
    Refusal((404, {**_CODED, **_NO_LIST}), (405, {"code": "METHOD_NOT_ALLOWED"}), _CODED),
)
CALLS = tuple("page sort cursor rows query sql profile pin unpin delete refine metadata file".split())
"""What an application asks for; each client's test has the call."""


class Expected(NamedTuple):
    """What a call gives of a result.

    Attributes:
        outcome: "rows", "false", or a regular expression of the error's message; `hint` is one of its hint.
    """

    base_url: str
    id: str
    call: str
    outcome: str
    hint: str = ""


def _application(refusal: Refusal, method: str) -> Starlette:
    async def page(request: Request) -> Response:
        if request.path_params["id"] != RESOURCE_ID:
            return JSONResponse(refusal.result, 404)
        asked = await request.json() if method == "POST" else request.query_params
        start, limit = int(asked.get("offset", asked.get("skip", 0))), int(asked.get("limit", 100))
        data = ROWS[start : start + limit]
        return JSONResponse({"data": data, "skip": start, "has_next": start + len(data) < len(ROWS)})

    async def refused(request: Request, error: Exception) -> Response:
        status, body = refusal.route if getattr(error, "status_code", 0) == 404 else refusal.method
        return JSONResponse(body, status)

    route = Route("/resources/{id}", page, methods=[method])
    return Starlette(routes=[route], exception_handlers={HTTPException: refused})


@asynccontextmanager
async def serving_refusals() -> AsyncIterator[list[Expected]]:
    """Serve them on loopback until the end of the block; the table of what each call gives."""
    servers = [(refusal, method) for refusal in _REFUSALS for method in ("GET", "POST")]
    mounts = [Mount(f"/{number}", _application(*server)) for number, server in enumerate(servers)]
    with listening_socket() as bound:
        addresses = [f"{origin_of(bound)}/{number}/resources" for number in range(len(servers))]
        async with serving(Starlette(routes=mounts), bound):
            yield [
                Expected(address, identifier, call, *_outcome(identifier, call, method))
                for address, (_, method) in zip(addresses, servers, strict=True)
                for identifier in (RESOURCE_ID, OTHER_ID)
                for call in CALLS
            ]


def _outcome(identifier: str, call: str, method: str) -> tuple[str, str]:
    if identifier != RESOURCE_ID and call == "delete":
        return "false", ""
    if identifier != RESOURCE_ID:  # whatever is asked for: the result is missing, and not a route
        return "^(?!This server has|The server takes)", "^Run the tool again"
    if call in ("page", "rows") or (call == "sort" and method == "POST"):
        return "rows", ""
    if call == "cursor" and method == "POST":
        return "does not confirm a cursor", "by offset"
    if call in ("sort", "cursor"):
        return f"takes no POST, and its pages by GET have no {call}", "by offset"
    if call == "metadata" and method == "GET":
        return "sends rows where metadata", "^Read the rows with"
    only = (
        "pages by GET and nothing else"
        if method == "GET"
        else "has pages of the result, and refuses this request"
    )
    return only, "^Read the rows with"
