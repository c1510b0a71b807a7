"""A host on pydantic-ai: the messages of a run are handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[mcp]>=2.62", "dualsql-client"]
# ///

import asyncio

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from dualsql_client import DualResponseClient


def scripted_model(messages, _info):
    """In place of yours, `"openai:gpt-..."`: it asks for colleges, and then says that it did."""
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("search_colleges", {"state": "NJ"})])
    return ModelResponse(parts=[TextPart("Here are colleges of New Jersey.")])


async def main(origin="http://127.0.0.1:8000"):
    agent = Agent(FunctionModel(scripted_model), toolsets=[MCPToolset(f"{origin}/mcp", init_timeout=30)])
    async with agent, DualResponseClient(f"{origin}/resources") as application:
        result = await agent.run("Which colleges are in New Jersey?")
        print(f"The model says: {result.output}")
        for parsed in application.find(result.all_messages()):
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
