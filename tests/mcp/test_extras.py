"""The SDKs are extras: nobody needs the one that is not used, and who misses one is told its name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dualsql import ConfigurationError, DualResponseServer

PROGRAM = """
import sys
from sqlalchemy import MetaData
from dualsql import DualResponseServer
from dualsql.mcp import Answer

def loaded():
    return sorted({name.partition(".")[0] for name in sys.modules} & {"mcp", "mcp_types", "fastmcp"})

dual = DualResponseServer("postgresql://127.0.0.1/x", base_url="http://127.0.0.1/r", tables=MetaData())
print(loaded())
from mcp.server import MCPServer
dual.tool(MCPServer("x"), name="search")(lambda: None)
print(loaded())
"""


@pytest.mark.long
def test_no_sdk_is_loaded_before_it_is_used() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["[]", "['mcp', 'mcp_types']"], ran.stderr


@pytest.mark.parametrize(
    ("name", "module", "extra", "adapter"),
    [("MCPServer", "mcp.server", "mcp", "official"), ("FastMCP", "fastmcp", "fastmcp", "fastmcp")],
)
def test_an_sdk_that_is_missing_is_named_by_its_extra(
    dual: DualResponseServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    module: str,
    extra: str,
    adapter: str,
) -> None:
    monkeypatch.delitem(sys.modules, f"dualsql.mcp.{adapter}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    server = type(name, (), {"__module__": module})()
    with pytest.raises(ConfigurationError) as refusal:
        dual.tool(server)
    assert f"dualsql[{extra}]" in refusal.value.hint


def test_a_server_of_mcp_1_is_told_which_version_is_wanted(dual: DualResponseServer) -> None:
    server = type("FastMCP", (), {"__module__": "mcp.server.fastmcp.server"})()
    with pytest.raises(
        ConfigurationError, match="FastMCP is not the class of a supported MCP server"
    ) as refusal:
        dual.tool(server)
    assert "mcp.server.MCPServer" in refusal.value.hint


@pytest.mark.long
@pytest.mark.parametrize(
    ("wanted", "missing", "extra"),
    [
        ("dualsql.sql; dualsql.sql.read_select", "sqlglot", "sql"),
        ("dualsql.mcp.tasks", "mcp", "mcp"),
        ("dualsql.mcp.resources", "mcp_types", "mcp"),
        ("dualsql.catalogue.mcp", "mcp_types", "mcp"),
        ("dualsql.serve; dualsql.serve.build_mcp", "mcp", "serve"),
    ],
)
def test_a_module_that_needs_an_extra_names_it(wanted: str, missing: str, extra: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import {wanted}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    line = ran.stderr.splitlines()[-1]
    assert line.startswith(f"ModuleNotFoundError: {missing}")
    assert line.endswith(f' is not installed. pip install "dualsql[{extra}]"')
