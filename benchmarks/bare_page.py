"""Starlette with a page that is already written: the least that a page costs behind uvicorn."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGE = "DUALSQL_BENCH_PAGE"
"""The variable that names the file of the page."""


def app() -> Starlette:
    """Answers POST / with the bytes of the file."""
    body = Path(os.environ[PAGE]).read_bytes()

    async def page(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/", page, methods=["POST"])])
