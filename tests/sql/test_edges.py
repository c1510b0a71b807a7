"""Hostile texts through the interfaces that take one: the tool execute_query, POST /{id}/sql and POST /{id}/refine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import mcp
import pytest
from mcp.server import MCPServer
from mcp_types import CallToolResult
from sqlalchemy import create_engine, insert

from dualsql.errors import DualResponseError
from dualsql.mcp import add_execute_query
from tests import engines
from tests.http.application import INSTITUTIONS, METADATA, ROWS, Application, fill, running
from tests.quick import case_of
from tests.quiet_core import on_a_quiet_core
from tests.sql.forms import NESTED, QUERIES, RELATIONS, TIMES, converted, listed

# SQLAlchemy's own words on texts that make little sense: 1 LIKE 1, pairs of tables that nothing joins.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
]

REFUSED = {400, 403, 409, 413, 422, 502, 503, 504}
MOST = 0.5
"""Seconds that nothing else was done; one such text took eight. The tests' own client runs in the same loop."""
SHORT = timedelta(seconds=1)
"""For the database: forty copies of a table beside each other have more rows than can ever be counted."""
LONG = timedelta(minutes=1)
"""For the result that they are asked of: on a busy machine a server needs some time to start."""
ATTEMPTS = 4
"""A machine that does more at the same time gets several."""


@pytest.fixture(params=[case_of(name, is_long=name != "sqlite") for name in (*engines.SOURCES, "duckdb")])
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with rows, once for every engine."""
    if request.param == "duckdb":
        return fill_duckdb(f"duckdb:///{tmp_path}/institutions.duckdb")
    url: str = request.getfixturevalue(f"{request.param}_url")
    async with engines.opened(url) as engine:
        await fill(engine)
    return url


def fill_duckdb(url: str) -> str:
    """Its driver is a synchronous one."""
    engine = create_engine(url)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(INSTITUTIONS), ROWS)
    engine.dispose()
    return url


@pytest.fixture
async def interfaces(filled: str) -> AsyncIterator[tuple[Application, mcp.Client]]:
    """A server's REST resources, and a client of its tools."""
    async with running(filled, maximum_refinements=1_000_000, query_timeout=SHORT) as application:
        server: MCPServer[Any] = MCPServer("institutions")
        add_execute_query(application.server, server)
        async with mcp.Client(server) as client:
            yield application, client


@asynccontextmanager
async def busiest_moment() -> AsyncIterator[list[float]]:
    """How long the event loop computed and did nothing else, at worst; what else the machine does is not counted."""
    worst = [0.0]

    async def tick() -> None:
        while True:
            begun = thread_time()
            await asyncio.sleep(0.001)
            worst[0] = max(worst[0], thread_time() - begun)

    ticking = asyncio.create_task(tick())
    try:
        yield worst
    finally:
        ticking.cancel()


def about_the_result(sql: str) -> str:
    return sql.replace("customer", "data").replace("c_name", "name").replace("c_custkey", "id")


async def check(interfaces: tuple[Application, mcp.Client], texts: Iterable[str]) -> None:
    """Each interface answers each text in our words, and holds the loop for a moment only."""
    path = await interfaces[0].create(wait=LONG)
    for sql in texts:
        for _ in range(ATTEMPTS):
            async with busiest_moment() as worst:
                await _ask(interfaces, path, about_the_result(sql))
            if worst[0] < MOST:
                break
        assert worst[0] < MOST, (sql[:200], worst)


async def _ask(interfaces: tuple[Application, mcp.Client], path: str, sql: str) -> None:
    application, client = interfaces
    for kind in ("sql", "refine"):
        answer = await application.http.post(f"{path}/{kind}", json={"sql": sql})
        assert answer.is_success or answer.status_code in REFUSED, (kind, sql[:200], answer.text)
    called = await client.call_tool("execute_query", {"query": sql.replace("data", "institutions")})
    assert isinstance(called, CallToolResult)
    assert not called.is_error or _code(called) not in {DualResponseError.code, None}, (sql[:200], called)


def _code(result: CallToolResult) -> str | None:
    content: Any = result.structured_content
    return None if content is None else content["error"]["code"]


async def test_the_texts_that_froze_a_worker(interfaces: tuple[Application, mcp.Client]) -> None:
    joins = "SELECT 1 FROM customer " + "".join(f"LEFT JOIN customer b{n} " for n in range(18))
    calls = f"SELECT {'date(' * 16}'2000-01-01'{')' * 16}"
    casts = f"SELECT {'CAST(' * 20}1{' AS TEXT)' * 20} AS x FROM customer"
    long = listed(1_000)
    numbers = ["SELECT 1 LIMIT " + "9" * 5_000, "SELECT 0x" + "f" * 5_000]
    await check(interfaces, [joins, calls, casts, long["OR"], long["UNION ALL"], long["stars"], *numbers])


async def test_what_is_refined_again_and_again_does_not_grow_for_ever(
    interfaces: tuple[Application, mcp.Client],
) -> None:
    """Each refinement is a short text, and planners merge them all into one."""
    http, path = interfaces[0].http, await interfaces[0].create(wait=LONG)
    for times in range(8):
        answer = await http.post(f"{path}/refine", json={"sql": "SELECT id + id + id + id AS id FROM data"})
        if not answer.is_success:
            assert times > 3 and answer.json()["code"] == "INVALID_SQL", (times, answer.text)
            return
        path = f"/resources/{answer.json()['resource']['uri'].rpartition('/')[2]}"
    pytest.fail("4 ** 8 expressions were stored")


PARTS = 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("times", "part"),
    [
        case_of((times, part), is_long=times > 6 or part > 0, is_exhaustive=times > 12)
        for times in TIMES
        for part in range(PARTS)
    ],
)
async def test_every_form(interfaces: tuple[Application, mcp.Client], times: int, part: int) -> None:
    texts = [*(form.text(times) for form in (*NESTED, *QUERIES, *RELATIONS)), *listed(times).values()]
    await check(interfaces, texts[part::PARTS])


@pytest.mark.exhaustive
async def test_what_python_cannot_convert(interfaces: tuple[Application, mcp.Client]) -> None:
    await check(interfaces, (text for _, text in islice(converted(), 0, None, 5) if text.isprintable()))


@contextmanager
def steps_timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The CPU time that the event loop's thread takes for each of its steps."""
    lasted: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        begun = thread_time()
        run(handle)
        lasted.append(thread_time() - begun)

    gc.collect()
    gc.disable()  # a collection of the whole suite's garbage is longer than any step
    try:
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.Handle, "_run", timed)
            yield lasted
    finally:
        gc.enable()


@pytest.mark.quick(1, "sqlite")
async def test_a_long_text_is_computed_beside_the_loop(
    interfaces: tuple[Application, mcp.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with the CPU time of the whole process, so any machine will do."""
    path = await interfaces[0].create(wait=LONG)
    sql = about_the_result(listed(300)["SELECT list"])
    for address in (f"{path}/sql", f"{path}/refine"):
        with steps_timed(monkeypatch) as lasted:
            await asyncio.sleep(0)  # this step of the test is one that began before
            begun = process_time()
            answer = await interfaces[0].http.post(address, json={"sql": sql})
            took = process_time() - begun
            await asyncio.sleep(0)
        assert answer.is_success, answer.text
        assert sum(lasted) < 0.5 * took, (address, sum(lasted), took)


LONGEST_STEP = 0.05
AT_ONCE = 8


# On SQLite: the others take minutes, because they run what a text asks for until its time is over.
@pytest.mark.parametrize("filled", ["sqlite"], indirect=True)
@pytest.mark.long
async def test_large_texts_at_once_never_hold_the_loop_for_long(
    interfaces: tuple[Application, mcp.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await interfaces[0].create(wait=LONG)
    places, worst = asyncio.Semaphore(AT_ONCE), 0.0

    async def ask(sql: str) -> None:
        async with places:
            await _ask(interfaces, path, about_the_result(sql))

    for attempt in range(ATTEMPTS):
        # Other numbers each time, because what was stored or compiled once is found again.
        lengths = [times + attempt for times in (18, 40, 100, 190, 450)]
        texts = [text for times in lengths for text in listed(times).values()]
        texts += [form.text(24 + attempt) for form in (*NESTED[::2], *QUERIES, *RELATIONS)]
        with steps_timed(monkeypatch) as lasted:
            await asyncio.gather(*map(ask, texts))
        worst = max(lasted)
        worst = worst if worst < LONGEST_STEP else on_a_quiet_core(worst)
        if worst < LONGEST_STEP:
            return
    pytest.fail(f"a step of the event loop took {worst * 1000:.0f} ms")
