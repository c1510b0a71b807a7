"""A server over a database, and what a Select gives in each format of its REST half."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
from pyarrow import parquet
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql_client import DualResponseClient, ParsedDualResponse
from tests.databases.streams.reading import read_csv, read_xlsx
from tests.servers import create_server

ORIGIN = "http://127.0.0.1:8000"
BASE = f"{ORIGIN}/resources"


class Served:
    """A server, and a client of its REST half."""

    def __init__(self, dual: DualResponseServer, http: httpx.AsyncClient) -> None:
        self.dual = dual
        self.http = http

    async def result(self, statement: Any) -> ParsedDualResponse:
        """The result of a Select."""
        response = await self.dual.create_response(statement, name="kinds")
        actual = DualResponseClient(BASE, http=self.http).parse(response.to_mcp_tool_result(), strict=True)
        assert actual is not None
        return actual

    async def rows(self, result: ParsedDualResponse, format_name: str, **options: Any) -> httpx.Response:
        """The answer to a request for rows."""
        path = f"{BASE}/{result.resource_uri.rpartition('/')[2]}/rows"
        return await self.http.post(path, json={"format": format_name, **options})


@asynccontextmanager
async def served(database: Any, tables: Any, **options: Any) -> AsyncIterator[Served]:
    """A server over a database, whose queries wait for their turn as long as a busy machine needs."""
    options = {"queue_timeout": timedelta(minutes=2), **options}
    async with (
        create_server(database, base_url=BASE, tables=tables, **options) as dual,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(Starlette(routes=[Mount("/resources", dual.router())])),
            base_url=ORIGIN,
        ) as http,
    ):
        yield Served(dual, http)


def values_of(answer: httpx.Response, format_name: str, name: str) -> Any:
    """The values of a column in an answer; the code of the problem that it is, or ends with."""
    if answer.status_code != 200:
        return answer.json()["code"]
    if format_name == "ndjson":
        *rows, last = map(json.loads, answer.text.splitlines())
        return last["$problem"]["code"] if "$problem" in last else [row[name] for row in rows]
    if format_name == "json":
        return [row[name] for row in answer.json()]
    if format_name == "csv":
        return read_csv(answer.content)[name]
    if format_name == "xlsx":
        return read_xlsx(answer.content)[name]
    return table_of(answer, format_name).column(name).to_pylist()


def table_of(answer: httpx.Response, format_name: str) -> pa.Table:
    """An answer in Arrow or Parquet."""
    if format_name == "arrow":
        return pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
    return parquet.read_table(io.BytesIO(answer.content))


def unfit_of(answer: httpx.Response) -> list[Sequence[str]]:
    """The columns that each row of NDJSON names."""
    return [row.get("$unfit", []) for row in map(json.loads, answer.text.splitlines()[:-1])]
