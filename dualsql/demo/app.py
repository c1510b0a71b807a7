"""The demo's application: two tools that return a Select, served over MCP and REST."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server import MCPServer
from pydantic import Field
from sqlalchemy import Select, select
from starlette.applications import Starlette

from dualsql.demo.database import FieldOfStudy, Institution, Program
from dualsql.features import DualResponseServer
from dualsql.serve import serve_app

State = Annotated[str, Field(pattern="^[A-Za-z]{2}$", description="Two letters, such as NJ.")]
Words = Annotated[str, Field(max_length=100)]
Dollars = Annotated[int, Field(ge=0, le=10_000_000)]
LEVELS = "1 certificate, 2 associate's, 3 bachelor's, 5 master's, 6 doctoral, 7 first professional."
Level = Annotated[int, Field(ge=1, le=99, description=LEVELS)]


def build_app(dual: DualResponseServer) -> Starlette:
    """The MCP endpoint at /mcp and the REST resources at /resources."""
    return serve_app(dual, build_mcp(dual))


def build_mcp(dual: DualResponseServer) -> MCPServer:
    """The MCP server with the two tools."""
    mcp = MCPServer("college-scorecard", instructions=INSTRUCTIONS, log_level="WARNING")

    @dual.tool(mcp, title="Institutions")
    def search_institutions(
        state: State | None = None, name: Words | None = None, control: Words | None = None
    ) -> Select[Institution]:
        """US colleges by state, part of a name, and control."""
        query = select(Institution).order_by(Institution.name)
        if state:
            query = query.where(Institution.state == state.upper())
        if name:
            query = query.where(Institution.name.icontains(name, autoescape=True))
        if control:
            query = query.where(Institution.control.icontains(control, autoescape=True))
        return query

    @dual.tool(mcp, title="Programs")
    def search_programs(
        state: State | None = None,
        field: Words | None = None,
        credential_level: Level | None = None,
        min_earnings: Dollars | None = None,
    ) -> Select[*tuple[Any, ...]]:
        """What US college programs pay: by state, part of a subject's title, credential, and median earnings
        in USD four years after completion."""
        query: Select[*tuple[Any, ...]] = (
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
            query = query.where(Institution.state == state.upper())
        if field:
            query = query.where(FieldOfStudy.title.icontains(field, autoescape=True))
        if credential_level is not None:
            query = query.where(Program.credential_level == credential_level)
        if min_earnings is not None:
            query = query.where(Program.earnings >= min_earnings)
        return query

    return mcp


INSTRUCTIONS = """
Each answer shows the first rows and the total. Answer from them when they are enough, and say how many rows
there are. The application can get all rows by the resource:// link, without you: name the link, never ask for row
after row.
"""
