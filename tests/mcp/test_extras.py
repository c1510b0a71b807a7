"""The SDKs are extras: nobody needs the one that is not used, and who misses one is told its name."""

from __future__ import annotations

import subprocess
import sys

SDKS = ("mcp", "mcp_types", "fastmcp")

START = """
import sys
from dualsql import ConfigurationError, DualResponseServer
from dualsql.mcp import Answer
from sqlalchemy import MetaData
dual = DualResponseServer("postgresql+asyncpg://127.0.0.1/x", base_url="http://127.0.0.1/r", tables=MetaData())
def loaded(): return sorted({name.partition(".")[0] for name in sys.modules} & {"mcp", "mcp_types", "fastmcp"})
"""


def said_by(program: str) -> str:
    """What a fresh interpreter prints."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_no_sdk_is_loaded_before_it_is_used() -> None:
    assert said_by("print(loaded())") == "[]"


def test_a_server_of_the_official_sdk_does_not_load_fastmcp() -> None:
    program = """
from mcp.server import MCPServer
dual.tool(MCPServer("x"), name="search")(lambda: None)
print(loaded())
"""
    assert said_by(program) == "['mcp', 'mcp_types']"


def test_an_sdk_that_is_missing_is_named_by_its_extra() -> None:
    for name, module, extra in (("MCPServer", "mcp.server", "mcp"), ("FastMCP", "fastmcp", "fastmcp")):
        program = f"""
sys.modules["{extra}"] = None  # as if it were not installed
server = type("{name}", (), {{"__module__": "{module}"}})()
try:
    dual.tool(server)
except ConfigurationError as error:
    print(error.hint)
"""
        assert f"dualsql[{extra}]" in said_by(program)


def test_a_server_of_mcp_1_is_told_which_version_is_wanted() -> None:
    program = """
server = type("FastMCP", (), {"__module__": "mcp.server.fastmcp.server"})()
try:
    dual.tool(server)
except ConfigurationError as error:
    print(error)
"""
    said = said_by(program)
    assert "A FastMCP is no MCP server that is known here." in said
    assert "mcp.server.MCPServer" in said
