"""Serve a database that nobody wrote tools for; the rule: MCP and REST are one application, with one door.

building     a database's own tables -> a DualResponseServer
tools        everything that a model may call, on one MCP server
application  MCP at /mcp and REST beside it, as a Starlette application
door         who may come in to the MCP endpoint, and what its tools are told
tokens       one secret word as a credential
listening    a socket, and uvicorn on it until it is told to stop
hosts        what to paste into a host's configuration

`dualsql serve` is these with options; see docs/serve.md.
"""

from dualsql.errors import extra
from dualsql.execute import Selection

with extra("serve"):
    from dualsql.serving.application import serve_app
    from dualsql.serving.building import Built, build_server
    from dualsql.serving.door import ContextProvider, provided
    from dualsql.serving.tokens import one_token, required
    from dualsql.serving.tools import build_mcp

__all__ = [
    "Built",
    "ContextProvider",
    "Selection",
    "build_mcp",
    "build_server",
    "one_token",
    "provided",
    "required",
    "serve_app",
]
