"""A host on agno: a run keeps texts alone, so the session of its tools is watched. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["agno>=3.1", "fastmcp>=4", "dualsql-client"]
# ///

import asyncio
from dataclasses import dataclass

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools.mcp import MCPTools

from dualsql_client import DualResponseClient, KeptResults


@dataclass
class Scripted(Model):
    """In place of yours: it asks for colleges, and then says that it did."""

    id: str = "scripted"

    async def ainvoke(self, messages, **options):
        if any(message.role == "tool" for message in messages):
            return ModelResponse(role="assistant", content="Here are colleges of New Jersey.")
        function = {"name": "search_colleges", "arguments": '{"state": "NJ"}'}
        return ModelResponse(
            role="assistant", tool_calls=[{"id": "1", "type": "function", "function": function}]
        )

    def invoke(self, *messages, **options):
        raise NotImplementedError("This host runs asynchronously.")

    ainvoke_stream = invoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


async def main(origin="http://127.0.0.1:8000"):
    results = KeptResults()
    async with (
        MCPTools(url=f"{origin}/mcp", transport="streamable-http") as tools,
        DualResponseClient(f"{origin}/resources") as application,
    ):
        results.watch(tools.session)
        agent = Agent(model=Scripted(), tools=[tools], telemetry=False)
        run = await agent.arun("Which colleges are in New Jersey?")
        print(f"The model says: {run.content}")
        for parsed in application.find(results.take()):
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
