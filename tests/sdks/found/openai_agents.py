"""openai-agents: what a run, its items and the input of the next run hold."""

import json

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from telling import ARGUMENTS, QUESTION, TOOL, run

from dualsql_client.detect import keep_structured_content

set_tracing_disabled(True)

OPTIONS = {
    "default": {},
    "use_structured_content": {"use_structured_content": True},
    "custom data": {"custom_data_extractor": keep_structured_content},
}


def script():
    call = ResponseFunctionToolCall(
        type="function_call", call_id="c1", name=TOOL, arguments=json.dumps(ARGUMENTS)
    )
    said = ResponseOutputText(type="output_text", text="Done.", annotations=[])
    last = ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[said]
    )
    return ScriptedModel([[call], [last]])


async def program(mcp_url, tell):
    for name, options in OPTIONS.items():
        async with MCPServerStreamableHttp({"url": mcp_url}, **options) as server:
            agent = Agent("a", model=script(), mcp_servers=[server])
            result = await Runner.run(agent, QUESTION)
            await tell(f"{name}: run result", result)
            await tell(f"{name}: new items", result.new_items)
            await tell(f"{name}: input list", result.to_input_list())
            agent = Agent("a", model=script(), mcp_servers=[server])
            streamed = Runner.run_streamed(agent, QUESTION)
            await tell(f"{name}: events", [event async for event in streamed.stream_events()])


run(program)
