"""crewai: what its MCP adapter hands to a crew; it keeps texts."""

from crewai_tools import MCPServerAdapter
from telling import ARGUMENTS, TOOL, run


async def program(mcp_url, tell):
    with MCPServerAdapter({"url": mcp_url, "transport": "streamable-http"}) as tools:
        await tell("tool result", tools[TOOL].run(**ARGUMENTS))


run(program)
