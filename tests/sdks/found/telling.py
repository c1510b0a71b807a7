"""What a program of this folder says. One JSON line for each form in which an SDK hands a result over.

The programs run in environments without dualsql: the server is another process, and the client is the light one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from dualsql_client import DualResponseClient
from dualsql_client.object_walk import fields_of

Tell = Callable[[str, Any], Awaitable[None]]
Program = Callable[[str, Tell], Awaitable[None]]

TOOL = sys.argv[3]
ARGUMENTS = {"state": "NJ"}
QUESTION = "Find schools."


def run(program: Program) -> None:
    """Run `program(mcp_url, tell)` with the two addresses of the command line."""
    mcp_url, base_url = sys.argv[1:3]
    asyncio.run(_run(program, mcp_url, base_url))


async def _run(program: Program, mcp_url: str, base_url: str) -> None:
    async with DualResponseClient(base_url) as client:

        async def tell(form: str, value: Any) -> None:
            actual = [
                {
                    "sample": len(parsed.sample),
                    "total": parsed.total_count,
                    "rows": len(await parsed.fetch_all()),
                }
                for parsed in client.find(value)
            ]
            recorded = {"value": described(value)} if "DUALSQL_RECORD_SHAPES" in os.environ else {}
            print(json.dumps({"form": form, "found": actual, **recorded}), flush=True)

        await program(mcp_url, tell)


def described(value: Any, within: tuple[int, ...] = ()) -> Any:
    """The JSON of any value; an object has the name of its class as `__type__`, for tests/client/recorded.py."""
    if value is None or type(value) in (str, bool, int, float):
        return value
    if id(value) in within or len(within) > 24:
        return None
    inner = (*within, id(value))
    if isinstance(value, list | tuple | set):
        return [described(item, inner) for item in value]
    fields = {str(name): described(item, inner) for name, item in (fields_of(value) or {}).items()}
    if isinstance(value, dict):
        return fields
    kind = type(value)
    return {"__type__": f"{kind.__module__}.{kind.__name__}", **fields} if fields else str(value)
