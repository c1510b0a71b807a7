"""What the programs of this folder have in common. Each runs without dualsql, in an environment of its SDK's.

A program is given `{"url", "command", "environment", "resources", "calls"}` as JSON and says one line of JSON: for each
transport how many rows the application got by the link that the SDK left behind, and how many of many calls at once
were right.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from dualsql_client import DualResponseClient

Asked = dict[str, Any]
Program = Callable[[Asked], Awaitable[dict[str, Any]]]

TOOL = "execute_query"
QUERY = "SELECT * FROM parts WHERE maker_id = 7 ORDER BY id"

SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("list_tables", {}),
    ("describe_table", {"table": "parts"}),
    (TOOL, {"query": QUERY}),
]
"""What a model would call, one after the other."""


def of_maker(maker: int) -> dict[str, Any]:
    """Arguments of a query whose answer nobody else gets."""
    query = "SELECT id, maker_id FROM parts WHERE maker_id = :maker ORDER BY id"
    return {"query": query, "parameters": {"maker": maker}}


def makers(asked: Asked) -> Iterator[int]:
    """One for each of the calls at once."""
    return (number % 40 + 1 for number in range(asked["calls"]))


async def rows_behind(left_behind: Any, base_url: str) -> int:
    """How many rows the application gets by the last dual response in what an SDK left behind."""
    async with DualResponseClient(base_url) as client:
        return len(await list(client.find(left_behind))[-1].fetch_all())


def is_of(maker: int, text: str) -> bool:
    """Whether a result's text is that of `of_maker(maker)`."""
    return "all 25 rows" in text and f"|{maker}|" in text


def run(program: Program) -> None:
    """Run `program` with what the command line says."""
    print(json.dumps(asyncio.run(program(json.loads(sys.argv[1])))))
