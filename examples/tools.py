"""A tool that says more than its Select, on fastmcp. Run it: uvicorn --app-dir examples tools:app"""

from datetime import timedelta

from fastmcp import Context, FastMCP
from sqlalchemy import select

from dualsql import BadParameterError, DualResponseServer
from dualsql.demo import Base, Institution, demo_database
from dualsql.mcp import Answer

dual = DualResponseServer(demo_database(), base_url="http://127.0.0.1:8000/resources", tables=Base)
mcp = FastMCP("colleges", lifespan=dual.lifespan)


@dual.tool(mcp, sample_size=10, expiration=timedelta(hours=1), results_format="columnar")
async def search_colleges(state: str, context: Context) -> Answer:
    """Colleges of a state.

    Args:
        state: two letters, such as NJ.
    """
    if len(state) != 2:
        raise BadParameterError(f"{state!r} is no state.", hint="Give two letters, such as NJ.")
    await context.report_progress(1, 2)
    return Answer(
        select(Institution).where(Institution.state == state.upper()).order_by(Institution.name),
        name=f"Colleges in {state.upper()}",
        description="Figures are those of the College Scorecard, 2025.",
    )


app = mcp.http_app(stateless_http=True)
app.mount("/resources", dual.router())
