"""An MCP server whose answers are dual responses. Run it: uvicorn --app-dir examples server:app"""

from mcp.server import MCPServer
from mcp_types import CallToolResult
from sqlalchemy import select

from dualsql import DualResponseServer
from dualsql.demo import Base, Institution, demo_database

dual = DualResponseServer(demo_database(), base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = MCPServer("colleges", lifespan=dual.lifespan)


@mcp.tool()
async def search_colleges(state: str) -> CallToolResult:
    colleges = select(Institution).where(Institution.state == state).order_by(Institution.name)
    response = await dual.create_response(colleges, name=f"Colleges in {state}")
    return response.to_call_tool_result()


app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
