"""agno: what a run holds; it keeps texts, so the session is watched."""

import json
from dataclasses import dataclass

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools.mcp import MCPTools
from telling import ARGUMENTS, QUESTION, TOOL, run

from dualsql_client.detect import KeptResults


@dataclass
class Scripted(Model):
    id: str = "scripted"

    async def ainvoke(self, messages, **options):
        if any(message.role == "tool" for message in messages):
            return ModelResponse(role="assistant", content="Done.")
        function = {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}
        return ModelResponse(
            role="assistant", tool_calls=[{"id": "c1", "type": "function", "function": function}]
        )

    async def ainvoke_stream(self, messages, **options):
        yield await self.ainvoke(messages)

    def invoke(self, *args, **options):
        raise NotImplementedError

    invoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


async def program(mcp_url, tell):
    kept = KeptResults()
    async with MCPTools(url=mcp_url, transport="streamable-http") as tools:
        kept.watch(tools.session)
        agent = Agent(model=Scripted(), tools=[tools], telemetry=False)
        result = await agent.arun(QUESTION)
        await tell("run output", result)
        await tell("messages", result.messages)
        await tell("kept", kept.take())


run(program)
