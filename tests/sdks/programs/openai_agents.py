"""openai-agents with a scripted model: an agent that looks, describes and queries."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from playing import SCRIPT, TOOL, Asked, is_of, makers, of_maker, rows_behind, run

set_tracing_disabled(True)


def scripted(calls: list[tuple[str, dict[str, Any]]]) -> ScriptedModel:
    said = ResponseOutputText(type="output_text", text="Done.", annotations=[])
    last = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[said])
    return ScriptedModel([*([call(n, *made)] for n, made in enumerate(calls)), [last]])


def call(number: int, name: str, arguments: dict[str, Any]) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=f"c{number}", name=name, arguments=json.dumps(arguments)
    )


async def program(asked: Asked) -> dict[str, Any]:
    command, *arguments = asked["command"]
    started = {"command": command, "args": arguments, "env": asked["environment"]}
    async with MCPServerStdio(started, client_session_timeout_seconds=60) as server:
        over_stdio = await rows_behind((await played(server, SCRIPT)).new_items, asked["resources"]["stdio"])
    async with MCPServerStreamableHttp({"url": asked["url"]}, client_session_timeout_seconds=60) as server:
        over_http = await rows_behind((await played(server, SCRIPT)).new_items, asked["resources"]["http"])
        runs = await asyncio.gather(*(played(server, [(TOOL, of_maker(maker))]) for maker in makers(asked)))
    right = sum(
        is_of(maker, str(ran.to_input_list())) for maker, ran in zip(makers(asked), runs, strict=True)
    )
    return {"stdio": over_stdio, "http": over_http, "right": right}


async def played(server: Any, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    agent = Agent("analyst", model=scripted(calls), mcp_servers=[server])
    return await Runner.run(agent, "Which parts does maker 7 make?")


run(program)
