"""Bind results to people: each request is authenticated."""

from sqlalchemy import select
from starlette.requests import Request

from dualsql import DualResponse, DualResponseServer, Principal
from dualsql.demo import Base, Institution, demo_database

SESSIONS = {"Bearer a-token-of-ana": Principal(id="ana", tenant="acme")}


async def who_asks(request: Request) -> Principal | None:
    return SESSIONS.get(request.headers.get("authorization", ""))


dual = DualResponseServer(
    demo_database(), base_url="http://127.0.0.1:8000/resources", tables=Base, authenticate=who_asks
)


async def colleges_for(person: Principal) -> DualResponse:
    return await dual.create_response(select(Institution), name="Colleges", principal=person)
