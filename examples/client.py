"""A host application: what the model sees, and what the application gets. Run it beside server.py."""

import asyncio

from mcp import Client

from dualsql_client import DualResponseClient


async def main(origin: str = "http://127.0.0.1:8000") -> None:
    async with Client(f"{origin}/mcp") as model, DualResponseClient(f"{origin}/resources") as application:
        result = await model.call_tool("search_colleges", {"state": "NJ"})
        parsed = application.parse(result, strict=True)
        rows = await parsed.fetch_all()
        print(f"{parsed.name}: the model saw {len(parsed.sample)} rows, the application got {len(rows)}.")


asyncio.run(main())
