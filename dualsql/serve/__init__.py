"""MCP and REST as one application, also over the reflected tables of a database. `dualsql serve` runs it.

application  serve_app (the Starlette application), build_mcp (all ready-made tools), build_server (reflected tables)
listening    sockets, and uvicorn on them
hosts        configuration snippets for MCP hosts
"""

from dualsql.databases.reflection import ReflectedTables, Selection
from dualsql.databases.source import Database
from dualsql.packages import extra

with extra("serve"):
    from dualsql.serve.application import (
        Built,
        ContextProvider,
        DataApplication,
        build_mcp,
        build_server,
        one_token,
        provided,
        required,
        serve_app,
    )
    from dualsql.web.home import TokenSession

__all__ = [
    "Built",
    "ContextProvider",
    "DataApplication",
    "Database",
    "ReflectedTables",
    "Selection",
    "TokenSession",
    "build_mcp",
    "build_server",
    "one_token",
    "provided",
    "required",
    "serve_app",
]
