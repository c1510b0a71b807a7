"""A host on Microsoft Agent Framework: the response of a run is handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["agent-framework-core>=1.23", "mcp>=2.2", "tenacity>=9.1.4,<9.2", "dualsql-client"]
# ///

import asyncio

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    MCPStreamableHTTPTool,
    Message,
)

from dualsql_client import DualResponseClient


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """In place of yours: it asks for colleges, and then says that it did."""

    async def _inner_get_response(self, *, messages, **options):
        call = Content.from_function_call("1", "search_colleges", arguments={"state": "NJ"})
        answer = call if len(messages) == 1 else "Here are colleges of New Jersey."
        return ChatResponse(messages=[Message("assistant", [answer])])


async def main(origin="http://127.0.0.1:8000"):
    async with (
        MCPStreamableHTTPTool("colleges", f"{origin}/mcp") as tools,
        DualResponseClient(f"{origin}/resources") as application,
    ):
        response = await Agent(Scripted(), tools=tools).run("Which colleges are in New Jersey?")
        print(f"The model says: {response.text}")
        for parsed in application.find(response):  # in the function results of its messages
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
