"""LlamaIndex: what a tool's output and the events of an agent hold."""

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from telling import ARGUMENTS, TOOL, run


def script(messages, **options):
    is_called = any(message.role == MessageRole.TOOL for message in messages)
    call = ToolCallBlock(tool_call_id="c1", tool_name=TOOL, tool_kwargs=ARGUMENTS)
    return ChatMessage(role="assistant", blocks=[TextBlock(text="Done.")] if is_called else [call])


async def program(mcp_url, tell):
    tools = await McpToolSpec(client=BasicMCPClient(mcp_url)).to_tool_list_async()
    [tool] = [tool for tool in tools if tool.metadata.name == TOOL]
    output = await tool.acall(**ARGUMENTS)
    await tell("tool output", output)
    await tell("its text", output.content)


run(program)
