"""One application for the model and the program around it; the rule: a tool hands over a Select, no more."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field
from sqlalchemy import select
from starlette.applications import Starlette

from dualsql.demo.schema import FieldOfStudy, Institution, Program
from dualsql.server import DualResponseServer

State = Annotated[str, Field(pattern="^[A-Za-z]{2}$", description="Two letters, such as NJ.")]
Words = Annotated[str, Field(max_length=100)]
Dollars = Annotated[int, Field(ge=0, le=10_000_000)]
LEVELS = "1 certificate, 2 associate's, 3 bachelor's, 5 master's, 6 doctoral, 7 first professional."
Level = Annotated[int, Field(ge=1, le=99, description=LEVELS)]
READ_ONLY = ToolAnnotations(read_only_hint=True)


def build_app(dual: DualResponseServer) -> Starlette:
    """The MCP endpoint at /mcp and the REST resources at /resources."""
    authority = urlsplit(dual.base_url).netloc
    # Against DNS rebinding: a name that is neither loopback nor our own address is refused.
    allowed = TransportSecuritySettings(
        allowed_hosts=[authority, "127.0.0.1:*", "localhost:*", "[::1]:*"],
        allowed_origins=[f"http://{authority}"],
    )
    app = build_mcp(dual).streamable_http_app(stateless_http=True, transport_security=allowed)
    app.mount("/resources", dual.router())
    return app


def build_mcp(dual: DualResponseServer) -> MCPServer:
    """The model's half: two tools."""
    mcp = MCPServer(
        "college-scorecard", instructions=INSTRUCTIONS, lifespan=dual.lifespan, log_level="WARNING"
    )

    @mcp.tool(annotations=READ_ONLY)
    async def search_institutions(
        state: State | None = None, name: Words | None = None, control: Words | None = None
    ) -> CallToolResult:
        """US colleges by state, part of a name, and control. Results are kept for 15 minutes."""
        found = select(Institution).order_by(Institution.name)
        if state:
            found = found.where(Institution.state == state.upper())
        if name:
            found = found.where(Institution.name.icontains(name, autoescape=True))
        if control:
            found = found.where(Institution.control.icontains(control, autoescape=True))
        response = await dual.create_response(found, name="Institutions")
        return response.to_call_tool_result()

    @mcp.tool(annotations=READ_ONLY)
    async def search_programs(
        state: State | None = None,
        field: Words | None = None,
        credential_level: Level | None = None,
        min_earnings: Dollars | None = None,
    ) -> CallToolResult:
        """What US college programs pay: by state, part of a subject's title, credential, and median earnings
        in USD four years after completion. Results are kept for 15 minutes."""
        found = (
            select(
                Institution.name.label("institution"),
                Institution.state,
                FieldOfStudy.title.label("field"),
                Program.credential,
                Program.completers,
                Program.earnings,
                Program.debt,
            )
            .join(Program.institution)
            .join(Program.field)
            .order_by(Program.earnings.desc().nulls_last())
        )
        if state:
            found = found.where(Institution.state == state.upper())
        if field:
            found = found.where(FieldOfStudy.title.icontains(field, autoescape=True))
        if credential_level is not None:
            found = found.where(Program.credential_level == credential_level)
        if min_earnings is not None:
            found = found.where(Program.earnings >= min_earnings)
        response = await dual.create_response(found, name="Programs")
        return response.to_call_tool_result()

    return mcp


INSTRUCTIONS = """
Each answer shows the first rows and the total. Answer from them when they are enough, and say how many rows
there are. The application shows the person all rows by itself: name the resource:// link, never ask for row
after row.
"""
