"""A host on LangChain: the messages of an agent are handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain>=1.4", "langchain-mcp-adapters>=0.3", "dualsql-client"]
# ///

import asyncio

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient

from dualsql_client import DualResponseClient


class Scripted(FakeMessagesListChatModel):
    """In place of yours, `"openai:gpt-..."`: it asks for colleges, and then says that it did."""

    def bind_tools(self, tools, **options):
        return self


def scripted_model():
    call = {"name": "search_colleges", "args": {"state": "NJ"}, "id": "1", "type": "tool_call"}
    answer = AIMessage(content="Here are colleges of New Jersey.")
    return Scripted(responses=[AIMessage(content="", tool_calls=[call]), answer])


async def main(origin="http://127.0.0.1:8000"):
    servers = MultiServerMCPClient({"colleges": {"transport": "streamable_http", "url": f"{origin}/mcp"}})
    agent = create_agent(scripted_model(), await servers.get_tools())
    state = await agent.ainvoke({"messages": [{"role": "user", "content": "Which colleges are in NJ?"}]})
    print(f"The model says: {state['messages'][-1].content}")
    async with DualResponseClient(f"{origin}/resources") as application:
        for parsed in application.find(state["messages"]):  # in the artifact of a ToolMessage
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
