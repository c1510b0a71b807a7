"""The log of requests: one line each, found again by its id, and nothing in it that opens a result or tells a value."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import httpx2
import pytest
from fastmcp import FastMCP
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from sqlalchemy import URL, Select, make_url, select, text
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from dualsql.features import DualResponseServer
from dualsql.identity import AuditEvent
from dualsql.mcp import add_resources
from dualsql.request_log import LogFormatter, RequestIds, RequestLog
from dualsql.store import SQLResourceStore, downgrade, upgrade
from tests.engines import opened
from tests.http.application import ALL, BASE_URL, INSTITUTIONS, METADATA, ROWS, Application, fill, running
from tests.identity.people import ANA, AS_ANA, AS_BOB, Trail, people
from tests.waiting import wait_until_logged

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Log:
    """What a handler wrote, line by line."""

    def __init__(self) -> None:
        self.text, self.json = io.StringIO(), io.StringIO()

    @property
    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()

    @property
    def requests(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.json.getvalue().splitlines()]
        return [line for line in lines if line["logger"] == "dualsql.requests"]


@pytest.fixture
def log() -> Iterator[Log]:
    """All that any logger writes, in both forms."""
    actual, root = Log(), logging.getLogger()
    requests = logging.getLogger("dualsql.requests")
    handlers = [logging.StreamHandler(actual.text), logging.StreamHandler(actual.json)]
    for handler, as_json in zip(handlers, (False, True), strict=True):
        handler.setFormatter(LogFormatter(as_json=as_json))
        root.addHandler(handler)
    requests.setLevel(logging.INFO)
    yield actual
    requests.setLevel(logging.NOTSET)
    for handler in handlers:
        root.removeHandler(handler)


async def raw_request(app: Any, path: str, *headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """The headers of the answer to a request that no client library would send."""
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "path": path, "raw_path": path.encode(),
        "root_path": "", "scheme": "http", "query_string": b"", "server": ("127.0.0.1", 8000),
        "headers": [(b"host", b"127.0.0.1:8000"), *headers],
    }  # fmt: skip
    messages: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    return list(messages[0]["headers"])


@pytest.mark.parametrize(
    "given",
    [
        b"ok\nINFO dualsql.requests: GET / forged", b"a\r\nSet-Cookie: x=1", b"", b" ", b"a b", b"x" * 65, b"-x",
        "ü".encode(), b"\xff", b'a"b', b"a=b", b"a\x00", b"\x1b[31m", b"a\xe2\x80\xa8b",
    ],
)  # fmt: skip
async def test_a_malformed_id_is_replaced(institutions_url: str, given: bytes, log: Log) -> None:
    async with running(institutions_url) as application:
        app = Starlette(routes=[Mount("/resources", application.server.router())])
        answered = await raw_request(app, "/resources/x", (b"x-request-id", given))
    [number] = [value.decode() for name, value in answered if name == b"x-request-id"]
    assert re.fullmatch("[0-9a-f]{16}", number)
    [line] = log.lines
    assert line.endswith(f"request_id={number}") and "forged" not in line
    assert log.requests[0]["request_id"] == number


async def test_an_id_is_accepted_and_two_are_none(institutions_url: str, log: Log) -> None:
    async with running(institutions_url) as application:
        app = Starlette(routes=[Mount("/resources", application.server.router())])
        mine, other = (b"x-request-id", b"3f2c.A_b-9"), (b"x-request-id", b"other")
        assert mine in await raw_request(app, "/resources/x", mine)
        answered = await raw_request(app, "/resources/x", mine, other)
        assert len([name for name, _ in answered if name == b"x-request-id"]) == 1
        assert mine not in answered and other not in answered


async def test_the_body_of_a_404_is_the_same_for_all(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        answers = [
            await application.http.get(f"/resources/{name}", headers={"X-Request-Id": f"id-{name}"})
            for name in ("a", "b")
        ]
        assert answers[0].content == answers[1].content
        assert [answer.headers["x-request-id"] for answer in answers] == ["id-a", "id-b"]


@pytest.mark.parametrize(
    "value",
    ["", "00", TRACEPARENT.upper(), TRACEPARENT + "\n", f"00-{'0' * 32}-00f067aa0ba902b7-01",
     f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-00f067aa0ba902b7-01", None, 7, {"a": 1}],
)  # fmt: skip
def test_a_malformed_trace_is_none(value: object) -> None:
    assert RequestIds.of("mine", value)[:2] == ("mine", "")
    assert RequestIds.of("mine", TRACEPARENT)[:2] == ("mine", TRACE)


async def test_a_line_says_what_was_asked_by_whom_and_how_it_ended(institutions_url: str, log: Log) -> None:
    async with people(institutions_url) as application:
        path = await application.create(principal=ANA)
        headers = {**AS_ANA, "X-Request-Id": "mine", "traceparent": TRACEPARENT}
        page = await application.http.get(f"{path}?limit=7", headers=headers)
        rows = await application.http.get(
            f"{path}/rows?format=csv", headers={**AS_ANA, "Accept-Encoding": "identity"}
        )
        await application.http.get(path, headers=AS_BOB)
        await application.http.get(f"{path}?limit=0", headers=AS_ANA)
        await application.http.get(f"{path}/nonsense")
        await application.http.get(path, headers={"Authorization": "Bearer hunter2"})
    assert len(log.requests) == len(log.lines) == 6
    first, second, foreign, bad, lost, wrong = log.requests
    assert (first["method"], first["route"], first["status"]) == ("GET", "/resources/{resource_id}", 200)
    assert (first["rows"], first["bytes"]) == (7, len(page.content))
    assert (first["request_id"], first["trace_id"]) == ("mine", TRACE)
    assert 0 < first["duration_ms"] < 20_000
    assert (second["route"], second["rows"]) == ("/resources/{resource_id}/rows", len(ROWS))
    assert second["bytes"] == len(rows.content)
    assert (first["lane"], second["lane"]) == ("page_reader", "sqlite_thread")
    assert "lane" not in foreign and "lane" not in bad
    assert first["principal"] == second["principal"] == bad["principal"] != foreign["principal"]
    assert first["resource"] == second["resource"] == foreign["resource"]
    assert (foreign["status"], foreign["code"]) == (404, "RESOURCE_NOT_FOUND")
    assert (bad["status"], bad["code"]) == (400, "BAD_PARAMETER")
    assert (lost["route"], lost["status"], "principal" in lost) == ("-", 404, False)
    assert (wrong["status"], wrong["code"], "principal" in wrong) == (401, "UNAUTHENTICATED", False)


async def test_no_line_holds_what_opens_a_result_or_what_is_in_it(institutions_url: str, log: Log) -> None:
    """Ids, links, tokens, cookies, values, names and paths as sent, in all places where a caller can put them."""
    async with people(institutions_url, signed_links=True, pages=True) as application:
        http = application.http
        path = await application.create(
            select(INSTITUTIONS).where(INSTITUTIONS.c.name > "secret-value"), principal=ANA
        )
        own = path.rpartition("/")[2]
        link = await application.server.links.create(own, ANA)
        token = link.partition("link=")[2]
        forged = "forged%0Aline%0D%E2%80%A8"
        for url in (
            link, f"{link}&limit=1", f"{path}/rows?link={token}", f"{path}?sort=secret-column", f"{path}{forged}",
            f"{path}/{forged}", f"{path}/rows/{own}", f"/resources/{forged}", f"/{own}", f"{path}//rows", f"{path}/",
            f"{path}?link={token}x", f"/resources//{own}/rows", f"{path}/rows?format=secret-format",
            f"{path}/chart?{token}", f"{path}/profile?columns=secret-column",
        ):  # fmt: skip
            for verb in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
                if verb in {"DELETE", "PUT"} and url.partition("?")[0] == path:
                    continue
                for headers in ({}, AS_ANA, {"Cookie": f"dualsql_link={token}"}, {"Accept": "text/html"}):
                    await http.request(verb, url, headers=headers)
        await http.post(
            f"{path}/query", json={"where": [{"field": "name", "value": "secret-value"}]}, headers=AS_ANA
        )
        await http.post(path, content=b"secret-value{", headers=AS_ANA)
    text = log.text.getvalue() + log.json.getvalue()
    assert len(log.requests) > 300
    for secret in (
        own,
        token,
        token[:20],
        "secret-",
        "forged",
        "token-of-ana",
        "acme",
        "Institution 0",
        "link=",
        "?",
    ):
        assert secret not in text, secret
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line) for line in log.lines)


async def test_a_request_that_cannot_be_served_is_one_line_with_its_incident(
    institutions_url: str, sqlite_url: str, log: Log
) -> None:
    """503: a line of the failure with its cause, a line of the request, no traceback."""
    store_url = f"{sqlite_url}.store"
    await asyncio.to_thread(upgrade, store_url)
    options = {
        "store": SQLResourceStore(store_url),
        "secrets": ["a secret of at least thirty-two characters"],
    }
    async with running(institutions_url, **options) as application:
        await asyncio.to_thread(downgrade, store_url)
        answer = await application.http.get("/resources/some-id", headers={"X-Request-Id": "mine"})
    assert answer.status_code == 503
    failure, request = [line for line in log.lines if "request_id=mine" in line]
    assert answer.json()["details"]["incident"] in failure
    assert "status=503 code=STORAGE_ERROR" in request
    assert "Traceback" not in log.text.getvalue()
    assert all("traceback" not in json.loads(line) for line in log.json.getvalue().splitlines())


async def test_an_unforeseen_error_has_the_id_though_a_thread_logs_it(
    institutions_url: str, log: Log
) -> None:
    async def breaks(*_: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    async with running(institutions_url, authenticate=breaks) as application:
        await application.http.get("/resources/some-id", headers={"X-Request-Id": "mine"})
    wait_until_logged()
    [told] = [json.loads(line) for line in log.json.getvalue().splitlines() if "ZeroDivisionError" in line]
    assert told["request_id"] == "mine" and "Traceback" in told["traceback"]


async def test_the_audit_has_the_id(institutions_url: str) -> None:
    trail = Trail()
    async with people(institutions_url, audit=trail) as application:
        path = await application.create(principal=ANA)
        await application.http.get(f"{path}?limit=1", headers={**AS_ANA, "X-Request-Id": "mine"})
        answer = await application.http.get(path, headers=AS_BOB)
        await application.http.get(f"{path}/rows", headers={**AS_ANA, "X-Request-Id": "rows"})
    numbers = [event.request_id for event in trail]
    assert numbers == [None, "mine", answer.headers["x-request-id"], "rows", "rows"]


async def test_an_application_around_it_logs_each_request_once(institutions_url: str, log: Log) -> None:
    async with running(institutions_url) as application:
        inner = Starlette(routes=[Mount("/resources", application.server.router())])
        app = Starlette(routes=[Mount("/", inner)], middleware=[Middleware(RequestLog)])
        answered = await raw_request(app, "/resources/x", (b"x-request-id", b"mine"))
    assert answered.count((b"x-request-id", b"mine")) == 1
    [line] = log.requests
    assert line["route"] == "/resources/{resource_id}"


async def test_without_a_level_nothing_is_logged(
    institutions_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(institutions_url) as application:
        assert "x-request-id" in (await application.http.get("/resources/x")).headers
    assert caplog.records == []


@asynccontextmanager
async def calling(
    application: Application,
    framework: str,
    *,
    stateless_http: bool = True,
    event_hooks: Any = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Any]:
    """A client of a tool of either SDK over streamable HTTP, in process."""
    is_official = framework == "official"
    mcp: Any = MCPServer("colleges") if is_official else FastMCP("colleges")

    @application.server.tool(mcp)
    def institutions(state: str) -> Select[Any]:
        """Institutions of a state."""
        return select(INSTITUTIONS).where(INSTITUTIONS.c.state == state)

    make = mcp.streamable_http_app if is_official else mcp.http_app
    add_resources(application.server, mcp)
    app = make(stateless_http=stateless_http)
    lifespan = app.router.lifespan_context
    around = Starlette(routes=[Mount("/", app)], middleware=[Middleware(RequestLog)], lifespan=lifespan)
    async with (
        around.router.lifespan_context(around),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(around), headers=headers, event_hooks=event_hooks
        ) as http,
        Client(
            streamable_http_client("http://127.0.0.1:8000/mcp", http_client=http),
            mode="auto" if stateless_http else "legacy",
        ) as model,
    ):
        yield model


@pytest.mark.parametrize("framework", ["official", "fastmcp"])
async def test_a_call_of_a_tool_has_the_id_of_its_request(
    institutions_url: str, framework: str, log: Log
) -> None:
    trail: list[AuditEvent] = []
    async with (
        running(institutions_url, audit=trail.append) as application,
        calling(application, framework, headers={"X-Request-Id": "mine"}) as model,
    ):
        await model.call_tool("institutions", {"state": "secret-value"}, meta={"traceparent": TRACEPARENT})
        await model.call_tool("institutions", {"state": "NJ"})
        await model.call_tool("institutions", {"state": 10**30})
    assert trail and {event.request_id for event in trail} == {"mine"}
    calls = [line for line in log.requests if line["method"] == "tools/call"]
    assert [(line["route"], line["request_id"]) for line in calls][:2] == [("institutions", "mine")] * 2
    assert (calls[0]["rows"], calls[0]["trace_id"]) == (0, TRACE)
    assert calls[1]["rows"] == 20 and "trace_id" not in calls[1]
    assert [line for line in log.requests if line["route"] == "/mcp" and line["request_id"] == "mine"]
    assert "secret-value" not in log.text.getvalue()


@pytest.mark.parametrize("framework", ["official", "fastmcp"])
async def test_a_resource_that_is_read_over_mcp_has_the_id_of_its_request(
    institutions_url: str, sqlite_url: str, framework: str, log: Log
) -> None:
    """In a session, too, whose context is that of the request that opened it. The id of the result is not logged."""
    trail: list[AuditEvent] = []
    store_url = f"{sqlite_url}.store"
    upgrade(store_url)
    numbers = (f"number-{number}" for number in count())

    async def number(request: httpx2.Request) -> None:
        request.headers["X-Request-Id"] = next(numbers)

    options: dict[str, Any] = {
        "audit": trail.append,
        "store": SQLResourceStore(store_url),
        "secrets": ["s" * 40],
    }
    async with (
        running(institutions_url, **options) as application,
        calling(application, framework, stateless_http=False, event_hooks={"request": [number]}) as model,
    ):
        result = await application.server.create_response(ALL, name="All")
        lost = await application.server.create_response(ALL, name="Lost")
        await model.read_resource(result.resource_uri)
        [read] = [line for line in log.requests if line["method"] == "resources/read"]
        assert {event.request_id for event in trail if event.action == "read"} == {read["request_id"]}
        posts = [line["request_id"] for line in log.requests if line["route"] == "/mcp"]
        assert read["request_id"] == posts[-1] != posts[0]
        assert read["rows"] > 0 and read["route"] == "results"
        downgrade(store_url)
        with pytest.raises(MCPError):
            await model.read_resource(lost.resource_uri)
    [_, failed] = [line for line in log.requests if line["method"] == "resources/read"]
    assert failed["code"] == "STORAGE_ERROR"
    for response in (result, lost):
        assert response.resource_id not in log.text.getvalue() + log.json.getvalue()


async def test_slow_statements_are_logged_by_a_hash_of_their_text(institutions_url: str, log: Log) -> None:
    """One hash for all values and pages of a statement, and neither its text nor a value."""

    def of_state(state: str) -> Any:
        return select(INSTITUTIONS).where(INSTITUTIONS.c.state == state)

    async def fingerprints(statement: Any, query: str) -> set[str]:
        log.text.truncate(0)
        path = await application.create(statement, count="none")
        assert (await application.http.get(path + query, headers={"X-Request-Id": "mine"})).status_code == 200
        slow = [line for line in log.lines if "dualsql.queries" in line and "request_id=mine" in line]
        assert slow and all("resource " in line for line in slow)
        return {re.search("statement ([0-9a-f]{16}),", line)[1] for line in slow}  # type: ignore[index]

    async with running(institutions_url, slow_query=timedelta(microseconds=1)) as application:
        for query in ("?limit=5", "/rows"):
            one, other = await fingerprints(of_state("NJ"), query), await fingerprints(of_state("PA"), query)
            assert one == other and len(one) == 1
            assert one != await fingerprints(ALL, query)
    text = log.text.getvalue()
    assert "SELECT" not in text and "institutions" not in text and "'NJ'" not in text


async def test_the_lane_is_that_of_the_request(
    postgresql_url: str, make_engine: Callable[[str], AsyncEngine], log: Log
) -> None:
    await fill(make_engine(postgresql_url))
    async with running(postgresql_url) as application:
        path = await application.create()
        for query in ("?limit=5", "/rows", "/rows?format=csv", "/rows?format=arrow"):
            assert (await application.http.get(path + query)).status_code == 200
    lanes = [line["lane"] for line in log.requests]
    assert lanes == ["session", "asyncpg_cursor", "csv_copy", "arrow_copy"]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_postgresql_lists_readers_by_name(postgresql_url: str, driver: str) -> None:
    """Unless the URL names them."""
    url = make_url(postgresql_url).set(drivername=f"postgresql+{driver}")
    assert await names_on(url, postgresql_url) == {"dualsql-reader"}
    if driver == "psycopg":
        assert await names_on(url.update_query_dict({"application_name": "mine"}), postgresql_url) == {"mine"}


async def names_on(url: URL, looking: str) -> set[str]:
    """Under which names the connections of a server are listed."""
    listed = text(
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    server = DualResponseServer(url, base_url=BASE_URL, tables=METADATA)
    async with server, opened(looking) as engine, engine.connect() as connection:
        return set((await connection.execute(listed)).scalars())


FORGED = "2026-01-01 00:00:00,000 CRITICAL forged: all is well \x1b[2K"


async def test_what_other_packages_log_of_a_caller_is_no_line_of_its_own(
    institutions_url: str, log: Log
) -> None:
    mcp = MCPServer("forged")
    add_resources(DualResponseServer(institutions_url, base_url=BASE_URL, tables=METADATA), mcp)
    async with Client(mcp, raise_exceptions=False) as model:
        with pytest.raises(MCPError):
            await model.get_prompt(f"x\n{FORGED}{'x' * 1_000_000}")
    logging.getLogger("other").warning("dropped %s", f"\r\n{FORGED}\u2028\x85")
    assert FORGED[:-4] in log.text.getvalue(), "this caller was logged"
    starts = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ (?!forged)[\w.]+: |  ")
    assert all(starts.match(line) for line in log.lines)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", log.text.getvalue())
    assert len(log.text.getvalue()) + len(log.json.getvalue()) < 200_000
