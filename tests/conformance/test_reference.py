"""A server that answers as the reference does (mcp-rlp, commit 9069ad0) fails where the document says so."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from dualsql.conformance.probe import Target
from dualsql.conformance.run import check_server, is_conforming, report
from dualsql.conformance.standard import standard_row
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.test_standard import DOCUMENT

SQL = "SELECT * FROM standard_rows WHERE id <= 23 ORDER BY id"


@dataclass
class Reference:
    """It keeps SQL texts by their ID and puts what a request says into them."""

    origin: str
    database: sqlite3.Connection
    queries: dict[str, str] = field(default_factory=dict)

    def application(self) -> Starlette:
        server: MCPServer[Any] = MCPServer("reference")
        server.tool()(self.query)
        tools = server.streamable_http_app(stateless_http=True)
        route = Route("/resources/{id}", self.answer, methods=["GET", "POST", "DELETE", "PATCH"])
        return Starlette(routes=[route, Mount("/", tools)], lifespan=tools.router.lifespan_context)

    def query(self, sql: str) -> CallToolResult:
        """Run a query."""
        key, (sample, count) = str(uuid4()), (self.rows(f"{sql} LIMIT 10"), len(self.rows(sql)))
        self.queries[key] = sql
        content = {
            "results": sample,
            "resource": {
                "uri": f"resource://{key}",
                "url": f"{self.origin}/resources/{key}",
                "name": "Query Results",
            },
            "metadata": {
                "total_count": count,
                "sample_count": len(sample),
                "executed_at": "2026-11-28T10:00:00Z",
            },
        }
        return CallToolResult(content=[TextContent(text=str(content))], structured_content=content)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.database.execute(sql)]

    async def answer(self, request: Request) -> Response:
        if request.method == "PATCH":
            return HTMLResponse("<pre>Cannot PATCH</pre>", 404)
        sql = self.queries.get(request.path_params["id"])
        if sql is None:
            return JSONResponse({"error": "not_found", "message": "Resource not found or expired"}, 404)
        if request.method == "DELETE":
            del self.queries[request.path_params["id"]]
            return Response(status_code=204)
        try:
            return JSONResponse(await self.page(sql, request))
        except sqlite3.Error as error:
            return JSONResponse({"error": "query_failed", "message": str(error)}, 500)
        except ValueError:
            return JSONResponse({"error": "bad_request", "message": "Unexpected end of JSON input"}, 400)

    async def page(self, sql: str, request: Request) -> dict[str, Any]:
        total = len(self.rows(sql))
        if request.method == "GET":
            first = re.match(r"-?\d+", request.query_params.get("skip", ""))
            offset, limit = int(first[0]) if first else 0, request.query_params.get("limit", -1)
        else:
            body = await request.json()
            body = body if isinstance(body, dict) else {}
            offset, limit = body.get("offset", 0), body.get("limit", 100)
            sort = body.get("sort")
            if isinstance(sort, dict):
                sql = f"SELECT * FROM ({sql}) ORDER BY {sort['field']} {sort.get('order', 'asc')}"
        rows = self.rows(f"SELECT * FROM ({sql}) LIMIT {limit} OFFSET {offset}")
        begin = {"skip" if request.method == "GET" else "offset": offset}
        has_next = int(offset) + len(rows) < total
        return {
            "data": rows,
            "total_count": total,
            "returned_count": len(rows),
            "has_next": has_next,
            **begin,
        }


async def test_its_differences_are_those_of_the_document() -> None:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.row_factory = sqlite3.Row
    database.execute(
        "CREATE TABLE standard_rows (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, score INTEGER)"
    )
    rows = [dict(standard_row(number)) for number in range(1, 101)]
    database.executemany("INSERT INTO standard_rows VALUES (:id, :name, :kind, :score)", rows)
    with listening_socket() as bound:
        reference = Reference(origin_of(bound), database)
        async with serving(reference.application(), bound):
            outcomes = await check_server(Target(f"{reference.origin}/mcp", "query", {"sql": SQL}))
    database.close()
    assert reference.queries == {}, "the run left results behind"
    text = DOCUMENT.read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\d+\.\d+) \| (MUST|SHOULD) \|", text, re.MULTILINE))
    failed = {each.sentence.number: each.sentence.level for each in outcomes if each.verdict == "failed"}
    assert failed == listed, report(outcomes)
    assert list(listed.values()).count("MUST") == 5
    assert not is_conforming(outcomes)
    parts = {each.sentence.part for each in outcomes if each.verdict == "not offered"}
    assert {"discovery", "metadata", "streams", "identity"} <= parts
