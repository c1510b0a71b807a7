"""A tool that takes the model's own SQL. Run it: uvicorn --app-dir examples sql:app"""

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult

from dualsql import DualResponseError, DualResponseServer, Registry
from dualsql.demo import Base, demo_database
from dualsql.sql import read_select

tables = Registry(Base)
dual = DualResponseServer(demo_database(), base_url="http://127.0.0.1:8000/resources", tables=tables)
mcp = MCPServer("colleges", lifespan=dual.lifespan)


@mcp.tool()
async def query(sql: str) -> CallToolResult:
    """One SELECT over institutions, programs and fields_of_study."""
    try:
        response = await dual.create_response(read_select(sql, tables, "sqlite"), name="Query")
    except DualResponseError as error:
        raise ToolError(str(error)) from None
    return response.to_call_tool_result()


app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
