"""Google ADK: what events and the session hold."""

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.genai import types
from telling import ARGUMENTS, QUESTION, TOOL, run


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        if len(llm_request.contents) == 1:
            part = types.Part.from_function_call(name=TOOL, args=ARGUMENTS)
        else:
            part = types.Part.from_text(text="Done.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def program(mcp_url, tell):
    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=mcp_url))
    agent = LlmAgent(name="a", model=Scripted(model="scripted"), tools=[toolset])
    runner = InMemoryRunner(agent=agent, app_name="a")
    session = await runner.session_service.create_session(app_name="a", user_id="u")
    asked = types.Content(role="user", parts=[types.Part.from_text(text=QUESTION)])
    running = runner.run_async(user_id="u", session_id=session.id, new_message=asked)
    events = [event async for event in running]
    await tell("events", events)
    await tell("events as JSON", [event.model_dump_json() for event in events])
    kept = await runner.session_service.get_session(app_name="a", user_id="u", session_id=session.id)
    await tell("session", kept)
    await toolset.close()


run(program)
