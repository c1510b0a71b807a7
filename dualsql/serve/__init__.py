"""MCP and REST as one application, also over the reflected tables of a database. `dualsql serve` runs it.

application  serve_app (the Starlette application), build_mcp (all ready-made tools), build_server (reflected tables)
sockets      listening sockets, and signals
listening    uvicorn on them
hosts        configuration snippets for MCP hosts
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualsql.packages import extra, modules_by_name, on_first_use

if TYPE_CHECKING:
    from dualsql.databases.reflection import ReflectedTables as ReflectedTables, Selection as Selection
    from dualsql.databases.source import Database as Database
    from dualsql.serve.application import (
        Built as Built,
        ContextProvider as ContextProvider,
        DataApplication as DataApplication,
        build_mcp as build_mcp,
        build_server as build_server,
        one_token as one_token,
        provided as provided,
        required as required,
        serve_app as serve_app,
    )
    from dualsql.web.home import TokenSession as TokenSession

# Modules by name, imported on first use: `dualsql serve --stdio` answers before they are.
_MODULES = modules_by_name(
    {
        "dualsql.databases.reflection": "ReflectedTables Selection",
        "dualsql.databases.source": "Database",
        "dualsql.serve.application": """
            Built ContextProvider DataApplication build_mcp build_server one_token provided required serve_app""",
        "dualsql.web.home": "TokenSession",
    }
)

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    with extra("serve"):
        return on_first_use(__name__, _MODULES, name)
