"""anthropic: a tool runner keeps texts; the session it calls through is watched."""

import json

import anthropic
import httpx2
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from telling import ARGUMENTS, QUESTION, TOOL, run

from dualsql_client.detect import KeptResults


def message(content, stop_reason):
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [content],
        "stop_reason": stop_reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


class Scripted:
    """The API, in this process."""

    def __init__(self):
        self.requests = []

    def __call__(self, request):
        self.requests.append(json.loads(request.content))
        if len(self.requests) == 1:
            call = {"type": "tool_use", "id": "t1", "name": TOOL, "input": ARGUMENTS}
            return httpx2.Response(200, json=message(call, "tool_use"))
        return httpx2.Response(200, json=message({"type": "text", "text": "Done."}, "end_turn"))


async def program(mcp_url, tell):
    for name, drop_links in {"watched": False, "watched, links dropped": True}.items():
        kept, model = KeptResults(), Scripted()
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(model))
        client = anthropic.AsyncAnthropic(api_key="none", http_client=http)
        async with streamable_http_client(mcp_url) as streams, ClientSession(*streams[:2]) as session:
            await session.initialize()
            kept.watch(session, drop_links=drop_links)
            tools = [async_mcp_tool(tool, session) for tool in (await session.list_tools()).tools]
            asked = [{"role": "user", "content": QUESTION}]
            runner = client.beta.messages.tool_runner(
                model="claude", max_tokens=99, tools=tools, messages=asked
            )
            await runner.until_done()
        await tell(f"{name}: next request", model.requests[1]["messages"])
        await tell(f"{name}: kept", kept.results)


run(program)
