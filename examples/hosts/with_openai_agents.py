"""A host on openai-agents: what a run leaves behind is handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents>=0.24", "dualsql-client"]
# ///

import asyncio

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from dualsql_client import DualResponseClient

set_tracing_disabled(True)


def scripted_model():
    """In place of yours, `model="gpt-..."`: it asks for colleges, and then says that it did."""
    call = ResponseFunctionToolCall(
        type="function_call", call_id="1", name="search_colleges", arguments='{"state": "NJ"}'
    )
    words = ResponseOutputText(type="output_text", text="Here are colleges of New Jersey.", annotations=[])
    answer = ResponseOutputMessage(
        id="2", type="message", role="assistant", status="completed", content=[words]
    )
    return ScriptedModel([[call], [answer]])


async def main(origin="http://127.0.0.1:8000"):
    async with (
        # With the structure as what the model reads, the run keeps it, and find() has the sample too.
        MCPServerStreamableHttp({"url": f"{origin}/mcp"}, use_structured_content=True) as server,
        DualResponseClient(f"{origin}/resources") as application,
    ):
        agent = Agent("colleges", model=scripted_model(), mcp_servers=[server])
        result = await Runner.run(agent, "Which colleges are in New Jersey?")
        print(f"The model says: {result.final_output}")
        for parsed in application.find(result.new_items):
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")


if __name__ == "__main__":
    asyncio.run(main())
