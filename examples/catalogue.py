"""A server with a catalogue, and results that can be read. Run it: uvicorn --app-dir examples catalogue:app"""

from mcp.server import MCPServer
from sqlalchemy import bindparam, select

from dualsql import DualResponseServer, OpenAPI, SavedQuery, Tables, default_features
from dualsql.demo import Base, Institution, demo_database
from dualsql.mcp import add_catalogue, add_execute_query, add_resources, system_prompt

by_state = select(Institution).where(Institution.state == bindparam("state")).order_by(Institution.name)
query = SavedQuery("colleges_of_state", by_state, description="Colleges of one state, by name.")
dual = DualResponseServer(
    demo_database(),
    base_url="http://127.0.0.1:8000/resources",
    tables=Base,
    features=default_features(Tables([query])),
)
mcp = MCPServer("colleges", instructions=system_prompt(dual), lifespan=dual.lifespan)
add_catalogue(dual, mcp)
add_resources(dual, mcp)
add_execute_query(dual, mcp)

app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())
app.routes.append(dual.features.get(OpenAPI).well_known())
