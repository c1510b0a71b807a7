"""A host on Strands: the messages of an agent are handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["strands-agents>=1.62", "dualsql-client"]
# ///

import asyncio

from mcp.client.streamable_http import streamable_http_client
from strands import Agent
from strands.models.model import Model
from strands.tools.mcp import MCPClient

from dualsql_client import DualResponseClient


class Scripted(Model):
    """In place of yours: it asks for colleges, and then says that it did."""

    async def stream(self, messages, *settings, **options):
        is_first = len(messages) == 1
        call = {"toolUse": {"name": "search_colleges", "toolUseId": "1"}}
        answer = (
            {"toolUse": {"input": '{"state": "NJ"}'}}
            if is_first
            else {"text": "Here are colleges of New Jersey."}
        )
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": call if is_first else {}}}
        yield {"contentBlockDelta": {"delta": answer}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if is_first else "end_turn"}}

    def get_config(self):
        return {}

    def update_config(self, **config):
        raise NotImplementedError("The script has no settings.")

    structured_output = update_config


async def main(origin="http://127.0.0.1:8000"):
    with MCPClient(lambda: streamable_http_client(f"{origin}/mcp")) as servers:
        agent = Agent(model=Scripted(), tools=servers.list_tools_sync(), callback_handler=None)
        result = await agent.invoke_async("Which colleges are in New Jersey?")
    print(f"The model says: {str(result).strip()}")
    async with DualResponseClient(f"{origin}/resources") as application:
        for parsed in application.find(agent.messages):  # in the structuredContent of a toolResult
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
