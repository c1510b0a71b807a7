"""An MCP server whose answers are dual responses. Run it: uvicorn --app-dir examples server:app"""

from mcp.server import MCPServer
from sqlalchemy import Select, select

from dualsql import DualResponseServer
from dualsql.demo import Base, Institution, demo_database

dual = DualResponseServer(demo_database(), base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = MCPServer("colleges", lifespan=dual.lifespan)


@dual.tool(mcp, title="Colleges")
def search_colleges(state: str) -> Select:
    """Colleges of a state, such as NJ."""
    return select(Institution).where(Institution.state == state).order_by(Institution.name)


app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
