"""A dualsql server with the documented tool, whose results belong to who calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from sqlalchemy import Column, Integer, MetaData, String, Table, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import BadParameterError
from dualsql.conformance.standard import standard, standard_row
from dualsql.identity import BearerTokens
from dualsql.mcp import Answer, add_resources
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.mutants import TOKENS
from tests.servers import create_server, fill_tables

METADATA = MetaData()
ROWS = Table(
    "standard_rows",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(20), nullable=False),
    Column("kind", String(1), nullable=False),
    Column("score", Integer),
)
LARGEST = 1_000
_ISSUER = "https://login.example.com"


class Verifier(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        name = TOKENS.get(token)
        claims = {"iss": _ISSUER}
        return name and AccessToken(token=token, client_id="a-host", scopes=[], subject=name, claims=claims)  # type: ignore[return-value]


@asynccontextmanager
async def serving_standard(url: str) -> AsyncIterator[str]:
    """The MCP endpoint of a server over the database at `url`, which is filled first."""
    fill_tables(url, METADATA, {ROWS: [standard_row(number) for number in range(1, LARGEST + 1)]})
    with listening_socket() as bound:
        origin = origin_of(bound)
        base_url = f"{origin}/resources"
        dual = create_server(url, base_url=base_url, tables=METADATA, authenticate=BearerTokens(Verifier()))
        auth = AuthSettings.model_validate(
            {"issuer_url": _ISSUER, "resource_server_url": f"{origin}/mcp", "validate_token_resource": False}
        )
        server = MCPServer("standard", token_verifier=Verifier(), auth=auth)

        @dual.tool(server, name=standard()["tool"]["name"])
        def standard_rows(rows: int = 23, lifetime: float = 900) -> Answer:
            """Rows of the standard."""
            if not 0 <= rows <= LARGEST:
                raise BadParameterError(f"rows is 0 to {LARGEST}.", hint="Give another number.")
            statement = select(ROWS).where(ROWS.c.id <= rows).order_by(ROWS.c.id)
            return Answer(statement, name="Rows", expiration=timedelta(seconds=lifetime))

        add_resources(dual, server)
        tools = server.streamable_http_app(stateless_http=True)
        routes = [Mount("/resources", dual.router()), Mount("/", tools)]
        async with serving(Starlette(routes=routes, lifespan=tools.router.lifespan_context), bound):
            try:
                yield f"{origin}/mcp"
            finally:
                await dual.shutdown()
