"""A host on Google ADK: the events of a run are handed to the client. Run it beside server.py."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["google-adk>=2.13", "mcp>=2", "dualsql-client"]
# ///

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.genai import types

from dualsql_client import DualResponseClient


class Scripted(BaseLlm):
    """In place of yours, `model="gemini-..."`: it asks for colleges, and then says that it did."""

    async def generate_content_async(self, llm_request, *settings, **options):
        if len(llm_request.contents) == 1:
            part = types.Part.from_function_call(name="search_colleges", args={"state": "NJ"})
        else:
            part = types.Part.from_text(text="Here are colleges of New Jersey.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main(origin="http://127.0.0.1:8000"):
    tools = McpToolset(connection_params=StreamableHTTPConnectionParams(url=f"{origin}/mcp"))
    agent = LlmAgent(name="colleges", model=Scripted(model="scripted"), tools=[tools])
    runner = InMemoryRunner(agent=agent, app_name="colleges")
    session = await runner.session_service.create_session(app_name="colleges", user_id="user")
    question = types.UserContent("Which colleges are in New Jersey?")
    run = runner.run_async(user_id="user", session_id=session.id, new_message=question)
    events = [event async for event in run]
    print(f"The model says: {events[-1].content.parts[0].text}")
    async with DualResponseClient(f"{origin}/resources") as application:
        for parsed in application.find(events):  # in the function responses
            print(f"The application has {len(await parsed.fetch_all())} rows of {parsed.name}.")
    await tools.close()


if __name__ == "__main__":
    asyncio.run(main())
