"""Run by the Python of a clean environment: serve a resource of the database in argv[1], fetch it, print it.

Its store is the database in argv[2], which `dualsql migrate` has prepared.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import sys

import uvicorn
from sqlalchemy import Column, Integer, MetaData, String, Table, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer, SQLResourceStore
from dualsql_client import DualResponseClient

metadata = MetaData()
schools = Table(
    "schools", metadata, Column("id", Integer, primary_key=True), Column("name", String, nullable=False)
)


async def main(data: str, store: str) -> None:
    fill(data)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        base_url = f"http://127.0.0.1:{bound.getsockname()[1]}/resources"
        dual = DualResponseServer(
            f"sqlite:///{data}",
            base_url=base_url,
            tables=metadata,
            store=SQLResourceStore(f"sqlite:///{store}"),
            secrets=["a secret of a test, kept by nobody at all"],
        )
        app = Starlette(routes=[Mount("/resources", dual.router())], lifespan=dual.lifespan)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve([bound]))
        response = await dual.create_response(select(schools), name="Schools", sample_size=2)
        async with DualResponseClient(base_url=base_url) as client:
            parsed = client.parse(response.to_mcp_tool_result(), strict=True)
            assert parsed is not None
            page = await parsed.fetch(offset=2, limit=3, sort={"field": "id", "order": "desc"})
        print(json.dumps({"sample": parsed.sample, "total": parsed.total_count, "page": page.data}))
        server.should_exit = True
        await serving


def fill(path: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE schools (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        connection.executemany("INSERT INTO schools VALUES (?, ?)", [(n, f"School {n}") for n in range(1, 8)])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
