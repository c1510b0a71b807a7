"""strands: what an agent's events and messages hold."""

import json

from mcp.client.streamable_http import streamable_http_client
from strands import Agent
from strands.models.model import Model
from strands.tools.mcp import MCPClient
from telling import ARGUMENTS, QUESTION, TOOL, run


class Scripted(Model):
    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *args, **options):
        raise NotImplementedError

    async def stream(self, messages, tool_specs=None, system_prompt=None, **options):
        call = {"toolUse": {"name": TOOL, "toolUseId": "t1"}}
        is_first = len(messages) == 1
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": call if is_first else {}}}
        said = {"toolUse": {"input": json.dumps(ARGUMENTS)}} if is_first else {"text": "Done."}
        yield {"contentBlockDelta": {"delta": said}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if is_first else "end_turn"}}


async def program(mcp_url, tell):
    servers = MCPClient(lambda: streamable_http_client(mcp_url))
    with servers:
        agent = Agent(model=Scripted(), tools=servers.list_tools_sync(), callback_handler=None)
        await tell("events", [event async for event in agent.stream_async(QUESTION)])
        await tell("messages", agent.messages)
        await tell("raw call", await servers.call_tool_async("t2", TOOL, ARGUMENTS))


run(program)
