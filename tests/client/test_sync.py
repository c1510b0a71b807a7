"""The synchronous client gives what the asynchronous one gives, in scripts and notebooks, and leaves no thread."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TypeVar, assert_type

import polars as pl
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select
from starlette.requests import Request
from starlette.responses import Response

from dualsql_client import (
    DualResponseClient,
    FetchResult,
    NotConfiguredError,
    ParsedDualResponse,
    ParseError,
    ResourceNotFoundError,
    SyncDualResponseClient,
    SyncParsedDualResponse,
)
from dualsql_client.portal import Portal
from dualsql_client.wire import Row
from tests.client.hosting import Contract, Host, structured
from tests.client.served import Served, serving_results
from tests.waiting import PATIENCE, until

T = TypeVar("T")
Threads = Callable[[], list[threading.Thread]]

METADATA = MetaData()
SCHOOLS = Table("schools", METADATA, Column("id", Integer, primary_key=True), Column("name", String))
ROWS: list[Row] = [{"id": number, "name": f"School {number}"} for number in range(1, 1201)]


@contextmanager
def elsewhere(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter it in a thread of its own, so that this one may wait for what it serves."""

    async def entered() -> AsyncGenerator[T, None]:
        async with manager as value:
            yield value

    portal = Portal()
    running = portal.each(entered)
    yield next(running)
    running.close()
    portal.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = f"sqlite:///{tmp_path_factory.mktemp('schools') / 'schools.sqlite'}"
    engine = create_engine(database)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(SCHOOLS), ROWS)
    engine.dispose()
    with elsewhere(serving_results(database, METADATA, select(SCHOOLS))) as running:
        yield running


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with elsewhere(Host().listening()) as listening:
        yield listening


@pytest.fixture
def client(served: Served) -> Iterator[SyncDualResponseClient]:
    with SyncDualResponseClient(served.base_url) as client:
        yield client


@pytest.fixture
def threads(served: Served, host: Host) -> Threads:
    """The clients' threads that were not there before."""
    before = set(threading.enumerate())
    return lambda: [
        thread for thread in threading.enumerate() if thread.name == "dualsql-client" and thread not in before
    ]


def surface(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_its_surface_is_the_asynchronous_one() -> None:
    fields = {name for name in ParsedDualResponse.__dataclass_fields__ if not name.startswith("_")}
    assert surface(SyncParsedDualResponse) == surface(ParsedDualResponse) | fields
    assert surface(SyncDualResponseClient) == surface(DualResponseClient) - {"aclose"} | {"close"}
    for one, other in (
        (ParsedDualResponse.fetch_all, SyncParsedDualResponse.fetch_all),
        (DualResponseClient.__init__, SyncDualResponseClient.__init__),
    ):
        assert inspect.signature(one) == inspect.signature(other)


def test_every_row_without_an_await(served: Served, client: SyncDualResponseClient, tmp_path: Path) -> None:
    parsed = client.parse(served.tool_result, strict=True)
    assert (parsed.name, parsed.total_count, parsed.sample) == ("Schools", len(ROWS), ROWS[:3])
    page = assert_type(parsed.fetch(offset=1000, limit=5), FetchResult)
    assert page.data == ROWS[1000:1005]
    batches = [assert_type(batch, list[Row]) for batch in parsed.fetch_stream(batch_size=500)]
    assert [len(batch) for batch in batches] == [500, 500, 200]
    assert assert_type(parsed.fetch_all(typed=True), list[Row]) == ROWS
    assert parsed.to_arrow(columns=["id"]).num_rows == len(ROWS)
    assert len(parsed.save(tmp_path / "schools.csv").read_bytes().splitlines()) == len(ROWS) + 1
    assert parsed.get_metadata().status == "ready"
    for named in (parsed.resource_uri, parsed.resource_url):
        opened = assert_type(client.open(str(named)), SyncParsedDualResponse)
        assert (opened.name, opened.fetch_all()) == ("Schools", ROWS)
    with pytest.raises(ResourceNotFoundError):
        client.open("r" * 27)


def test_pins_and_deletes(served: Served, client: SyncDualResponseClient) -> None:
    future = asyncio.run_coroutine_threadsafe(served.tool_result_of(select(SCHOOLS)), served.loop)
    other = client.parse(future.result(), strict=True)
    assert other.is_expired() is False
    assert other.pin()
    assert other.expires_at is None
    assert [other.delete(), other.delete()] == [True, False]
    with pytest.raises(ResourceNotFoundError):
        other.fetch()


def test_what_is_not_there(client: SyncDualResponseClient) -> None:
    assert client.parse("nothing") is None
    assert client.find([structured(), "nothing"])[0].name == "Institutions"
    with pytest.raises(ParseError):
        client.parse("nothing", strict=True)
    with pytest.raises(NotConfiguredError):
        SyncDualResponseClient().find(structured())[0].fetch()


def test_events_are_looked_through_where_they_are(client: SyncDualResponseClient) -> None:
    seen: list[threading.Thread] = []

    def events() -> Iterator[object]:
        for event in ("thinking", {"result": structured()}, "done"):
            seen.append(threading.current_thread())
            yield event

    responses = client.find_in(events())
    assert next(responses).name == "Institutions"
    assert len(seen) == 2, "the rest has not happened yet"
    assert list(responses) == []
    assert set(seen) == {threading.current_thread()}


async def test_inside_a_running_event_loop(served: Served) -> None:
    """As in a notebook, whose cells run in one."""
    assert asyncio.get_running_loop()
    with SyncDualResponseClient(served.base_url) as client:
        parsed = client.parse(served.tool_result, strict=True)
        assert sum(len(batch) for batch in parsed.fetch_stream()) == len(ROWS)
        assert assert_type(parsed.to_polars(), pl.DataFrame)["id"].to_list() == [row["id"] for row in ROWS]


def test_no_thread_is_left(served: Served, threads: Threads) -> None:
    assert threads() == []
    with SyncDualResponseClient(served.base_url) as client:
        parsed = client.parse(served.tool_result, strict=True)
        assert threads() == [], "parsing needs none"
        parsed.fetch()
        [thread] = threads()
    assert not thread.is_alive()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        parsed.fetch()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forgotten_client_ends_its_thread(served: Served, threads: Threads) -> None:
    parsed = SyncDualResponseClient(served.base_url).parse(served.tool_result, strict=True)
    parsed.fetch()
    [thread] = threads()
    del parsed
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_forgotten_client_lets_the_process_end(served: Served) -> None:
    program = (
        "import sys\nfrom dualsql_client import SyncDualResponseClient\n"
        "client = SyncDualResponseClient(sys.argv[1])\n"
        "stream = client.find({'type': 'resource_link', 'mimeType': 'application/json', 'uri': sys.argv[2]})"
        "[0].fetch_stream()\nprint(len(next(stream)))\n"
    )
    uri = served.tool_result["structuredContent"]["resource"]["uri"]
    done = subprocess.run(
        [sys.executable, "-c", program, served.base_url, uri],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "500\n"


def test_a_stream_is_left_in_the_middle(
    served: Served, threads: Threads, client: SyncDualResponseClient
) -> None:
    parsed = client.parse(served.tool_result, strict=True)
    for batch in parsed.fetch_stream(batch_size=10):
        assert batch[0]["id"] == 1
        break
    stream = parsed.fetch_stream(batch_size=10)
    next(stream)
    client.close()
    stream.close()  # its loop is gone, and it with it
    assert threads() == []


def test_a_callback_cannot_wait_for_its_own_client(served: Served, client: SyncDualResponseClient) -> None:
    parsed = client.parse(served.tool_result, strict=True)
    with pytest.raises(RuntimeError, match="cannot wait"):
        parsed.fetch_all(progress=lambda progress: parsed.fetch())
    assert len(parsed.fetch_all()) == len(ROWS)


def test_an_interrupt_ends_the_request(host: Host) -> None:
    """Ctrl-C in a notebook: the wait is over, and so is the connection.

    Also once polars is imported, as it is here, which puts a handler of its own there.
    """
    waiting, gone = threading.main_thread().ident, threading.Event()
    assert waiting

    async def names_of_frames() -> set[str]:
        return {frame.name for frame in traceback.extract_stack(sys._current_frames()[waiting])}

    async def endless(request: Request) -> Response:
        # On a busy machine the request is here before its caller waits for the answer.
        await until(names_of_frames, {"result_of", "wait"}.issubset)
        signal.pthread_kill(waiting, signal.SIGINT)
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()
        return Response(status_code=503)

    with SyncDualResponseClient(host.serve(endless)) as client:
        [parsed] = client.find(structured())
        with pytest.raises(KeyboardInterrupt):
            parsed.get_metadata()
        assert gone.wait(PATIENCE)


def test_many_threads_share_a_client(host: Host, threads: Threads) -> None:
    contract = Contract([{"id": number} for number in range(50)])
    with SyncDualResponseClient(host.serve(contract)) as client:
        [parsed] = client.find(structured())
        seen: list[list[Row]] = []
        asking = [threading.Thread(target=lambda: seen.append(parsed.fetch().data)) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert len(threads()) == 1
    assert seen == [contract.rows] * 8
