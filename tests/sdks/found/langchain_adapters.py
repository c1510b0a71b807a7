"""langchain-mcp-adapters: what a tool message, the state of an agent and its events hold."""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from telling import ARGUMENTS, QUESTION, TOOL, run

CALL = {"name": TOOL, "args": ARGUMENTS, "id": "c1", "type": "tool_call"}


class Scripted(FakeMessagesListChatModel):
    def bind_tools(self, tools, **options):
        return self


def script():
    return Scripted(responses=[AIMessage(content="", tool_calls=[CALL]), AIMessage(content="Done.")])


async def program(mcp_url, tell):
    servers = MultiServerMCPClient({"schools": {"transport": "streamable_http", "url": mcp_url}})
    tools = await servers.get_tools()
    [tool] = [tool for tool in tools if tool.name == TOOL]
    message = await tool.ainvoke(CALL)
    await tell("tool message", message)
    await tell("its artifact", message.artifact)
    parameters = {"messages": [{"role": "user", "content": QUESTION}]}
    state = await create_agent(script(), tools).ainvoke(parameters)
    await tell("state", state)
    await tell("messages as JSON", [message.model_dump_json() for message in state["messages"]])
    events = create_agent(script(), tools).astream_events(parameters, version="v2")
    await tell("events", [event async for event in events])


run(program)
