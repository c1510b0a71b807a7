"""A server of the benchmarks in a process of its own. It is set up as a newcomer would set it up.

`uvicorn benchmarks.serving:app --factory` serves the database and the store that the environment names.
"""

from __future__ import annotations

import os
from datetime import timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from benchmarks.flights import flights, metadata
from benchmarks.statements import STATEMENTS
from dualsql import (
    DualResponseServer,
    MemoryStore,
    Principal,
    ResourceStore,
    Settings,
    Shared,
    SQLResourceStore,
    TenantFilter,
)
from dualsql.identity import static_tokens

SECRET = "a secret of a benchmark that nobody keeps"
DATABASE, BASE_URL, STORE, TENANT = (
    f"DUALSQL_BENCH_{name}" for name in ("DATABASE", "BASE_URL", "STORE", "TENANT")
)
TOKEN = "token-of-a-tenant-who-has-all-rows"


def app() -> Starlette:
    """The application; POST /tool/NAME answers as a tool would that returns STATEMENTS[NAME].

    With TENANT in the environment, flights are narrowed to that value of their year, which all of them have:
    a bound value in every statement, and the same rows.
    """
    place, year = os.environ.get(STORE), os.environ.get(TENANT)
    store: ResourceStore = SQLResourceStore(place) if place else MemoryStore()
    principal = Principal(id="benchmark", tenant=year) if year else None
    dual = DualResponseServer(
        os.environ[DATABASE],
        base_url=os.environ[BASE_URL],
        tables=metadata,
        store=store,
        secrets=[SECRET],
        hooks=_hooks() if year else (),
        authenticate=static_tokens({TOKEN: principal}) if principal else None,
        settings=Settings(query_timeout=timedelta(minutes=5)),
    )

    async def call(request: Request) -> JSONResponse:
        name = request.path_params["name"]
        response = await dual.create_response(STATEMENTS[name], name=name, sample_size=5, principal=principal)
        return JSONResponse(response.to_mcp_tool_result())

    routes = [Route("/tool/{name}", call, methods=["POST"]), Mount("/resources", dual.router())]
    return Starlette(routes=routes, lifespan=dual.lifespan)


def _hooks() -> list[TenantFilter | Shared]:
    others = [table for table in metadata.sorted_tables if table is not flights]
    return [
        TenantFilter(column="year", value=lambda principal: int(principal.tenant or 0), tables=[flights]),
        Shared(*others),
    ]
