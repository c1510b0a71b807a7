"""pydantic-ai with a function in place of a model."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp.client.transports import StdioTransport
from playing import SCRIPT, TOOL, Asked, makers, of_maker, rows_behind, run
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def scripted(calls: list[tuple[str, dict[str, Any]]]) -> FunctionModel:
    def answer(messages: list[Any], info: Any) -> ModelResponse:
        done = len(messages) // 2
        if done == len(calls):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(*calls[done])])

    return FunctionModel(answer)


async def program(asked: Asked) -> dict[str, Any]:
    command, *arguments = asked["command"]
    started = StdioTransport(command, arguments, env=asked["environment"])
    async with MCPToolset(started, init_timeout=60) as toolset:
        over_stdio = await rows_behind(
            (await played(toolset, SCRIPT)).all_messages(), asked["resources"]["stdio"]
        )
    async with MCPToolset(asked["url"]) as toolset:
        over_http = await rows_behind(
            (await played(toolset, SCRIPT)).all_messages(), asked["resources"]["http"]
        )
        runs = await asyncio.gather(*(played(toolset, [(TOOL, of_maker(maker))]) for maker in makers(asked)))
    right = sum(
        f"'maker_id': {maker}" in str(ran.all_messages())
        for maker, ran in zip(makers(asked), runs, strict=True)
    )
    return {"stdio": over_stdio, "http": over_http, "right": right}


async def played(toolset: Any, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    return await Agent(scripted(calls), toolsets=[toolset]).run("Which parts does maker 7 make?")


run(program)
