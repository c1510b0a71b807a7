"""A tool of a server that is a process of its own, spoken to over its standard streams."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from mcp import StdioServerParameters
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.mcp.conftest import BASE_URL, Host, text_of

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from sqlalchemy import Select, select
from dualsql import DualResponseServer
from tests.schools import Base, School

kind, url = sys.argv[1:]
if kind == "fastmcp":
    from fastmcp import FastMCP as Server
    options = {"show_banner": False}
else:
    from mcp.server import MCPServer as Server
    options = {}
dual = DualResponseServer(url, base_url="BASE_URL", tables=Base)
server = Server("schools", lifespan=dual.lifespan)

@dual.tool(server)
def schools(state: str) -> Select:
    return select(School.id).where(School.state == state)

server.run(**options)
""".replace("BASE_URL", BASE_URL)


@pytest.mark.long
async def test_a_process_answers(host: Host, schools: AsyncEngine) -> None:
    url = schools.url.render_as_string(hide_password=False)
    program = ["-c", PROGRAM, host.kind, url]
    where: Any = {"cwd": str(ROOT)}
    if host.is_fast:
        server: Any = StdioTransport(sys.executable, program, **where)
    else:
        server = StdioServerParameters(command=sys.executable, args=program, **where)
    async with host.connected(server) as connection:
        result = await connection.call("schools", state="NJ")
        assert text_of(result).startswith("Schools: all 4 rows")
        assert not (await connection.call("schools", state="NY")).is_error
