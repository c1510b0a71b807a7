"""anthropic's tool runner and MCP helpers, over a transport that says what a model would."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx2
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from playing import SCRIPT, TOOL, Asked, is_of, makers, of_maker, rows_behind, run


def message(content: dict[str, Any], stop: str) -> dict[str, Any]:
    used = {"input_tokens": 1, "output_tokens": 1}
    about = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None}
    return {**about, "content": [content], "stop_reason": stop, "usage": used}


async def program(asked: Asked) -> dict[str, Any]:
    command, *arguments = asked["command"]
    started = StdioServerParameters(command=command, args=arguments, env=asked["environment"])
    async with stdio_client(started) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        over_stdio = await rows_behind(await played(session, SCRIPT), asked["resources"]["stdio"])
    async with streamable_http_client(asked["url"]) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        over_http = await rows_behind(await played(session, SCRIPT), asked["resources"]["http"])
        sent = await asyncio.gather(*(played(session, [(TOOL, of_maker(maker))]) for maker in makers(asked)))
    right = sum(is_of(maker, str(messages)) for maker, messages in zip(makers(asked), sent, strict=True))
    return {"stdio": over_stdio, "http": over_http, "right": right}


async def played(session: ClientSession, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    """The messages of the last request, in which every result stands as the model gets it."""
    answers = [
        message({"type": "tool_use", "id": f"t{n}", "name": name, "input": made}, "tool_use")
        for n, (name, made) in enumerate(calls)
    ]
    answers.append(message({"type": "text", "text": "Done."}, "end_turn"))
    sent: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return httpx2.Response(200, json=answers[len(sent) - 1])

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = anthropic.AsyncAnthropic(api_key="-", http_client=http)
    tools = [async_mcp_tool(tool, session) for tool in (await session.list_tools()).tools]
    asked = [{"role": "user", "content": "Which parts does maker 7 make?"}]
    await client.beta.messages.tool_runner(
        model="scripted", max_tokens=99, tools=tools, messages=asked
    ).until_done()
    return sent[-1]["messages"]


run(program)
