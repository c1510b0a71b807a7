"""autogen: what its tools and its workbench return; both keep texts."""

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams, mcp_server_tools
from telling import ARGUMENTS, TOOL, run


async def program(mcp_url, tell):
    server = StreamableHttpServerParams(url=mcp_url)
    tools = {tool.name: tool for tool in await mcp_server_tools(server)}
    result = await tools[TOOL].run_json(ARGUMENTS, CancellationToken())
    await tell("tool result", result)
    await tell("its text", tools[TOOL].return_value_as_string(result))
    async with McpWorkbench(server) as workbench:
        await tell("workbench", await workbench.call_tool(TOOL, ARGUMENTS))


run(program)
