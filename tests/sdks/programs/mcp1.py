"""The official SDK, mcp 1.x: sessions that begin with a handshake."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from playing import SCRIPT, TOOL, Asked, is_of, makers, of_maker, rows_behind, run


async def program(asked: Asked) -> dict[str, Any]:
    parameters = StdioServerParameters(
        command=asked["command"][0], args=asked["command"][1:], env=asked["environment"]
    )
    async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as session:
        over_stdio = await conversed(session, asked["resources"]["stdio"])
    async with (
        streamablehttp_client(asked["url"]) as (reader, writer, _),
        ClientSession(reader, writer) as session,
    ):
        over_http = await conversed(session, asked["resources"]["http"])
        results = await asyncio.gather(*(session.call_tool(TOOL, of_maker(maker)) for maker in makers(asked)))
    right = sum(
        is_of(maker, result.content[0].text) for maker, result in zip(makers(asked), results, strict=True)
    )
    return {"stdio": over_stdio, "http": over_http, "right": right}


async def conversed(session: ClientSession, base_url: str) -> int:
    await session.initialize()
    for name, arguments in SCRIPT:
        result = await session.call_tool(name, arguments)
        assert not result.isError, result
    return await rows_behind(result, base_url)


run(program)
