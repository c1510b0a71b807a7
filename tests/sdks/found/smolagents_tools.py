"""smolagents: what a tool of a ToolCollection returns to the agent's code."""

from smolagents import ToolCollection
from telling import ARGUMENTS, TOOL, run


async def program(mcp_url, tell):
    server = {"url": mcp_url, "transport": "streamable-http"}
    for form, has_structure in (("text", False), ("structured_output", True)):
        collection = ToolCollection.from_mcp(server, trust_remote_code=True, structured_output=has_structure)
        with collection as found:
            tools = {tool.name: tool for tool in found.tools}
            await tell(form, tools[TOOL](**ARGUMENTS))


run(program)
