"""pydantic-ai: what a run and its messages hold; the raw call, by hand and watched."""

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from telling import ARGUMENTS, QUESTION, TOOL, run

from dualsql_client.detect import KeptResults


def script(messages, info):
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart(TOOL, ARGUMENTS)])
    return ModelResponse(parts=[TextPart("Done.")])


async def program(mcp_url, tell):
    kept, toolset = KeptResults(), MCPToolset(mcp_url)
    kept.watch(toolset.client)
    agent = Agent(FunctionModel(script), toolsets=[toolset])
    async with agent:
        result = await agent.run(QUESTION)
        await tell("run result", result)
        await tell("messages", result.all_messages())
        await tell("messages as JSON", result.all_messages_json().decode())
        await tell("kept", kept.take())
        await tell("raw call", await toolset.client.call_tool(TOOL, ARGUMENTS))


run(program)
