"""Servers of the standard: the required part; all parts, where a `fault` violates the sentence of that number."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from mcp.server import MCPServer
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from dualsql.conformance.rows_server import (
    COLUMNS,
    LARGEST_PAGE,
    PAGE_SIZE,
    Keys,
    RefusalError,
    RowsResource,
    RowsServer,
)
from dualsql.conformance.standard import Row, standard

TOKENS = {"token-of-ana": "ana", "token-of-bob": "bob"}
DESCRIBED = [
    {"name": name, "type": "number" if name in ("id", "score") else "string", "encoding": encoding}
    for name, encoding in zip(COLUMNS, ("integer", "text", "text", "integer"), strict=True)
]
_MISSING = "There is no such resource."


class RequiredServer(RowsServer):
    """A server with the required part."""

    def application(self) -> Starlette:
        """MCP at /mcp, the results at /resources."""
        tools = self.tools().streamable_http_app(stateless_http=True)
        return Starlette(routes=[*self.routes(), Mount("/", tools)], lifespan=tools.router.lifespan_context)

    def tools(self) -> MCPServer[Any]:
        """The MCP server, with the documented tool."""
        server: MCPServer[Any] = MCPServer("standard", extensions=self.extensions())

        @server.tool(name=str(standard()["tool"]["name"]))
        def rows_of_the_standard(
            ctx: Context[Any, Any], rows: int = 23, lifetime: float = 900
        ) -> CallToolResult:
            return CallToolResult.model_validate(self.called(ctx, rows, timedelta(seconds=lifetime)))

        return server

    def extensions(self) -> list[Extension]:
        return []

    def called(self, context: Context[Any, Any], rows: int, lifetime: timedelta) -> dict[str, Any]:
        """The answer to a call of the tool."""
        if 0 <= rows <= LARGEST_PAGE:
            return self.tool_result(self.create(rows, lifetime))
        problem = {"code": "BAD_PARAMETER", "message": "rows is 0 to 1000.", "hint": "Give fewer."}
        text = {"type": "text", "text": "BAD_PARAMETER: rows is 0 to 1000. Give fewer."}
        return {"content": [text], "structuredContent": {"error": problem}, "isError": True}


@dataclass
class Mutant(RequiredServer):
    """A server with all parts that is correct without a fault."""

    fault: str = ""
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def is_at(self, *numbers: str) -> bool:
        """Whether it violates one of these sentences."""
        return self.fault in numbers

    # The tool.

    def service(self) -> dict[str, Any]:
        named = {} if self.is_at("7.1") else {"baseUrl": f"{self.origin}/resources"}
        return {**named, "version": 2 if self.is_at("7.2") else 1, "parts": list(standard()["optional"])}

    def extensions(self) -> list[Extension]:
        entry = self.service()
        if self.is_at("7.3"):
            del entry["parts"]
        members = {"identifier": standard()["extension"], "settings": lambda _: entry}
        return [type("Announced", (Extension,), members)()]

    def routes(self) -> list[Route]:
        return [
            Route(f"/resources{standard()['well_known']}", self.answering(self.well_known)),
            Route("/resources/{id}/rows", self.answering(self.stream)),
            Route("/resources/{id}/pin", self.answering(self.unpin), methods=["DELETE"]),
            *super().routes(),
        ]

    def called(self, context: Context[Any, Any], rows: int, lifetime: timedelta) -> dict[str, Any]:
        result = super().called(context, rows, lifetime)
        if result["isError"]:
            result["isError"] = not self.is_at("2.8")
            if self.is_at("16.2"):
                del result["structuredContent"]
            return result
        request, content = context.request_context.request, result["structuredContent"]
        resource = self.resources[content["resource"]["url"].rstrip("/").rpartition("/")[2].partition("?")[0]]
        resource.owner = self.caller(request) if isinstance(request, Request) else None
        capabilities = context.session.client_capabilities
        is_declared = capabilities and standard()["extension"] in (capabilities.extensions or {})
        if self.is_at("7.4") and is_declared:
            content["more"] = True
        return result

    def create(self, rows: int, lifetime: timedelta = timedelta(minutes=15)) -> RowsResource:
        resource = super().create(rows, lifetime)
        if self.is_at("5.5"):
            resource.expires_at = None
        if self.is_at("3.4"):
            del self.resources[resource.id]
            resource.id = f"resource-number-{len(self.resources):08}"
            self.resources[resource.id] = resource
        return resource

    def tool_result(self, resource: RowsResource) -> dict[str, Any]:
        result = super().tool_result(resource)
        content = result["structuredContent"]
        link, metadata = content["resource"], content["metadata"]
        metadata |= {"total_count_kind": "exact", "columns": DESCRIBED}
        if self.is_at("2.6"):
            content["results"] = resource.rows
            metadata["sample_count"] = resource.count
        metadata["total_count"] += self.is_at("2.3")
        metadata["sample_count"] += self.is_at("2.4")
        if self.is_at("2.7"):
            metadata["expires_at"] = metadata["expires_at"].removesuffix("+00:00")
        link["uri"] = link["url"] if self.is_at("3.1") else link["uri"]
        link["url"] += {"3.2": "/", "3.3": "?token=8f2c"}.get(self.fault, "")
        if self.is_at("2.2"):
            content["results"].reverse()
        if self.is_at("2.1"):
            del content["metadata"]
        if self.is_at("2.5"):
            result["content"][0]["text"] = "It is done."
        if self.is_at("2.9"):
            result["content"].append({"type": "resource_link", "uri": link["url"], "name": "Rows"})
        return result

    # Requests.

    def answering(self, endpoint: Any) -> Any:
        answered = super().answering(endpoint)

        async def answer(request: Request) -> Response:
            response: Response = await answered(request)
            if self.is_at("5.7"):
                del response.headers["Cache-Control"]
            return response

        return answer

    def answer_error(self, error: RefusalError) -> Response:
        body = {"error": error.code.lower(), "message": error.message, "code": error.code, "hint": "Read on."}
        if self.is_at("6.1"):
            body = {"detail": error.message}
        if self.is_at("6.2"):
            body["message"] = 'sqlite3.OperationalError: near "LIMIT": syntax error'
        if self.is_at("16.1"):
            del body["hint"]
        headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "GET, POST, PUT, DELETE"}}
        status = 404 if self.is_at("5.6") and error.status == 405 else error.status
        return JSONResponse(body, status, headers.get(status, {}))

    def caller(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme and token not in TOKENS and not self.is_at("17.3"):
            raise RefusalError(401, "UNAUTHENTICATED", "The token is not valid.")
        return TOKENS.get(token)

    def open(self, request: Request) -> RowsResource:
        caller, resource = self.caller(request), self.resources.get(request.path_params["id"])
        is_stream, is_put = request.url.path.endswith("/rows"), request.method == "PUT"
        lenient = "14.6" if is_stream else "9.4" if is_put else "5.1"
        if resource is None and self.is_at(lenient):
            return RowsResource("", 0, None, datetime.now(UTC), timedelta(), None)
        if resource is not None and resource.owner not in (None, caller):
            if self.is_at("17.4") and request.method == "DELETE":
                resource.is_deleted = True
            if not (self.is_at("17.2") and caller is None):
                raise RefusalError(403 if self.is_at("17.1") else 404, "NOT_FOUND", _MISSING)
        if resource is not None and (self.is_at("5.3") or (self.is_at("5.4") and not resource.is_deleted)):
            return resource
        return super().open(request)

    async def answer(self, request: Request) -> Response:
        if request.method == "PUT":
            return self.pin(self.open(request))
        if request.method == "GET" and not request.query_params and not self.is_at("8.1"):
            return JSONResponse(self.description(self.open(request)))
        response = await super().answer(request)
        if self.is_at("5.2") and request.method == "DELETE":
            return JSONResponse({"deleted": True})
        return response

    async def body(self, request: Request) -> dict[str, Any]:
        if self.is_at("4.17") and (await request.body()).strip()[-1:] != b"}":
            return {}
        body = await super().body(request)
        if self.is_at("4.9") and not body:
            raise RefusalError(400, "BAD_PARAMETER", "limit is required.")
        return body

    def query(self, request: Request) -> dict[str, Any]:
        values = super().query(request)
        return (
            {**values, "offset": values["offset"] * values.get("limit", 1)} if self.is_at("4.2") else values
        )

    def refuse_unknown(self, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
        if self.is_at("4.18"):
            values = {name: value for name, value in values.items() if name in names}
        return super().refuse_unknown(values, names | {"cursor"})

    # Pages.

    def whole(self, values: Mapping[str, Any], name: str, default: int) -> int:
        try:
            return super().whole(values, name, default)
        except RefusalError:
            if self.is_at("4.16"):
                return default
            raise

    def keys(self, sort: Any) -> Keys:
        keys = sort if isinstance(sort, list) else [] if sort is None else [sort]
        if self.is_at("4.15"):
            keys = [key for key in keys if key.get("field") in COLUMNS]
        checked = [key for each in keys for key in super(Mutant, self).keys(each)]
        if len({key["field"] for key in checked}) < len(checked) and not self.is_at("11.2"):
            raise RefusalError(400, "BAD_PARAMETER", "A column is named twice.")
        return checked[:1] if self.is_at("11.1") else checked

    def in_order(self, rows: list[Row], keys: Keys) -> list[Row]:
        ordered = super().in_order(rows, keys)
        if not keys or not self.is_at("4.13", "4.14"):
            return ordered
        name = keys[0]["field"]
        empty = [row for row in ordered if row[name] is None]
        complete = [row for row in ordered if row[name] is not None]
        middle = len(complete) // 2 if self.is_at("4.13") else 0
        return [*complete[:middle], *empty, *complete[middle:]]

    def page(self, resource: RowsResource, wanted: Mapping[str, Any], start: str) -> dict[str, Any]:
        limit = self.whole(wanted, "limit", PAGE_SIZE)
        if "cursor" in wanted:
            wanted = {**wanted, "offset": self.position(resource, wanted)}
        if self.is_at("4.10") and limit > LARGEST_PAGE:
            raise RefusalError(500, "INTERNAL", "It is too much.")
        offset = self.whole(wanted, "offset", 0)
        if self.is_at("4.8") and offset >= max(1, resource.count):
            raise RefusalError(404, "NOT_FOUND", "There is no such page.")
        page = super().page(resource, {**wanted, "sort": None} if self.is_at("4.11") else wanted, start)
        self.damage(page, resource, wanted, limit)
        page |= {
            "total_count_kind": "none" if self.is_at("12.2") else "exact",
            **({"order": "total"} if isinstance(wanted.get("sort"), list) else {}),
            "columns": DESCRIBED[::-1] if self.is_at("13.1") else DESCRIBED,
            "next_cursor": self.cursor(resource, wanted, offset + len(page["data"]))
            if page["has_next"] or self.is_at("10.1")
            else None,
            "previous_cursor": self.cursor(
                resource, wanted, offset if self.is_at("10.4") else max(0, offset - limit)
            )
            if offset
            else None,
        }
        if self.is_at("13.2"):
            page["columns"] = [{**each, "encoding": "text"} for each in DESCRIBED]
        if self.is_at("12.1"):
            del page["total_count_kind"]
        page[start] = 0 if self.is_at("4.4") else page[start]
        return page

    def damage(
        self, page: dict[str, Any], resource: RowsResource, wanted: Mapping[str, Any], limit: int
    ) -> None:
        """Violate a sentence in the rows and counts of a page."""
        offset, keys = wanted.get("offset", 0), self.keys(wanted.get("sort"))
        if self.is_at("4.1") and limit > 1:
            page["data"].pop()
        if self.is_at("4.7") and offset:
            page["data"] = resource.rows[offset - 1 : offset - 1 + limit]
        if self.is_at("4.11"):
            page["data"] = self.in_order(page["data"], keys)
        if self.is_at("4.12") and keys and offset // max(1, limit) % 2:
            page["data"] = self.in_order(resource.rows[::-1], keys)[offset : offset + limit]
        counts = {"4.3": ("returned_count", limit), "4.6": ("total_count", len(page["data"]))}
        counts["4.5"] = ("has_next", len(page["data"]) == limit)
        if self.fault in counts:
            name, value = counts[self.fault]
            page[name] = value

    # Cursors.

    def seal(self, *parts: object) -> str:
        return hmac.new(self._key, json.dumps(parts).encode(), sha256).hexdigest()[:32]

    def cursor(self, resource: RowsResource, wanted: Mapping[str, Any], offset: int) -> str:
        identity = "" if self.is_at("10.7") else resource.id
        return f"{offset}.{self.seal(identity, '' if self.is_at('10.6') else wanted.get('sort'), offset)}"

    def position(self, resource: RowsResource, wanted: Mapping[str, Any]) -> int:
        if "offset" in wanted and not self.is_at("10.8"):
            raise RefusalError(400, "BAD_PARAMETER", "A page begins at a cursor or at an offset.")
        cursor = str(wanted["cursor"])
        number = cursor.partition(".")[0]
        offset = int(number) if number.isdecimal() else -1
        if not hmac.compare_digest(cursor, self.cursor(resource, wanted, offset)):
            if self.is_at("10.5"):
                return 0
            raise RefusalError(400, "BAD_CURSOR", "The cursor is not of this result and sort.")
        is_skewed = self.is_at("10.2") or (self.is_at("10.3") and wanted.get("sort") is not None)
        return offset + is_skewed

    # Metadata, pins, streams.

    async def well_known(self, _: Request) -> Response:
        return JSONResponse(self.service())

    def description(self, resource: RowsResource) -> dict[str, Any]:
        is_pinned = resource.expires_at is None and not self.is_at("9.2", "5.5")
        until = resource.expires_at
        if until is not None and self.is_at("8.4"):
            until += timedelta(hours=1)
        return {
            "status": "done" if self.is_at("8.3") else "pinned" if is_pinned else "ready",
            "total_count": resource.count + self.is_at("8.2"),
            "columns": DESCRIBED,
            "created_at": resource.created_at.isoformat(),
            "expires_at": until and until.isoformat(),
        }

    def pin(self, resource: RowsResource) -> Response:
        resource.expires_at = None
        return JSONResponse({"ok": True} if self.is_at("9.1") else {"status": "pinned", "expires_at": None})

    async def unpin(self, request: Request) -> Response:
        resource = self.open(request)
        until = resource.expires_at = datetime.now(UTC) + resource.lifetime
        if self.is_at("9.3"):
            return Response(status_code=204)
        return JSONResponse({"status": "ready", "expires_at": until.isoformat()})

    async def stream(self, request: Request) -> Response:
        resource, query = self.open(request), dict(request.query_params)
        try:
            keys = self.stream_keys(query)
        except RefusalError:
            if self.is_at("14.4"):
                return Response(b"", media_type="application/x-ndjson")
            raise
        rows = self.in_order(resource.rows, [] if self.is_at("14.3") else keys)
        rows = rows[: self.whole({"limit": int(query["limit"])}, "limit", 0)] if "limit" in query else rows
        lines = [json.dumps(row).encode() + b"\n" for row in rows]
        request_names = {
            name: value for name, value in query.items() if name not in ("resume", "after", "last")
        }
        token = self.seal(resource.id, request_names)
        after = self.resumed(query, token, lines)
        if not self.is_at("14.2"):
            lines.append(json.dumps({"$summary": {"rows": len(rows), "complete": True}}).encode() + b"\n")
        kind = "application/json" if self.is_at("14.1") else "application/x-ndjson"
        headers = {} if self.is_at("15.1") else {"Dualsql-Resume": token}
        return Response(b"".join(lines[after:]), media_type=kind, headers=headers)

    def stream_keys(self, query: Mapping[str, str]) -> Keys:
        if query.get("format", "ndjson") != "ndjson":
            raise RefusalError(406, "NOT_ACCEPTABLE", "There is ndjson.")
        names = query["sort"].split(",") if query.get("sort") else []
        return self.keys(
            [
                {"field": name.lstrip("-"), "order": "desc" if name.startswith("-") else "asc"}
                for name in names
            ]
        )

    def resumed(self, query: Mapping[str, str], token: str, lines: Sequence[bytes]) -> int:
        if "resume" not in query:
            return 0
        if query["resume"] != token and not self.is_at("15.4"):
            raise RefusalError(400, "BAD_CURSOR", "The token is not of this stream.")
        after = int(query.get("after", "0"))
        last = query.get("last") if after and not self.is_at("15.3") else None
        if after > len(lines) or last not in (None, sha256(lines[after - 1].rstrip(b"\n")).hexdigest()[:32]):
            raise RefusalError(409, "RESULT_CHANGED", "The last row is another one now.")
        return after + (self.is_at("15.2") and after > 0)
