"""What the exchanges are had with: all imports of the library, so that one file follows a module that moves."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Router

from dualsql import (
    DualResponse,
    DualResponseError,
    DualResponseServer,
    ForbiddenError,
    OpenAPI,
    Principal,
    Registry,
    RowFilter,
    SavedQuery,
    Shared,
    SQLResourceStore,
    TenantFilter,
)
from dualsql.cli.commands import app as server_commands
from dualsql.freeze import freeze, thaw
from dualsql.identity import AuditEvent, static_tokens
from dualsql.mcp import (
    Answer,
    add_catalogue,
    add_data_manager,
    add_execute_query,
    add_query,
    add_resources,
    add_result_tools,
    plain_tool,
    system_prompt,
)
from dualsql.mcp.tasks import Tasks
from dualsql.settings import ALL_ACTIONS
from dualsql.store import upgrade
from dualsql_client import (
    CodeMode,
    DualResponseClient,
    DualResponseClientError,
    KeptResults,
    Retry,
    SyncDualResponseClient,
    decode_rows,
    parse_markdown,
    where,
)
from dualsql_client.cli.commands import app as client_commands
from dualsql_client.wire import row_digest
from tests.client.hosting import listening_socket, origin_of, serving as listening
from tests.client.recorded import recordings
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY as SHOP, SHAPES
from tests.schools import Base
from tests.servers import create_server

BASE_URL = "http://127.0.0.1:8000/resources"
SECRETS = ["a secret of more than thirty-two characters"]
ANA = Principal(id="ana", tenant="NJ")
BOB = Principal(id="bob", tenant="NY")
TOKENS = {"token-of-ana": ANA, "token-of-bob": BOB}
AS_ANA = {"Authorization": "Bearer token-of-ana"}
AS_BOB = {"Authorization": "Bearer token-of-bob"}


def make_server(database: Any, **options: Any) -> DualResponseServer:
    """A server of the schools."""
    settings: dict[str, Any] = {"base_url": BASE_URL, "tables": Base, "secrets": SECRETS, **options}
    if "queries" in settings:
        settings["saved_queries"] = settings.pop("queries")
    return create_server(database, **settings)


def routes_of(dual: DualResponseServer) -> list[BaseRoute]:
    """Every route of its REST resources."""
    router = dual.router()
    assert isinstance(router, Router)
    return router.routes


@asynccontextmanager
async def serving(
    database: Any, **options: Any
) -> AsyncIterator[tuple[DualResponseServer, httpx.AsyncClient]]:
    """A server of the schools, and a client that speaks to its routes."""
    async with make_server(database, **options) as dual:
        app = Starlette(routes=[dual.features.get(OpenAPI).well_known(), Mount("/resources", dual.router())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
            yield dual, http


@asynccontextmanager
async def serving_on_loopback(database: Any, **options: Any) -> AsyncIterator[tuple[DualResponseServer, str]]:
    """A server of the schools under uvicorn, and where its resources are."""
    with listening_socket() as bound:
        base_url = f"{origin_of(bound)}/resources"
        dual = make_server(database, base_url=base_url, **options)
        app = Starlette(routes=[Mount("/resources", dual.router())], lifespan=dual.lifespan)
        async with listening(app, bound):
            yield dual, base_url


def document_of(statement: Any, registry: Registry, dialect: Any) -> tuple[str, Any]:
    """The document that a statement is stored as, inflated, and the statement that it gives."""
    document = freeze(statement, registry, dialect=dialect)
    return f"{document[:2].hex()} {zlib.decompress(document[6:]).decode()}", thaw(document, registry)


async def pin(dual: DualResponseServer, response: DualResponse) -> None:
    """Keep a result for ever."""
    await dual.unchecked.pin(response.resource_id)


async def delete(dual: DualResponseServer, response: DualResponse) -> None:
    """Delete a result."""
    await dual.unchecked.delete(response.resource_id)


async def link_to(
    dual: DualResponseServer, response: DualResponse, principal: Principal | None = None, **options: Any
) -> str:
    """A signed link to a result, as a path with its query."""
    return (await dual.links.create(response.resource_id, principal, **options)).removeprefix(
        "http://127.0.0.1:8000"
    )


async def chart_of(
    dual: DualResponseServer, response: DualResponse, specification: Mapping[str, Any], **options: Any
) -> DualResponse:
    """A chart of a result."""
    return await dual.charts.create(response, specification, **options)


__all__ = [
    "ALL_ACTIONS",
    "ANA",
    "AS_ANA",
    "AS_BOB",
    "BASE_URL",
    "BOB",
    "DIALECTS",
    "SECRETS",
    "SHAPES",
    "SHOP",
    "TOKENS",
    "Answer",
    "AuditEvent",
    "CodeMode",
    "DualResponse",
    "DualResponseClient",
    "DualResponseClientError",
    "DualResponseError",
    "DualResponseServer",
    "ForbiddenError",
    "KeptResults",
    "Principal",
    "Registry",
    "Retry",
    "RowFilter",
    "SQLResourceStore",
    "SavedQuery",
    "Shared",
    "SyncDualResponseClient",
    "Tasks",
    "TenantFilter",
    "add_catalogue",
    "add_data_manager",
    "add_execute_query",
    "add_query",
    "add_resources",
    "add_result_tools",
    "chart_of",
    "client_commands",
    "decode_rows",
    "delete",
    "document_of",
    "link_to",
    "make_server",
    "parse_markdown",
    "pin",
    "plain_tool",
    "recordings",
    "routes_of",
    "row_digest",
    "server_commands",
    "serving",
    "serving_on_loopback",
    "static_tokens",
    "system_prompt",
    "upgrade",
    "where",
]
