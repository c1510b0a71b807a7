"""The server of the benchmark, in a process of its own: `python -m benchmarks.serving`.

Its first line on standard output is the tool result of every flight, as JSON.
"""

from __future__ import annotations

import asyncio
import socket

import orjson
import uvicorn
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.routing import Mount

from benchmarks.flights import database, flights, metadata
from dualsql import DualResponseServer


async def serve() -> None:
    """Serve on a free loopback port until the process is told to stop."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        base_url = f"http://127.0.0.1:{bound.getsockname()[1]}/resources"
        dual = DualResponseServer(f"sqlite:///{database()}", base_url=base_url, tables=metadata)
        response = await dual.create_response(select(flights), name="Every flight")
        print(orjson.dumps(response.to_mcp_tool_result()).decode(), flush=True)
        app = Starlette(routes=[Mount("/resources", dual.router())], lifespan=dual.lifespan)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([bound])


if __name__ == "__main__":
    asyncio.run(serve())
