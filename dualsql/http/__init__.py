"""The application's half over HTTP; the rule: only this package knows status codes."""

from __future__ import annotations

from dualsql.http.router import build_router

__all__ = ["build_router"]
