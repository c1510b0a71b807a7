"""Slots are shared: a caller with many heavy queries has a third, and keeps nobody from reading."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from ctypes.util import find_library
from datetime import timedelta
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import select

from dualsql import (
    DatabaseBusyError,
    DualResponseServer,
    PageRequest,
    Principal,
    QueryTimeoutError,
    Settings,
    TooManyQueriesError,
)
from dualsql.databases.session import read_only
from dualsql.databases.slots import CALLER, NOBODY, Caller, QueryLimits, Queue, Shares, Slots
from dualsql.http.problems import problem_response
from tests.databases.conftest import fill_synchronously
from tests.databases.kinds import SLOW, MakeServer
from tests.schools import Base, School
from tests.server.conftest import BASE_URL
from tests.waiting import until

HEAVY = 60
BYSTANDERS = 20
PAGES = 15
SECONDS = 20.0
"""Of a heavy query. A page that waits for one waits about as long, also on an idle machine."""

CALLERS = [NOBODY, *(Caller((name,), is_reading) for name in "abcd" for is_reading in (True, False))]


@given(st.integers(1, 20), st.lists(st.tuples(st.sampled_from(CALLERS), st.booleans()), max_size=80))
def test_whatever_is_taken_and_given_back_the_shares_hold(
    number: int, steps: list[tuple[Caller, bool]]
) -> None:
    shares, held = Shares(number, for_reading=number // 5), list[Caller]()
    for caller, takes in steps:
        if takes and shares.has_room(caller):
            shares.take(caller)
            held.append(caller)
        elif not takes and caller in held:
            shares.give_back(caller)
            held.remove(caller)
        assert shares.used == len(held) <= number
        for name in "abcd":
            own = [each for each in held if each.key == (name,)]
            assert len(own) <= number - number // 3
        # A caller who comes now can read, unless several others have taken all there is.
        others = {each.key for each in held}
        if number >= 3 and len(others) <= 1 and None not in others:
            assert shares.has_room(Caller(("new",), is_reading=True))


async def run(slots: Slots, caller: Caller, order: list[str], end: asyncio.Event) -> None:
    CALLER.set(caller)
    async with slots.slot():
        assert caller.key is not None
        order.append(caller.key[0])
        await end.wait()


async def test_those_who_wait_take_turns() -> None:
    slots, order = Slots("query", 6, Queue(100, timedelta(seconds=30))), list[str]()
    ends = {name: asyncio.Event() for name in "abc"}
    tasks = []
    for name in ("a", "b", "c"):
        caller = Caller((name,), is_reading=False)
        tasks += [asyncio.create_task(run(slots, caller, order, ends[name])) for _ in range(6)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    # Two thirds for the first one, the rest for the second; the third one waits.
    assert order == ["a"] * 4 + ["b"] * 2
    ends["a"].set()
    ends["b"].set()
    await until(lambda: asyncio.sleep(0, len(order)), lambda number: number >= 8)
    # It is first when slots are free, up to a third; then those who have less than it.
    assert order[6:8] == ["c"] * 2
    ends["c"].set()
    await asyncio.gather(*tasks)
    assert (slots.used, slots.queue.waiting, len(order)) == (0, 0, 18)


async def test_one_slot_goes_from_caller_to_caller() -> None:
    slots, order, end = Slots("query", 1, Queue(100, timedelta(seconds=30))), list[str](), asyncio.Event()
    tasks = []
    for name in ("a", "b", "c"):
        caller = Caller((name,), is_reading=False)
        tasks += [asyncio.create_task(run(slots, caller, order, end)) for _ in range(3)]
        await asyncio.sleep(0)
    end.set()
    await asyncio.gather(*tasks)
    assert sorted(order[1:4]) == ["a", "b", "c"] and sorted(order) == sorted("abc" * 3)
    assert all(one != other for one, other in pairwise(order[1:7]))


async def test_creating_leaves_slots_for_reading() -> None:
    limits = QueryLimits(Settings(maximum_concurrent_queries=15))
    slots, order, end = limits.queries, list[str](), asyncio.Event()
    makers = [
        asyncio.create_task(run(slots, Caller((f"maker {number % 5}",), False), order, end))
        for number in range(20)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(order) == 12
    readers = [asyncio.create_task(run(slots, Caller(("reader",), True), order, end)) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order[12:] == ["reader"] * 3
    end.set()
    await asyncio.gather(*makers, *readers)


@pytest.mark.parametrize("waiting", [0, 40])
async def test_who_is_refused_is_told_when_to_come_back(waiting: int) -> None:
    queue = Queue(waiting, timedelta(seconds=30))
    slots, order, end = Slots("query", 2, queue), list[str](), asyncio.Event()
    slots._seconds = 3.0  # what they took of late
    caller = Caller(("a",), False)
    tasks = [asyncio.create_task(run(slots, caller, order, end)) for _ in range(2 + waiting)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(TooManyQueriesError) as error:
        await run(slots, caller, order, end)
    expected = 60 if waiting else 3
    assert error.value.details == {"retry_after": expected}
    assert f"Try again in {expected} seconds." in error.value.hint
    assert problem_response(error.value).headers["Retry-After"] == str(expected)
    end.set()
    await asyncio.gather(*tasks)


@pytest.mark.skipif(sys.platform != "linux", reason="a thread has no priority of its own")
async def test_the_event_loop_goes_before_statements_of_sqlite(tmp_path: Path) -> None:
    fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite")
    url = f"sqlite+aiosqlite:///{tmp_path}/schools.sqlite"

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async with (
        DualResponseServer(url, base_url=BASE_URL, tables=Base) as server,
        read_only(server.parts.sources["default"], None) as connection,
    ):
        raw: Any = (await connection.get_raw_connection()).driver_connection
        assert await raw._execute(priority) > priority()


FILTERED = """
import ctypes
from dualsql.databases.sqlite.connection import _may_set_priority
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
allow, kill = ctypes.c_uint32(0x7FFF0000), ctypes.c_uint32(0x80000000)
calls = ctypes.c_void_p(library.seccomp_init(allow))
assert library.seccomp_rule_add(calls, kill, library.seccomp_syscall_resolve_name(b"setpriority"), 0) == 0
assert library.seccomp_load(calls) == 0
print(_may_set_priority())
"""


@pytest.mark.long
@pytest.mark.skipif(find_library("seccomp") is None, reason="libseccomp is not installed")
def test_a_process_that_may_not_set_priorities_is_not_killed() -> None:
    """As under systemd with SystemCallFilter=~@resources."""
    ended = subprocess.run([sys.executable, "-c", FILTERED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg"], indirect=True)
async def test_heavy_queries_of_one_caller_keep_no_page_of_others_waiting(
    make_server: MakeServer, driver: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 heavy queries of one caller, and 20 bystanders who read pages: 99 % of these do not wait for a query to end.

    They take 0.2 s where two cores are free, and 0.8 s beside four busy processes.
    """
    server = await make_server(query_timeout=timedelta(seconds=SECONDS), queue_timeout=timedelta(seconds=60))
    slots: Any = server.parts.sources["default"].limits.queries
    callers = [Principal(id=f"bystander {number}") for number in range(BYSTANDERS)]
    responses = [
        await server.create_response(select(School), name="schools", principal=each) for each in callers
    ]
    glutton = Principal(id="glutton")

    async def heavy() -> None:
        with pytest.raises((QueryTimeoutError, DatabaseBusyError)):
            await server.create_response(SLOW, name="slow", principal=glutton, keep=False)

    async def read(number: int) -> list[float]:
        seconds = []
        for _ in range(PAGES):
            began = time.perf_counter()
            page = await server.read_page(
                responses[number].resource_id, callers[number], PageRequest(limit=10)
            )
            seconds.append(time.perf_counter() - began)
            shares.append(slots._shares._held["principal", "glutton", ""])
            assert page.rows
            await asyncio.sleep(0.1)
        return seconds

    shares: list[int] = []
    queries = [asyncio.create_task(heavy()) for _ in range(HEAVY)]
    await until(lambda: asyncio.sleep(0, slots.queue.waiting))
    read_seconds = sorted(chain.from_iterable(await asyncio.gather(*map(read, range(BYSTANDERS)))))
    p50, p99 = (read_seconds[int(len(read_seconds) * part)] for part in (0.5, 0.99))
    share = sum(shares) / len(shares)
    with capsys.disabled():
        print(f"\n{driver}: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, {share:.1f} slots for the one")
    for query in queries:
        query.cancel()
    await asyncio.gather(*queries, return_exceptions=True)
    assert p99 < SECONDS / 4
    assert share >= slots.number / 3 - 0.5  # one has ended and the next one has not begun
