"""A tool that takes the model's own SQL. Run it: uvicorn --app-dir examples sql:app"""

from mcp.server import MCPServer
from sqlalchemy import Select

from dualsql import DualResponseServer, Registry
from dualsql.demo import Base, demo_database
from dualsql.sql import read_select

tables = Registry(Base)
dual = DualResponseServer(demo_database(), base_url="http://127.0.0.1:8000/resources", tables=tables)
mcp = MCPServer("colleges", lifespan=dual.lifespan)


@dual.tool(mcp)
def query(sql: str) -> Select:
    """One SELECT over institutions, programs and fields_of_study."""
    return read_select(sql, tables, "sqlite")


app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
