"""The database that is queried is down, starts again or has no room: the caller is told so, and the log says why."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from io import StringIO
from time import thread_time

import pytest
from mcp import Client
from mcp.server import MCPServer
from rich.console import Console
from rich.logging import RichHandler
from sqlalchemy import Select, select, text

from dualsql import DatabaseBusyError, DatabaseUnreachableError, DualResponseServer, TooManyQueriesError
from dualsql.http.problems import problem_response
from tests.engines import opened
from tests.failures.cluster import Cluster
from tests.http.application import ALL, BASE_URL, INSTITUTIONS, METADATA, Application, running
from tests.waiting import wait_until_logged


@pytest.fixture
async def app(url: str) -> AsyncIterator[Application]:
    async with running(url) as server:
        yield server


@pytest.mark.long
async def test_a_database_that_is_down_is_unreachable_until_it_is_back(
    own_cluster: Cluster, app: Application, caplog: pytest.LogCaptureFixture
) -> None:
    path = await app.create()
    own_cluster.stop()
    try:
        for _ in range(3):
            answer = await app.http.get(path, params={"limit": 1})
            assert answer.status_code == 503, answer.text
        problem = answer.json()
        assert problem["code"] == "DATABASE_UNREACHABLE"
        assert "query" not in problem["hint"] and "Try again" in problem["hint"]
        assert answer.headers["Retry-After"]
        with pytest.raises(DatabaseUnreachableError):
            await app.create()
    finally:
        own_cluster.start()
    lines = [record for record in caplog.records if record.name == "dualsql.http.problems"]
    assert len(lines) == 3, "one line for each answer"
    assert not any(record.exc_info for record in lines)
    said = lines[-1].getMessage()
    assert problem["details"]["incident"] in said
    assert "DATABASE_UNREACHABLE in GET /resources/{resource_id}, resource " in said
    assert path.rpartition("/")[2] not in said, "an id opens its resource"
    assert "FileNotFoundError" in said or "ConnectionRefusedError" in said, said
    assert (await app.http.get(path, params={"limit": 1})).status_code == 200


async def test_a_server_that_starts_before_its_database(own_cluster: Cluster, url: str) -> None:
    server = DualResponseServer(url, base_url=BASE_URL, tables=METADATA)
    own_cluster.stop()
    try:
        with pytest.raises(DatabaseUnreachableError, match="could not be reached"):
            await server.start()
    finally:
        own_cluster.start()
    async with server:
        assert (await server.create_response(ALL, name="all")).total_count == 60


async def test_a_tool_says_that_the_database_is_down_and_the_log_says_why(
    own_cluster: Cluster, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    dual = DualResponseServer(url, base_url=BASE_URL, tables=METADATA)
    mcp: MCPServer[None] = MCPServer("institutions")

    @dual.tool(mcp)
    def institutions() -> Select[*tuple[object, ...]]:
        """All of them."""
        return ALL

    async with dual, Client(mcp) as client:
        own_cluster.stop()
        try:
            result = await client.call_tool("institutions", {})
        finally:
            own_cluster.start()
        assert result.is_error and result.structured_content is not None
        assert result.structured_content["error"]["code"] == "DATABASE_UNREACHABLE"
        [record] = [each for each in caplog.records if each.name == "dualsql.mcp.calls"]
        assert record.levelno == logging.WARNING and record.exc_info is None
        assert "Error" in record.getMessage().partition("DATABASE_UNREACHABLE")[2]
        assert not (await client.call_tool("institutions", {})).is_error


async def test_a_database_without_room_is_not_a_bad_query(
    own_cluster: Cluster, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (INSTITUTIONS.alias() for _ in range(3))
    joined = first.join(second, second.c.id != first.c.id).join(third, third.c.id != second.c.id)
    large = select(first.c.name, second.c.budget, third.c.tuition).select_from(joined).distinct()
    async with opened(url) as engine, engine.begin() as connection:
        await connection.execute(text("ALTER DATABASE postgres SET temp_file_limit = '64kB'"))
        await connection.execute(text("ALTER DATABASE postgres SET work_mem = '64kB'"))
    try:
        async with running(url) as app:
            with pytest.raises(DatabaseBusyError, match="ran out of") as raised:
                await app.create(large)
            problem_response(raised.value, "a test")
        assert "[53400]" in caplog.records[-1].getMessage()
    finally:
        async with opened(url) as engine, engine.begin() as connection:
            await connection.execute(text("ALTER DATABASE postgres RESET ALL"))


@pytest.fixture
def rich_handler() -> Iterator[None]:
    """The handler that the MCP SDK puts on the root logger where rich is installed."""
    handler = RichHandler(console=Console(file=StringIO(), force_terminal=True), rich_tracebacks=True)
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


@pytest.mark.usefixtures("rich_handler")
async def test_an_overload_does_not_hold_the_event_loop() -> None:
    error = TooManyQueriesError("As many queries run as may.")
    error.__cause__ = OSError("no route to the database")
    began = thread_time()
    for _ in range(100):
        assert problem_response(error).status_code == 503
    assert thread_time() - began < 1, "a hundred lines, and no traceback among them"


@pytest.mark.usefixtures("rich_handler")
async def test_tracebacks_are_logged_elsewhere_and_their_number_is_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads: set[tuple[str, bool]] = set()

    def note(record: logging.LogRecord) -> bool:
        threads.add((str(record.threadName), bool(record.exc_info)))
        return True

    caplog.handler.addFilter(note)
    for _ in range(60):
        problem_response(ZeroDivisionError("nobody foresaw this"))
    wait_until_logged()
    assert len(caplog.records) == 60
    assert {name.partition("_")[0] for name, has_traceback in threads if has_traceback} == {"dualsql-log"}
    assert sum(bool(record.exc_info) for record in caplog.records) < 60
    assert all("incident" in record.getMessage() for record in caplog.records)
