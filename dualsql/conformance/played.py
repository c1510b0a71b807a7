"""A server with all parts of the standard over rows in memory; with a `fault`, one that violates a sentence.

The tests run the checks against each fault. `clients` plays it, with other faults, to a client.
"""

from __future__ import annotations

import asyncio
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
from mcp_types import CallToolResult, ResourceLink, TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from dualsql.conformance.standard import Row, optional_parts, standard, standard_row

TOKENS = {"token-of-ana": "ana", "token-of-bob": "bob"}
COLUMNS = [
    {"name": "id", "type": "number", "encoding": "integer"},
    {"name": "name", "type": "string", "encoding": "text"},
    {"name": "kind", "type": "string", "encoding": "text"},
    {"name": "score", "type": "number", "encoding": "integer"},
]
_NAMES = {str(column["name"]) for column in COLUMNS}
_PAGE_SIZE, _LARGEST_PAGE, _SAMPLE = 100, 1_000, 5
Keys = Sequence[Mapping[str, Any]]


class RefusalError(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(slots=True)
class PlayedResource:
    """A result: the first `count` rows."""

    id: str
    count: int
    owner: str | None
    created_at: datetime
    lifetime: timedelta
    expires_at: datetime | None
    is_deleted: bool = False


@dataclass(slots=True)
class Played:
    """A server at `origin`.

    Attributes:
        fault: the number of the sentence that it violates, or a `play` of standard.json.
        has_parts: it has the optional parts, too.
        elsewhere: the origin that it redirects to.
    """

    origin: str
    fault: str = ""
    has_parts: bool = True
    elsewhere: str = ""
    resources: dict[str, PlayedResource] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def application(self) -> Starlette:
        """MCP at /mcp, the results at /resources."""
        tools = self._tools().streamable_http_app(stateless_http=True)
        optional = [
            Route(f"/resources{standard()['well_known']}", self._answering(self._well_known)),
            Route("/resources/{id}/rows", self._answering(self._stream)),
            Route("/resources/{id}/pin", self._answering(self._unpin), methods=["DELETE"]),
        ]
        methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
        routes = [
            *(optional if self.has_parts else ()),
            Route("/resources/{id}", self._answering(self._resource), methods=methods),
            Mount("/", tools),
        ]
        return Starlette(routes=routes, lifespan=tools.router.lifespan_context)

    # The tool.

    def _tools(self) -> MCPServer[Any]:
        settings = self._service()
        if self.fault == "7.3":
            del settings["parts"]
        announced = type(
            "Announced", (Extension,), {"identifier": standard()["extension"], "settings": lambda _: settings}
        )
        server: MCPServer[Any] = MCPServer("standard", extensions=[announced()] if self.has_parts else [])

        @server.tool(name=str(standard()["tool"]["name"]))
        def rows_of_the_standard(
            ctx: Context[Any, Any], rows: int = 23, lifetime: float = 900
        ) -> CallToolResult:
            request = ctx.request_context.request
            owner = self._caller(request) if isinstance(request, Request) else None
            if not 0 <= rows <= _LARGEST_PAGE:
                return self._failed()
            capabilities = ctx.session.client_capabilities
            is_declared = bool(capabilities and standard()["extension"] in (capabilities.extensions or {}))
            return self.tool_result(rows, owner, timedelta(seconds=lifetime), is_declared=is_declared)

        return server

    def _failed(self) -> CallToolResult:
        problem = {
            "code": "BAD_PARAMETER",
            "message": "rows is 0 to 1000.",
            "hint": "Give fewer.",
            "details": {},
        }
        return CallToolResult(
            content=[TextContent(text="BAD_PARAMETER: rows is 0 to 1000. Give fewer.")],
            structured_content=None if self.fault == "16.2" else {"error": problem},
            is_error=self.fault != "2.8",
        )

    def tool_result(
        self,
        rows: int = 23,
        owner: str | None = None,
        lifetime: timedelta = timedelta(minutes=15),
        *,
        is_declared: bool = False,
    ) -> CallToolResult:
        """The result of a call, whose resource is kept."""
        resource = self._create(rows, owner, lifetime)
        shown = self.rows(resource)[: None if self.fault == "2.6" else _SAMPLE]
        structured = self._structured(resource, shown[::-1] if self.fault == "2.2" else shown)
        if self.fault == "2.1":
            del structured["metadata"]
        if self.fault == "7.4" and is_declared:
            structured["more"] = True
        text = f"{rows} rows, the first {len(shown)}: {json.dumps(shown)}. All rows: resource://{resource.id}"
        blocks: list[Any] = [TextContent(text="It is done." if self.fault == "2.5" else text)]
        if self.fault == "2.9":
            blocks.append(ResourceLink(uri=self._url(resource.id), name="Rows"))
        return CallToolResult(content=blocks, structured_content=structured)

    def _create(self, rows: int, owner: str | None, lifetime: timedelta) -> PlayedResource:
        name = (
            f"resource-number-{len(self.resources):08}" if self.fault == "3.4" else secrets.token_urlsafe(21)
        )
        now = datetime.now(UTC)
        until = None if self.fault == "5.5" else now + lifetime
        self.resources[name] = PlayedResource(name, rows, owner, now, lifetime, until)
        return self.resources[name]

    def _structured(self, resource: PlayedResource, shown: Sequence[Row]) -> dict[str, Any]:
        url = self._url(resource.id)
        expires_at = _text(resource.expires_at)
        is_naive = self.fault == "2.7"
        metadata = {
            "total_count": resource.count + (self.fault == "2.3"),
            "total_count_kind": "exact",
            "sample_count": len(shown) + (self.fault == "2.4"),
            "columns": COLUMNS,
            "executed_at": _text(resource.created_at),
            "expires_at": expires_at.removesuffix("+00:00") if expires_at and is_naive else expires_at,
        }
        link = {
            "uri": url if self.fault == "3.1" else f"resource://{resource.id}",
            "url": {"3.2": f"{url}/", "3.3": f"{url}?token=8f2c"}.get(self.fault, url),
            "name": "Rows",
            "mimeType": "application/json",
        }
        return {"results": list(shown), "resource": link, "metadata": metadata}

    def _url(self, identity: str) -> str:
        return f"{self.origin}/resources/{identity}"

    def rows(self, resource: PlayedResource) -> list[Row]:
        """The rows of a result."""
        return [standard_row(number) for number in range(1, resource.count + 1)]

    # Requests.

    def _answering(self, endpoint: Any) -> Any:
        async def answer(request: Request) -> Response:
            self.requests.append(f"{request.method} {request.url.path}")
            try:
                response: Response = await endpoint(request)
            except RefusalError as error:
                response = self._refused(error)
            if self.fault != "5.7":
                response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    def _refused(self, error: RefusalError) -> Response:
        body = {
            "error": error.code.lower(),
            "message": error.message,
            "code": error.code,
            "hint": "Read the standard.",
        }
        if self.fault == "6.1":
            body = {"detail": error.message}
        if self.fault == "6.2":
            body["message"] = 'sqlite3.OperationalError: near "LIMIT": syntax error'
        if self.fault == "16.1":
            del body["hint"]
        headers = {401: {"WWW-Authenticate": "Bearer"}, 405: {"Allow": "GET, POST, PUT, DELETE"}}
        return JSONResponse(body, error.status, headers.get(error.status, {}))

    def _caller(self, request: Request) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme and token not in TOKENS and self.fault != "17.3":
            raise RefusalError(401, "UNAUTHENTICATED", "The token is not valid.")
        return TOKENS.get(token)

    def _opened(self, request: Request) -> PlayedResource:
        """The resource of a path, for its caller."""
        caller, resource = self._caller(request), self.resources.get(request.path_params["id"])
        if resource is None or (resource.is_deleted and self.fault != "5.3"):
            if resource is None and self._is_lenient(request):
                return PlayedResource("", 0, None, datetime.now(UTC), timedelta(), None)
            raise RefusalError(404, "NOT_FOUND", "There is no such resource.")
        if resource.owner not in (None, caller):
            if self.fault == "17.4" and request.method == "DELETE":
                resource.is_deleted = True
            if not (self.fault == "17.2" and caller is None):
                raise RefusalError(
                    403 if self.fault == "17.1" else 404, "NOT_FOUND", "There is no such resource."
                )
        if (
            resource.expires_at is not None
            and resource.expires_at < datetime.now(UTC)
            and self.fault != "5.4"
        ):
            raise RefusalError(410, "EXPIRED", "The resource has expired.")
        return resource

    def _is_lenient(self, request: Request) -> bool:
        path = request.url.path
        is_stream, is_put = path.endswith("/rows"), request.method == "PUT"
        faults = {"5.1": not is_stream and not is_put, "14.6": is_stream, "9.4": is_put}
        return faults.get(self.fault, False)

    async def _resource(self, request: Request) -> Response:
        if self.fault == "redirect":
            return RedirectResponse(f"{self.elsewhere}{request.url.path}", 307)
        if self.fault == "gone":
            raise RefusalError(404, "NOT_FOUND", "There is no such resource.")
        if self.fault == "get_only" and request.method != "GET":
            raise RefusalError(405, "METHOD_NOT_ALLOWED", "Pages are read by GET.")
        if request.method == "PATCH":
            raise RefusalError(
                404 if self.fault == "5.6" else 405, "METHOD_NOT_ALLOWED", "There is no PATCH."
            )
        resource = self._opened(request)
        if request.method == "DELETE":
            resource.is_deleted = True
            return JSONResponse({"deleted": True}, 200) if self.fault == "5.2" else Response(status_code=204)
        if request.method == "PUT":
            return self._pin(resource)
        if request.method == "GET" and not request.query_params and self.has_parts and self.fault != "8.1":
            return JSONResponse(self._description(resource))
        wanted = await self._body(request) if request.method == "POST" else self._query(request)
        return JSONResponse(self._page(resource, wanted, by_get=request.method == "GET"))

    async def _body(self, request: Request) -> dict[str, Any]:
        try:
            body = json.loads(await request.body())
        except ValueError:
            body = None
        if not isinstance(body, dict):
            if self.fault == "4.17":
                return {}
            raise RefusalError(400, "BAD_BODY", "The body is no JSON object.")
        if self.fault == "4.9" and not body:
            raise RefusalError(400, "BAD_PARAMETER", "limit is required.")
        return self._known(body, {"offset", "limit", "sort", "cursor"})

    def _query(self, request: Request) -> dict[str, Any]:
        query = self._known(dict(request.query_params), {"skip", "offset", "limit"})
        numbers = {name: int(text) if text.isdecimal() else text for name, text in query.items()}
        numbers["offset"] = numbers.pop("skip", numbers.get("offset", 0))
        if self.fault == "4.2":
            numbers["offset"] *= numbers.get("limit", 1)
        return numbers

    def _known(self, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
        unknown = values.keys() - names
        if unknown and self.fault != "4.18":
            raise RefusalError(400, "BAD_PARAMETER", f"There is no {min(unknown)}.")
        return {name: value for name, value in values.items() if name in names}

    # Pages.

    def _whole(self, values: Mapping[str, Any], name: str, default: int) -> int:
        value = values.get(name, default)
        if type(value) is int and value >= 0:
            return value
        if self.fault == "4.16":
            return default
        raise RefusalError(400, "BAD_PARAMETER", f"{name} is a whole number from 0 on.")

    def _keys(self, sort: Any) -> Keys:
        keys = [] if sort is None else sort if isinstance(sort, list) else [sort]
        for key in keys:
            if not isinstance(key, dict) or (key.get("field") not in _NAMES and self.fault != "4.15"):
                raise RefusalError(422, "UNKNOWN_COLUMN", "A sort names a column of the result.")
        names = [key.get("field") for key in keys]
        if len(set(names)) < len(names) and self.fault != "11.2":
            raise RefusalError(400, "BAD_PARAMETER", "A column is named twice.")
        return keys[:1] if self.fault == "11.1" else keys

    def _sorted(self, rows: list[Row], keys: Keys) -> list[Row]:
        for key in reversed([key for key in keys if key.get("field") in _NAMES]):
            name, is_down = key["field"], key.get("order") == "desc"
            known = [row for row in rows if row[name] is not None]
            empty = [row for row in rows if row[name] is None]
            known.sort(key=lambda row: row[name], reverse=is_down)
            middle = {"4.13": len(known) // 2, "4.14": 0}.get(self.fault, len(known))
            rows = [*known[:middle], *empty, *known[middle:]]
        return rows

    def _page(self, resource: PlayedResource, wanted: Mapping[str, Any], *, by_get: bool) -> dict[str, Any]:
        keys, limit = self._keys(wanted.get("sort")), self._whole(wanted, "limit", _PAGE_SIZE)
        offset = self._whole(wanted, "offset", 0)
        if "cursor" in wanted:
            offset = self._position(resource, wanted)
        if self.fault == "4.10" and limit > _LARGEST_PAGE:
            raise RefusalError(500, "INTERNAL", "It is too much.")
        if self.fault == "4.8" and offset >= max(1, resource.count):
            raise RefusalError(404, "NOT_FOUND", "There is no such page.")
        limit = min(3 if self.fault == "small_pages" else limit, _LARGEST_PAGE)
        rows = self.rows(resource)
        if self.fault == "4.12" and keys and offset // max(1, limit) % 2:
            rows.reverse()
        if self.fault == "broken" and offset:
            raise RefusalError(500, "QUERY_FAILED", "The database is gone.")
        if self.fault != "4.11":
            rows = self._sorted(rows, keys)
        begin = offset - 1 if offset and self.fault in ("4.7", "shifted") else offset
        data = rows[begin : begin + max(0, limit - (self.fault == "4.1" and limit > 1 and not by_get))]
        if self.fault == "4.11":
            data = self._sorted(data, keys)
        return self._paged(
            resource, wanted, data, begin if self.fault == "shifted" else offset, limit, by_get=by_get
        )

    def _paged(
        self,
        resource: PlayedResource,
        wanted: Mapping[str, Any],
        data: list[Row],
        offset: int,
        limit: int,
        *,
        by_get: bool,
    ) -> dict[str, Any]:
        has_next = len(data) == limit if self.fault == "4.5" else offset + len(data) < resource.count
        total = {"4.6": len(data), "no_total": None}.get(self.fault, resource.count)
        start = {"skip" if by_get else "offset": 0 if self.fault == "4.4" else offset}
        page: dict[str, Any] = {
            "data": data,
            "returned_count": limit if self.fault == "4.3" else len(data),
            "total_count": total,
            "has_next": has_next or self.fault == "endless",
            **start,
        }
        if not self.has_parts:
            return {**page, "flavour": {"of": "vanilla"}} if self.fault == "more" else page
        after = has_next or self.fault == "10.1"
        columns = [{**each, "encoding": "text"} for each in COLUMNS] if self.fault == "13.2" else COLUMNS
        page |= {
            "total_count_kind": "none" if self.fault == "12.2" else "exact",
            "columns": columns[::-1] if self.fault == "13.1" else columns,
            "next_cursor": self._cursor(resource, wanted, offset + len(data)) if after else None,
            "previous_cursor": self._cursor(resource, wanted, self._before(offset, limit))
            if offset
            else None,
        }
        if self.fault == "12.1":
            del page["total_count_kind"]
        return page

    # Cursors.

    def _before(self, offset: int, limit: int) -> int:
        return offset if self.fault == "10.4" else max(0, offset - limit)

    def _seal(self, *parts: object) -> str:
        return hmac.new(self._key, json.dumps(parts).encode(), sha256).hexdigest()[:32]

    def _cursor(self, resource: PlayedResource, wanted: Mapping[str, Any], offset: int) -> str:
        identity = "" if self.fault == "10.7" else resource.id
        sort = "" if self.fault == "10.6" else wanted.get("sort")
        return f"{offset}.{self._seal(identity, sort, offset)}"

    def _position(self, resource: PlayedResource, wanted: Mapping[str, Any]) -> int:
        if "offset" in wanted and self.fault != "10.8":
            raise RefusalError(400, "BAD_PARAMETER", "A page begins at a cursor or at an offset.")
        cursor = str(wanted["cursor"])
        number = cursor.partition(".")[0]
        offset = int(number) if number.isdecimal() else -1
        if not hmac.compare_digest(cursor, self._cursor(resource, wanted, offset)):
            if self.fault == "10.5":
                return 0
            raise RefusalError(400, "BAD_CURSOR", "The cursor is not of this result and sort.")
        is_skewed = {"10.2": True, "10.3": wanted.get("sort") is not None}.get(self.fault, False)
        return offset + 1 if is_skewed else offset

    # Metadata, pins, streams.

    def _service(self) -> dict[str, Any]:
        named = {} if self.fault == "7.1" else {"baseUrl": f"{self.origin}/resources"}
        return {**named, "version": 2 if self.fault == "7.2" else 1, "parts": list(optional_parts())}

    async def _well_known(self, _: Request) -> Response:
        return JSONResponse(self._service())

    def _description(self, resource: PlayedResource) -> dict[str, Any]:
        is_pinned = resource.expires_at is None and self.fault not in ("9.2", "5.5")
        until = resource.expires_at
        if until is not None and self.fault == "8.4":
            until += timedelta(hours=1)
        return {
            "status": "done" if self.fault == "8.3" else "pinned" if is_pinned else "ready",
            "name": "Rows",
            "uri": f"resource://{resource.id}",
            "total_count": resource.count + (self.fault == "8.2"),
            "total_count_kind": "exact",
            "columns": COLUMNS,
            "created_at": _text(resource.created_at),
            "expires_at": _text(until),
        }

    def _pin(self, resource: PlayedResource) -> Response:
        resource.expires_at = None
        return JSONResponse({"ok": True} if self.fault == "9.1" else {"status": "pinned", "expires_at": None})

    async def _unpin(self, request: Request) -> Response:
        resource = self._opened(request)
        resource.expires_at = datetime.now(UTC) + resource.lifetime
        if self.fault == "9.3":
            return Response(status_code=204)
        return JSONResponse({"status": "ready", "expires_at": _text(resource.expires_at)})

    async def _stream(self, request: Request) -> Response:
        resource, query = self._opened(request), dict(request.query_params)
        try:
            keys = self._stream_keys(query)
        except RefusalError:
            if self.fault == "14.4":
                return Response(b"", media_type="application/x-ndjson")
            raise
        rows = self._sorted(self.rows(resource), [] if self.fault == "14.3" else keys)
        rows = rows[: self._whole({"limit": int(query["limit"])}, "limit", 0)] if "limit" in query else rows
        lines = [json.dumps(row).encode() + b"\n" for row in rows]
        asked = {name: value for name, value in query.items() if name not in ("resume", "after", "last")}
        token = self._seal(resource.id, asked)
        after = self._resumed(query, token, lines)
        if self.fault != "14.2":
            lines.append(json.dumps({"$summary": {"rows": len(rows), "complete": True}}).encode() + b"\n")
        kind = "application/json" if self.fault == "14.1" else "application/x-ndjson"
        headers = {} if self.fault == "15.1" else {"Dualsql-Resume": token}
        return StreamingResponse(_sent(lines[after:]), media_type=kind, headers=headers)

    def _stream_keys(self, query: Mapping[str, str]) -> Keys:
        if query.get("format", "ndjson") != "ndjson":
            raise RefusalError(406, "NOT_ACCEPTABLE", "There is ndjson.")
        names = query["sort"].split(",") if query.get("sort") else []
        return self._keys(
            [
                {"field": name.lstrip("-"), "order": "desc" if name.startswith("-") else "asc"}
                for name in names
            ]
        )

    def _resumed(self, query: Mapping[str, str], token: str, lines: Sequence[bytes]) -> int:
        if "resume" not in query:
            return 0
        if query["resume"] != token and self.fault != "15.4":
            raise RefusalError(400, "BAD_CURSOR", "The token is not of this stream.")
        after = int(query.get("after", "0"))
        last = query.get("last") if after and self.fault != "15.3" else None
        if after > len(lines) or last not in (None, _digest(lines[after - 1])):
            raise RefusalError(409, "RESULT_CHANGED", "The last row is another one now.")
        return after + (self.fault == "15.2" and after > 0)


def _digest(line: bytes) -> str:
    return sha256(line.rstrip(b"\n")).hexdigest()[:32]


async def _sent(lines: Sequence[bytes]) -> Any:
    for line in lines:
        await asyncio.sleep(0)
        yield line


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
