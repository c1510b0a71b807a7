"""Every driver that an application may give an engine of: the whole way, from the statement to bytes over HTTP.

The other files of this room ask more of each; of the drivers that no URL gets, in the long run alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import literal, select
from sqlalchemy.orm import aliased
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer, QueryTimeoutError, plan
from dualsql.databases.session import read_only
from dualsql.databases.source import Database
from dualsql.formats.table import FORMATS
from dualsql.results.streams import StreamRequest
from tests.databases.kinds import DRIVERS, SLOW, MakeServer
from tests.databases.streams.reading import read
from tests.databases.test_tenants import RULES, person, seen
from tests.databases.test_time import assert_idle
from tests.databases.test_writing import WRITES
from tests.schools import SCHOOLS, School

pytestmark = pytest.mark.parametrize("driver", DRIVERS, indirect=True)

# Each sign begins a parameter, or a part of the SQL, with one driver or another.
SIGNS = ("50%", "%s", "%(x)s", "%%", ":x", "$1", "?", "'", '"', "{x}", "\\")

PERCENT: Any = (
    select(
        School.id,
        (School.id % 7).label("id % 7"),
        School.name.concat("%").label("%s"),
        *(literal(sign).label(f"{number} {sign[0] + sign[-1]}") for number, sign in enumerate(SIGNS)),
    )
    .where(School.name.like("%chool%"), School.name.not_in(SIGNS))
    .order_by(School.id)
)

_one, _two, _three = (aliased(School, name=f"slow_{number}") for number in (6, 7, 8))
MANY = (
    select(_one, _two, _three.id)
    .join(_two, _two.id != _one.id + 100)
    .join(_three, _three.id != _one.id + 100)
)
"""Ten megabytes of rows."""


def percent_rows() -> list[dict[str, Any]]:
    """What PERCENT answers."""
    signs = {f"{number} {sign[0] + sign[-1]}": sign for number, sign in enumerate(SIGNS)}
    return [{"id": row["id"], "id % 7": row["id"] % 7, "%s": f"{row['name']}%", **signs} for row in SCHOOLS]


@asynccontextmanager
async def asked(server: DualResponseServer) -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(routes=[Mount("/resources", server.router())])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000"
    ) as http:
        yield http


async def answered(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


async def by_cursors(http: httpx.AsyncClient, path: str, direction: str, cursor: str | None) -> list[Any]:
    """The pages from a cursor on, each a list of rows, as far as there are any."""
    pages = []
    while cursor:
        page = (await answered(http, path, {"limit": 9, "cursor": cursor})).json()
        pages.append(page["data"])
        cursor = page[f"{direction}_cursor"]
    return pages


@pytest.mark.long
async def test_all_ways_to_the_rows_agree(make_server: MakeServer) -> None:
    server = await make_server()
    await assert_they_agree(server, select(School).order_by(School.id))
    assert await assert_they_agree(server, PERCENT) == percent_rows()


@pytest.mark.quick(1, "postgresql")
async def test_a_planner_is_asked_whatever_the_driver(make_server: MakeServer) -> None:
    server = await make_server()
    wanted = select(School).where(School.id > 3)
    planned = await server.create_response(wanted, name="x", sample_size=2, count="estimated")
    has_planner = server.parts.sources["default"].capabilities.row_estimate is not None
    assert (planned.total_count_kind == "estimated") is has_planner
    # MariaDB's plan of this one is no JSON: it holds a backslash.
    await server.create_response(PERCENT, name="x", sample_size=2, count="estimated")


async def assert_they_agree(server: DualResponseServer, statement: Any) -> list[Any]:
    """Pages both ways, an answer and every format have the same rows, which it returns."""
    response = await server.create_response(statement, name="x", sample_size=1000)
    assert response.total_count == len(response.sample) == len(SCHOOLS)
    columns = plan.shape(statement).columns
    path = f"/resources/{response.resource_id}"
    async with asked(server) as http:
        first = (await answered(http, path, {"limit": 9})).json()
        forward = [first["data"], *await by_cursors(http, path, "next", first["next_cursor"])]
        rows = [row for page in forward for row in page]
        assert [row["id"] for row in rows] == [row["id"] for row in SCHOOLS]
        last = (await answered(http, path, {"limit": 9, "offset": 18})).json()
        assert await by_cursors(http, path, "previous", last["previous_cursor"]) == [forward[1], forward[0]]
        wanted = {"filters": [{"column": "id", "op": "gt", "value": 20}]}
        body = (await answered(http, f"{path}/query", wanted)).json()
        assert [row["id"] for row in body["data"]] == [21, 22, 23]
        streams = {name: await answered(http, f"{path}/rows", {"format": name}) for name in FORMATS}
    assert [orjson.loads(line) for line in streams["ndjson"].content.splitlines()[:-1]] == rows
    tables = {name: read(name, answer.content, columns) for name, answer in streams.items()}
    assert [name for name, table in tables.items() if table != tables["json"]] == []
    return rows


@pytest.mark.quick(1, "postgresql")
async def test_each_tenant_has_its_own_rows(make_server: MakeServer) -> None:
    server = await make_server(hooks=RULES)
    for state in ("NJ", "nj", "%", "' OR 1=1 --"):
        actual = await seen(server, select(School.id).order_by(School.id), person(state))
        assert [row["id"] for row in actual] == [row["id"] for row in SCHOOLS if row["state"] == state]


@pytest.mark.long
async def test_nothing_is_written_and_what_is_slow_or_left_is_stopped(
    make_server: MakeServer, database: Database
) -> None:
    server = await make_server()
    for write in WRITES:
        async with read_only(server.parts.sources["default"], None) as connection:
            with pytest.raises(Exception, match=r"(?i)read.?only"):
                await connection.exec_driver_sql(write)
    impatient = await make_server(query_timeout=timedelta(milliseconds=500))
    with pytest.raises(QueryTimeoutError):
        await impatient.create_response(SLOW, name="slow")
    await asyncio.gather(*impatient.parts.sources["default"].finishing)
    waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
    await asyncio.wait({waiting}, timeout=0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    response = await server.create_response(MANY, name="many", count="none")
    resource = await server.open_resource(response.resource_id, None, "read")
    stream = await server.unchecked.stream(resource, None, StreamRequest(format="ndjson"))
    async with aclosing(stream.chunks) as chunks:
        while not (await anext(chunks)).rows:
            pass
    await assert_idle(database, server)
