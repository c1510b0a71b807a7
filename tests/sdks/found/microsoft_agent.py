"""Microsoft Agent Framework: what a run holds."""

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    MCPStreamableHTTPTool,
    Message,
)
from telling import ARGUMENTS, QUESTION, TOOL, run


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages, stream, options, **more):
        async def answer():
            call = Content.from_function_call("c1", TOOL, arguments=ARGUMENTS)
            said = [call] if len(messages) == 1 else ["Done."]
            return ChatResponse(messages=[Message("assistant", said)])

        return answer()


async def program(mcp_url, tell):
    for content in ("structured_first", "content_only"):
        async with MCPStreamableHTTPTool("schools", mcp_url, tool_result_content=content) as tools:
            result = await Agent(Scripted(), tools=tools).run(QUESTION)
            await tell(f"{content}: run result", result)
            await tell(f"{content}: as a dict", result.to_dict())


run(program)
