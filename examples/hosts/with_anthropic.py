"""A host on anthropic's tool runner: the messages it makes are handed to the client. Run it beside server.py.

Of a tool result they keep the text alone, which names the resource: that is enough to fetch it.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["anthropic>=2.10", "mcp>=2.3,<3", "dualsql-client"]
# ///

import asyncio

import anthropic
import httpx2
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from dualsql_client import DualResponseClient


def scripted_model():
    """In place of `anthropic.AsyncAnthropic()`: answers that ask for colleges, and then say that they did."""
    script = [
        ({"type": "tool_use", "id": "1", "name": "search_colleges", "input": {"state": "NJ"}}, "tool_use"),
        ({"type": "text", "text": "Here are colleges of New Jersey."}, "end_turn"),
    ]

    def answer(_request):
        content, reason = script.pop(0)
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [content]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx2.Response(200, json={**message, "stop_reason": reason, "usage": usage})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return anthropic.AsyncAnthropic(api_key="none", http_client=http)


async def main(origin="http://127.0.0.1:8000"):
    async with (
        streamable_http_client(f"{origin}/mcp") as streams,
        ClientSession(*streams[:2]) as session,
        DualResponseClient(f"{origin}/resources") as application,
    ):
        await session.initialize()
        runner = scripted_model().beta.messages.tool_runner(
            model="claude",
            max_tokens=1000,
            tools=[async_mcp_tool(tool, session) for tool in (await session.list_tools()).tools],
            messages=[{"role": "user", "content": "Which colleges are in New Jersey?"}],
        )
        responses = []
        async for message in runner:
            block = message.content[-1]
            responses += application.find(await runner.generate_tool_call_response())
        print(f"The model says: {block.text}")
        for parsed in responses:
            print(f"The application has {len(await parsed.fetch_all())} rows of {await name_of(parsed)}.")


async def name_of(parsed):
    return parsed.name or (await parsed.get_metadata()).name


if __name__ == "__main__":
    asyncio.run(main())
