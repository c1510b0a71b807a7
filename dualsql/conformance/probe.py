"""One server under test: calls of its tool, requests to its results, and what both were answered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import httpx
import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from dualsql.conformance.standard import Row, schema_of, standard, standard_row

MOST_REQUESTS = 2_000
MOST_BYTES = 8 * 1024 * 1024
"""Of one answer."""
MOST_ROWS = 1_000
"""Of a result whose rows are not those of the documented tool."""
FEWEST_ROWS = 12
SECONDS = 30.0
"""For one request."""
_LONGEST_EXCERPT = 2_000

Caller = Literal["owner", "stranger", "nobody", "wrong"]


class Violation(Exception):  # noqa: N818 - it is what the check found, and no error of the check
    """The server does not do what a sentence says."""


class Untestable(Exception):  # noqa: N818 - as above
    """The sentence cannot be tested with what this server or caller gives."""


def require(condition: object, reason: str) -> None:
    """Raise Violation with the reason unless the condition holds."""
    if not condition:
        raise Violation(reason)


@dataclass(slots=True)
class Target:
    """A server to check.

    Attributes:
        url: of its MCP endpoint.
        tool, arguments: the call that makes a result; by default that of the documented tool.
        base_url: requests go to addresses below it, whatever a tool result says: they have the tokens. By default it is
            the origin of the endpoint.
        tokens: bearer tokens of the owner of the results and of a stranger.
    """

    url: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    base_url: str = ""
    tokens: Mapping[Caller, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        documented = standard()["tool"]
        self.tool = self.tool or documented["name"]
        if self.is_documented:
            self.arguments = {**documented["arguments"], **self.arguments}

    @property
    def is_documented(self) -> bool:
        """Whether the tool is the documented one, whose rows are known."""
        return bool(self.tool == standard()["tool"]["name"])


@dataclass(frozen=True, slots=True)
class Exchange:
    """The answer to one request."""

    request: str
    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The body as JSON; None for an empty one."""
        if not self.content:
            return None
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise Violation("the body is not JSON") from error

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.content.decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """The request and this answer, for a report."""
        headers = dict(self.headers)
        return {
            "request": self.request,
            "status": self.status,
            "headers": headers,
            "body": self.text[:_LONGEST_EXCERPT],
        }


@dataclass(frozen=True, slots=True)
class ProbedResult:
    """A result of the tool, and where its resource is."""

    structured: Mapping[str, Any]
    text: str
    blocks: Sequence[Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """`metadata` of the structure."""
        metadata = self.structured.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def sample(self) -> Sequence[Row]:
        """`results` of the structure."""
        rows = self.structured.get("results")
        return rows if isinstance(rows, list) else ()

    def link(self, name: Literal["uri", "url"]) -> str:
        """`resource.uri` or `resource.url`."""
        resource = self.structured.get("resource")
        value = resource.get(name) if isinstance(resource, dict) else None
        require(isinstance(value, str), f"the tool result has no resource.{name}")
        return str(value)

    @property
    def id(self) -> str:
        """The last segment of the URL."""
        return self.link("url").rstrip("/").rpartition("/")[2]

    @property
    def base(self) -> str:
        """The URL without the ID."""
        return self.link("url").rstrip("/").rpartition("/")[0]


@dataclass(slots=True)
class Probe:
    """The server under test.

    Attributes:
        schema: of the arguments of the tool.
        last: the last answer, for the report of a failure.
    """

    target: Target
    http: httpx.AsyncClient
    model: Client
    schema: Mapping[str, Any] = field(default_factory=dict)
    last: Exchange | None = None
    _results: list[ProbedResult] = field(default_factory=list)
    _rows: list[Row] | None = None
    _requests: int = 0

    async def call(self, model: Client | None = None, **arguments: Any) -> CallToolResult:
        """A call of the tool as it is; Violation if the SDK refuses the result."""
        self._count()
        tool, arguments = self.target.tool, {**self.target.arguments, **arguments}
        try:
            result = await (model or self.model).call_tool(tool, arguments)
        except MCPError:
            raise
        except (RuntimeError, ValueError) as error:
            raise Violation(f"the MCP SDK refuses the tool result: {error}") from error
        request = f"tools/call {tool} {json.dumps(arguments)}"
        self.last = Exchange(request, 200, {}, result.model_dump_json().encode())
        return result

    async def create(self, model: Client | None = None, **arguments: Any) -> ProbedResult:
        """A new result."""
        result = await self.call(model, **arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise Untestable(f"the call failed: {text[:200].rstrip('.')}")
        structured = result.structured_content
        require(isinstance(structured, dict), "the tool result has no structuredContent")
        created = ProbedResult(structured or {}, text, result.content)
        self._results.append(created)
        return created

    async def shared(self) -> ProbedResult:
        """One result for all checks that do not change it."""
        return self._results[0] if self._results else await self.create()

    async def send(
        self,
        method: str,
        at: str = "",
        *,
        result: ProbedResult | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        text: str | None = None,
        caller: Caller = "owner",
    ) -> Exchange:
        """Send a request to the URL of a result with `at` behind it; `@unknown` stands for one that names nothing."""
        self._count()
        result = result or await self.shared()
        address = self._address(result, at)
        base_url = self.target.base_url or str(httpx.URL(self.target.url).join("/"))
        require(
            is_below(address, base_url),
            f"{address} is not below {base_url}, where requests are sent: see --base-url",
        )
        url = f"{address}{'?' + urlencode(query) if query else ''}"
        content = text if text is not None else None if body is None else json.dumps(body)
        headers = {} if content is None else {"Content-Type": "application/json"}
        token = "not-a-token" if caller == "wrong" else self.target.tokens.get(caller)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = f"{method} {url} {content or ''}".rstrip()
        async with self.http.stream(method, url, content=content, headers=headers) as response:
            received = bytearray()
            async for piece in response.aiter_bytes():
                received += piece
                require(
                    len(received) <= MOST_BYTES, f"the answer to {request} has more than {MOST_BYTES} bytes"
                )
        self.last = Exchange(request, response.status_code, response.headers, bytes(received))
        return self.last

    def _address(self, result: ProbedResult, at: str) -> str:
        if at == "@well-known":
            return result.base + str(standard()["well_known"])
        if at.startswith("@unknown"):
            # The same length and letters as an ID that the server makes.
            return f"{result.base}/{result.id[::-1]}{at.removeprefix('@unknown')}"
        return result.link("url") + at

    def _count(self) -> None:
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            raise Untestable(f"the run has sent {MOST_REQUESTS} requests")

    async def page(
        self, result: ProbedResult | None = None, *, by_get: bool = False, **parameters: Any
    ) -> Mapping[str, Any]:
        """A page; Violation if it is none."""
        if by_get:
            query = {name: str(value) for name, value in parameters.items()}
            answer = await self.send("GET", result=result, query=query)
        else:
            answer = await self.send("POST", result=result, body=parameters)
        require(answer.status == 200, f"a page was answered {answer.status}")
        page: Mapping[str, Any] = self.valid("Page", answer.json())
        return page

    async def walk(
        self, size: int = 4, *, by_get: bool = False, by_cursor: bool = False, **sort: Any
    ) -> list[Row]:
        """All rows, by at most 50 pages of `size` rows or more; a row more than there may be ends it."""
        rows: list[Row] = []
        cursor: Any = None
        most = MOST_ROWS if self._rows is None else len(self._rows)
        size = max(size, most // 50)
        while True:
            start = {"cursor": cursor} if cursor else {"skip" if by_get else "offset": len(rows)}
            page = await self.page(by_get=by_get, **start, limit=size, **sort)
            rows += page["data"]
            if not page["has_next"] or not page["data"] or len(rows) > most:
                return rows
            cursor = page.get("next_cursor") if by_cursor else None
            require(cursor or not by_cursor, "a page that is followed by rows has no next_cursor")

    async def rows(self) -> list[Row]:
        """The rows of the shared result: those of the documented tool, or what one large page says."""
        if self._rows is None:
            numbers = range(1, self.target.arguments["rows"] + 1) if self.target.is_documented else None
            rows = await self.walk(MOST_ROWS) if numbers is None else list(map(standard_row, numbers))
            if not FEWEST_ROWS <= len(rows) <= MOST_ROWS:
                raise Untestable(f"the tool must return {FEWEST_ROWS} to {MOST_ROWS} rows")
            self._rows = rows
        return self._rows

    async def numbers(self) -> list[str]:
        """The columns of numbers and NULLs, those with equal values first."""
        rows = await self.rows()
        columns = [
            name
            for name in rows[0]
            if all(row[name] is None or type(row[name]) in (int, float) for row in rows)
            and any(row[name] is not None for row in rows)
        ]
        if not columns:
            raise Untestable("no column of the result has numbers")
        return sorted(columns, key=lambda name: len({row[name] for row in rows}))

    async def service(self) -> Mapping[str, Any]:
        """The well-known document; empty where there is none."""
        answer = await self.send("GET", "@well-known")
        document = answer.json() if answer.status == 200 else None
        return document if isinstance(document, dict) else {}

    def valid(self, shape: str, value: Any) -> Any:
        """The value, if it is as the shape's JSON Schema says."""
        for fault in Draft202012Validator(schema_of(shape)).iter_errors(value):
            where = "/".join(map(str, fault.absolute_path)) or shape
            raise Violation(f"{where}: {fault.message[:200]}")
        return value

    async def clean(self) -> None:
        """Delete the results of this run, also of a run that was stopped at its bound."""
        self._requests = 0
        for result in self._results:
            try:
                await self.send("DELETE", result=result)
            except (httpx.HTTPError, Violation, Untestable):
                continue


def is_below(address: str, base_url: str) -> bool:
    """Whether an address is at the origin of `base_url`, in its folder."""
    try:
        one, base = httpx.URL(address), httpx.URL(base_url)
    except httpx.InvalidURL:
        return False
    is_same = (one.scheme, one.host, one.port) == (base.scheme, base.host, base.port)
    folder = base.path.rstrip("/") + "/"
    return is_same and not one.userinfo and ".." not in one.path and one.path.startswith(folder)


@asynccontextmanager
async def connected(target: Target, extensions: Sequence[Any] = ()) -> AsyncIterator[Client]:
    """A client of the MCP endpoint, for the owner of the results.

    Raises:
        ConnectionError: the endpoint answers with an HTTP error.
    """
    token, status, is_open = target.tokens.get("owner"), 0, False

    async def note_status(response: httpx2.Response) -> None:
        nonlocal status
        status = response.status_code

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    hooks = {"response": [note_status]}
    try:
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, event_hooks=hooks) as http:
            transport = streamable_http_client(target.url, http_client=http)
            async with Client(
                transport, read_timeout_seconds=SECONDS, extensions=extensions or None
            ) as client:
                is_open = True
                yield client
    except (MCPError, BaseExceptionGroup) as error:
        if status >= 400 and not is_open:
            raise ConnectionError(f"it answers {status}") from error
        # The SDK makes a group of whatever is raised in the block.
        raise _first(error) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def probing(target: Target) -> AsyncIterator[Probe]:
    """A probe of a server; what it made is deleted at the end."""
    async with (
        httpx.AsyncClient(timeout=SECONDS, follow_redirects=False) as http,
        connected(target) as model,
    ):
        schemas = {each.name: each.input_schema for each in (await model.list_tools()).tools}
        if target.tool not in schemas:
            names = ", ".join(schemas) or "none"
            raise Untestable(f"the server has no tool {target.tool!r}; it has {names}")
        probe = Probe(target, http, model, schemas[target.tool])
        try:
            yield probe
        finally:
            await probe.clean()
