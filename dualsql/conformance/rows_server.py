"""A server with the required part over rows in memory; with a `behaviour`, one that is difficult for clients."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from dualsql.conformance.standard import Row, standard_row

_METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH"]
COLUMNS = tuple(standard_row(1))
PAGE_SIZE, LARGEST_PAGE, SAMPLE = 100, 1_000, 5
Keys = Sequence[Mapping[str, Any]]


class RefusalError(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(slots=True)
class RowsResource:
    """A result: the first `count` rows."""

    id: str
    count: int
    owner: str | None
    created_at: datetime
    lifetime: timedelta
    expires_at: datetime | None
    is_deleted: bool = False

    @property
    def rows(self) -> list[Row]:
        """All its rows."""
        return [standard_row(number) for number in range(1, self.count + 1)]


@dataclass
class RowsServer:
    """A server at `origin`.

    Attributes:
        behaviour: how it behaves, by the names of standard.json.
        elsewhere: the origin that it redirects to.
        requests: those for resources, as method and path.
    """

    origin: str
    behaviour: str = ""
    elsewhere: str = ""
    resources: dict[str, RowsResource] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def routes(self) -> list[Route]:
        """The routes of results."""
        return [Route("/resources/{id}", self.answering(self.answer), methods=_METHODS)]

    def create(self, rows: int, lifetime: timedelta = timedelta(minutes=15)) -> RowsResource:
        """A new resource."""
        now, name = datetime.now(UTC), secrets.token_urlsafe(21)
        return self.resources.setdefault(name, RowsResource(name, rows, None, now, lifetime, now + lifetime))

    def tool_result(self, resource: RowsResource) -> dict[str, Any]:
        """The tool result for a resource."""
        sample, uri = resource.rows[:SAMPLE], f"resource://{resource.id}"
        text = f"{resource.count} rows, the first {len(sample)}: {json.dumps(sample)}. All rows: {uri}"
        structured = {
            "results": sample,
            "resource": {
                "uri": uri,
                "url": f"{self.origin}/resources/{resource.id}",
                "name": "Rows",
                "mimeType": "application/json",
            },
            "metadata": {
                "total_count": resource.count,
                "sample_count": len(sample),
                "executed_at": resource.created_at.isoformat(),
                "expires_at": resource.expires_at and resource.expires_at.isoformat(),
            },
        }
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": structured,
            "isError": False,
        }

    def answering(self, endpoint: Any) -> Any:
        """The endpoint, with each refusal turned into an answer."""

        async def answer(request: Request) -> Response:
            self.requests.append(f"{request.method} {request.url.path}")
            try:
                response: Response = await endpoint(request)
            except RefusalError as error:
                response = self.answer_error(error)
            response.headers["Cache-Control"] = "no-store"
            return response

        return answer

    def answer_error(self, error: RefusalError) -> Response:
        """The answer for an error."""
        headers = {"Allow": "GET, POST, DELETE"} if error.status == 405 else {}
        body = {"error": error.code.lower(), "message": error.message}
        return JSONResponse(body, error.status, headers)

    def open(self, request: Request) -> RowsResource:
        """The resource of a path."""
        resource = self.resources.get(request.path_params["id"])
        if resource is None or resource.is_deleted or self.behaviour == "gone":
            raise RefusalError(404, "NOT_FOUND", "There is no such resource.")
        if resource.expires_at is not None and resource.expires_at < datetime.now(UTC):
            raise RefusalError(410, "EXPIRED", "The resource has expired.")
        return resource

    async def answer(self, request: Request) -> Response:
        """The answer to a request for a resource."""
        if self.behaviour == "redirect":
            return RedirectResponse(f"{self.elsewhere}{request.url.path}", 307)
        if request.method not in ("GET", "POST", "DELETE") or (
            self.behaviour == "get_only" and request.method != "GET"
        ):
            raise RefusalError(405, "METHOD_NOT_ALLOWED", f"There is no {request.method} here.")
        resource = self.open(request)
        if request.method == "DELETE":
            resource.is_deleted = True
            return Response(status_code=204)
        is_get = request.method == "GET"
        parameters = self.query(request) if is_get else await self.body(request)
        return JSONResponse(self.page(resource, parameters, "skip" if is_get else "offset"))

    async def body(self, request: Request) -> dict[str, Any]:
        """The values of a body."""
        try:
            body = json.loads(await request.body())
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise RefusalError(400, "BAD_BODY", "The body is no JSON object.")
        return self.refuse_unknown(body, {"offset", "limit", "sort"})

    def query(self, request: Request) -> dict[str, Any]:
        """The values of a query, with the offset by one name."""
        query = self.refuse_unknown(dict(request.query_params), {"skip", "limit"})
        values = {name: int(text) if text.isdecimal() else text for name, text in query.items()}
        return {**values, "offset": values.get("skip", 0)}

    def refuse_unknown(self, values: dict[str, Any], names: set[str]) -> dict[str, Any]:
        """The values, whose names must be among `names`."""
        if unknown := values.keys() - names:
            raise RefusalError(400, "BAD_PARAMETER", f"There is no {min(unknown)}.")
        return values

    def whole(self, values: Mapping[str, Any], name: str, default: int) -> int:
        """A number of rows."""
        value = values.get(name, default)
        if type(value) is not int or value < 0:
            raise RefusalError(400, "BAD_PARAMETER", f"{name} is a whole number from 0 on.")
        return value

    def keys(self, sort: Any) -> Keys:
        """The keys of a sort."""
        keys = [] if sort is None else [sort]
        for key in keys:
            if not isinstance(key, dict) or key.get("field") not in COLUMNS:
                raise RefusalError(422, "UNKNOWN_COLUMN", "A sort names a column of the result.")
        return keys

    def in_order(self, rows: list[Row], keys: Keys) -> list[Row]:
        """The rows in the order of these keys, NULLs last."""
        for key in reversed(keys):
            name, is_down = key["field"], key.get("order") == "desc"
            complete = [row for row in rows if row[name] is not None]
            complete.sort(key=lambda row: row[name], reverse=is_down)
            rows = [*complete, *(row for row in rows if row[name] is None)]
        return rows

    def page(self, resource: RowsResource, parameters: Mapping[str, Any], start: str) -> dict[str, Any]:
        """A page, which has its offset under the name `start`."""
        limit = min(
            self.whole(parameters, "limit", PAGE_SIZE), 3 if self.behaviour == "small_pages" else LARGEST_PAGE
        )
        offset = self.whole(parameters, "offset", 0)
        if self.behaviour == "broken" and offset:
            raise RefusalError(500, "QUERY_FAILED", "The database is gone.")
        if self.behaviour == "shifted" and offset:
            offset -= 1
        data = self.in_order(resource.rows, self.keys(parameters.get("sort")))[offset : offset + limit]
        return {
            "data": data,
            "returned_count": len(data),
            "total_count": None if self.behaviour == "no_total" else resource.count,
            "has_next": offset + len(data) < resource.count or self.behaviour == "endless",
            start: offset,
            **({"flavour": {"of": "vanilla"}} if self.behaviour == "more" else {}),
        }
