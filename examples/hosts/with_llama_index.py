"""A host on LlamaIndex: the tool calls of an agent's run are handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["llama-index-core>=0.14", "llama-index-tools-mcp>=0.6", "dualsql-client"]
# ///

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import ToolSelection
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from dualsql_client import DualResponseClient


class Scripted(MockLLM, FunctionCallingLLM):
    """In place of yours: it asks for colleges, and then says that it did."""

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools, chat_history=None, **options):
        return {"messages": chat_history}

    async def astream_chat_with_tools(self, tools, chat_history=None, **options):
        has_answer = any(message.role == MessageRole.TOOL for message in chat_history)
        words = "Here are colleges of New Jersey." if has_answer else ""

        async def stream():
            message = ChatMessage(role="assistant", content=words)
            yield ChatResponse(message=message, delta=words, raw={"is_call": not has_answer})

        return stream()

    def get_tool_calls_from_response(self, response, **options):
        call = ToolSelection(tool_id="1", tool_name="search_colleges", tool_kwargs={"state": "NJ"})
        return [call] if response.raw["is_call"] else []


async def main(origin="http://127.0.0.1:8000"):
    tools = await McpToolSpec(client=BasicMCPClient(f"{origin}/mcp")).to_tool_list_async()
    result = await FunctionAgent(tools=tools, llm=Scripted()).run("Which colleges are in New Jersey?")
    print(f"The model says: {result.response.content}")
    async with DualResponseClient(f"{origin}/resources") as application:
        for parsed in application.find(result.tool_calls):  # in the raw_output of a ToolOutput
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
