"""langchain-mcp-adapters with a scripted chat model in an agent."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from playing import SCRIPT, TOOL, Asked, is_of, makers, of_maker, rows_behind, run


class Scripted(FakeMessagesListChatModel):
    """A model that knows its tools by heart."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def scripted(calls: list[tuple[str, dict[str, Any]]]) -> Scripted:
    said = [
        AIMessage(content="", tool_calls=[{"name": name, "args": made, "id": f"c{n}", "type": "tool_call"}])
        for n, (name, made) in enumerate(calls)
    ]
    return Scripted(responses=[*said, AIMessage(content="Done.")])


async def program(asked: Asked) -> dict[str, Any]:
    command, *arguments = asked["command"]
    stdio = {"transport": "stdio", "command": command, "args": arguments, "env": asked["environment"]}
    servers = MultiServerMCPClient(
        {"stdio": stdio, "http": {"transport": "streamable_http", "url": asked["url"]}}
    )
    # Over stdio each call outside of a session starts a server of its own, whose links end with it.
    async with servers.session("stdio") as session:
        from langchain_mcp_adapters.tools import load_mcp_tools

        over_stdio = await rows_behind(
            await played(await load_mcp_tools(session), SCRIPT), asked["resources"]["stdio"]
        )
    tools = await servers.get_tools(server_name="http")
    over_http = await rows_behind(await played(tools, SCRIPT), asked["resources"]["http"])
    states = await asyncio.gather(*(played(tools, [(TOOL, of_maker(maker))]) for maker in makers(asked)))
    right = sum(
        is_of(maker, str(state["messages"])) for maker, state in zip(makers(asked), states, strict=True)
    )
    return {"stdio": over_stdio, "http": over_http, "right": right}


async def played(tools: Any, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    agent = create_agent(scripted(calls), tools)
    return await agent.ainvoke({"messages": [{"role": "user", "content": "Which parts does maker 7 make?"}]})


run(program)
