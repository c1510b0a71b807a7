"""Serve a database that nobody wrote tools for: MCP and REST as one application."""

from dualsql.databases import Selection
from dualsql.errors import extra

with extra("serve"):
    from dualsql.serve.application import (
        Built,
        ContextProvider,
        build_mcp,
        build_server,
        one_token,
        provided,
        required,
        serve_app,
    )

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
