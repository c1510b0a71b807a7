"""All kept files that are open together stay within one bound of memory, and none waits for ever."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import aclosing, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import SQLAlchemyError

from dualsql import (
    ConfigurationError,
    DatabaseBusyError,
    DualResponse,
    DualResponseServer,
    StreamRequest,
)
from dualsql.databases.guard import FailureKind
from dualsql.databases.session import read_only
from dualsql.databases.slots import QueryLimits
from dualsql.databases.source import Source
from dualsql.errors import TamperedError
from dualsql.kept.files import MemoryShares, open_file, state_of
from dualsql.kept.service import ResultKeeper
from dualsql.kept.settings import LEAST_KEEP_MEMORY
from dualsql.settings import Settings
from dualsql_client.wire import SortKey
from tests.kept.test_arrow import numbers
from tests.kept.test_results import ROWS, kept_server, sales
from tests.servers import create_server

MEBIBYTE = 1024 * 1024


@pytest.mark.long
async def test_as_many_files_are_open_as_have_a_share_of_the_memory(tmp_path: Path) -> None:
    async with kept_server(
        tmp_path, keep_memory=LEAST_KEEP_MEMORY, queue_timeout=timedelta(seconds=20)
    ) as kept:
        responses = [await kept.make(select=select(sales).where(sales.c.id >= n)) for n in range(4)]
        shares = kept.dual.features.get(ResultKeeper).shares
        assert shares.size == LEAST_KEEP_MEMORY // 2

        async def read(number: int) -> None:
            lines = await kept.lines(responses[number % 4])
            assert len(lines) == ROWS - number % 4 and len(shares._holders) <= 1

        await asyncio.gather(*(read(number) for number in range(10)))
        for file in kept.dual.features.get(ResultKeeper)._open.values():
            await file.source.close()
        assert len(shares._holders) == 0


def many_rows(path: Path) -> None:
    """A file whose sort takes 160 MB (three times its size)."""
    words = ", ".join(f"'text ' || hash(i + {n}) % 5000 AS c{n}" for n in range(12))
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE kept_rows AS SELECT i AS n, {words} FROM range(1500000) AS t(i)")


def one_row(path: Path) -> Path:
    """A file of one row."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE kept_rows AS SELECT 1 AS n, 'a' AS c0")
    return path


async def opened(file: Path, disk: int = MEBIBYTE) -> Source:
    """A file of rows, whose sorts may take so many bytes of the disk."""
    state = state_of(file)
    assert state is not None
    return await open_file(
        "main", file, state, QueryLimits(Settings()), MemoryShares(LEAST_KEEP_MEMORY, disk)
    )


async def test_a_file_is_read_only_in_the_state_whose_digest_was_checked(tmp_path: Path) -> None:
    """Also one that is replaced between two connections."""
    file = one_row(tmp_path / "rows")
    shares, limits, state = MemoryShares(LEAST_KEEP_MEMORY, MEBIBYTE), QueryLimits(Settings()), state_of(file)
    assert state is not None
    with pytest.raises(TamperedError, match="replaced"):
        await open_file("main", file, state._replace(inode=state.inode + 1), limits, shares)
    source = await open_file("main", file, state, limits, shares)
    os.utime(file, (0, 0))
    with pytest.raises(TamperedError, match="replaced"):
        async with source.engine.connect():
            pass
    await source.close()


async def test_sessions_of_a_file_share_a_transaction_until_one_leaves_something_in_it(
    tmp_path: Path,
) -> None:
    source = await opened(one_row(tmp_path / "rows"))

    async def transaction(sql: str = "SELECT * FROM kept_rows") -> str:
        async with read_only(source, None) as session:
            await session.execute(text(sql))
            return str((await session.execute(text("SELECT txid_current()"))).scalar_one())

    first = await transaction()
    assert [await transaction() for _ in range(3)] == [first] * 3
    with pytest.raises(SQLAlchemyError, match="a"):
        await transaction("SELECT error(c0) FROM kept_rows")
    second = await transaction()
    assert second != first and await transaction() == second
    with pytest.raises(SQLAlchemyError, match="read-only"):
        await transaction("CREATE TABLE more (n INTEGER)")
    third = await transaction()
    async with read_only(source, None) as session:
        await session.stream(text("SELECT * FROM range(100000) ORDER BY hash(range)"))
    # Rows that nobody reads would stay in the memory of the file.
    assert await transaction() != third
    await source.close()


async def test_a_file_is_opened_beside_the_event_loop(tmp_path: Path) -> None:
    """Also in the place of a connection that broke."""
    source, threads = await opened(one_row(tmp_path / "rows")), list[threading.Thread]()
    engine: Any = source.engine
    event.listen(engine.sync_engine, "connect", lambda *_: threads.append(threading.current_thread()))
    for is_broken in (True, True, False, False):
        async with engine.connect() as session:
            await session.exec_driver_sql("SELECT 1")
            if is_broken:
                await session.invalidate()
    await source.close()
    assert len(threads) == 2 and threading.main_thread() not in threads


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


SORT = "SELECT * FROM kept_rows ORDER BY c3, c5, n"


async def spilled(file: Path, disk: int) -> FailureKind | None:
    """Why a sort failed."""
    source = await opened(file, disk)
    engine: Any = source.engine
    try:
        async with engine.connect() as connection:
            set_by_us = text("SELECT current_setting('lock_configuration')")
            assert (await connection.execute(set_by_us)).scalar_one() is True
            rows = await connection.execute(text(SORT))
            while rows.fetchmany(50_000):
                assert bytes_in(file.with_name("rows.tmp")) <= disk
    except SQLAlchemyError as error:
        return source.guard.failure_kind(error.__cause__)
    finally:
        await source.close()
    return None


@pytest.mark.long
async def test_what_does_not_fit_the_memory_is_bounded_on_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    await asyncio.to_thread(many_rows, file)
    assert await spilled(file, 4096 * MEBIBYTE) is None
    assert await spilled(file, 20 * MEBIBYTE) is FailureKind.FULL
    assert bytes_in(tmp_path) == file.stat().st_size


async def test_the_spill_of_readers_stays_and_that_of_a_process_that_died_goes(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        response, never = [await kept.make() for _ in range(2)]
        spills = [path.with_name(f"{path.name}.tmp") for path in kept.files()]
        await kept.dual.features.get(ResultKeeper).release()
        for folder in spills:
            folder.mkdir()
            (folder / "blocks").write_bytes(b"rows")
            os.utime(folder, (0, 0))
        # Nobody has the file open: the folder is not a reader's.
        await kept.page(response, limit=1)
        (left,) = [folder for folder in spills if folder.exists()]
        assert left.name.startswith(never.resource_id)
        (mine,) = [folder for folder in spills if folder != left]
        mine.mkdir()
        os.utime(mine, (0, 0))
        await kept.dual.maintenance.sweep()
        assert mine.exists() and not left.exists()


@pytest.mark.long
async def test_who_finds_no_share_is_told_to_try_again_and_one_that_is_left_is_taken(tmp_path: Path) -> None:
    options = {"keep_memory": LEAST_KEEP_MEMORY, "queue_timeout": timedelta(milliseconds=300)}
    with closing(sqlite3.connect(tmp_path / "data.db")) as connection, connection:
        connection.execute(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, tenant, state, price REAL, paid NUMERIC)"
        )
        rows = ((n, "a", "s" * 500, 0.5, 1) for n in range(20_000))
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", rows)
    async with kept_server(tmp_path, **options) as kept:
        first, second = await kept.make(), await kept.make(select=select(sales).where(sales.c.id > 1))
        stream = await kept.dual.stream(first.resource_id, None, StreamRequest())
        async with aclosing(stream.chunks) as chunks:
            await anext(chunks)
            await anext(chunks)  # it waits for its reader now, with a connection
            with pytest.raises(DatabaseBusyError):
                await kept.page(second, limit=1)
            # A file that is deleted while it is read keeps its share.
            assert await kept.dual.delete_resource(first.resource_id, None)
            with pytest.raises(DatabaseBusyError):
                await kept.page(second, limit=1)
        page = await kept.page(second, limit=1)
        assert page.rows[0]["id"] == 2


def test_a_bound_too_small_for_two_files_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="keep_memory"):
        create_server(
            "sqlite:///x.db",
            base_url="http://127.0.0.1",
            tables=numbers.metadata,
            keep_memory=LEAST_KEEP_MEMORY - 1,
        )


PROGRAM = """
import asyncio, sys
from datetime import timedelta
from pathlib import Path
from sqlalchemy import select
from dualsql import LocalResultStorage, StreamRequest
from dualsql.databases.guard import FailureKind
from dualsql.databases.session import read_only
from dualsql.databases.slots import QueryLimits
from dualsql.kept.files import MemoryShares, open_file, state_of
from dualsql.kept.settings import LEAST_KEEP_MEMORY
from dualsql.settings import Settings
from tests.kept.test_arrow import numbers
from tests.kept.test_memory import peak, sorted_rows
from tests.servers import create_server

async def main(folder):
    async with create_server(
        f"sqlite:///{folder / 'data.db'}", base_url="http://127.0.0.1/r", tables=numbers.metadata,
        storage=LocalResultStorage(folder / "kept"), keep_memory=LEAST_KEEP_MEMORY,
        query_timeout=timedelta(minutes=5), queue_timeout=timedelta(minutes=5),
    ) as dual:
        few = await dual.create_response(select(numbers).where(numbers.c.id < 9), name="few", keep=True)
        await sorted_rows(dual, few)
        idle = peak()
        made = [
            await dual.create_response(select(numbers).where(numbers.c.id > n), name="n", keep=True) for n in range(4)
        ]
        counts = await asyncio.gather(*(sorted_rows(dual, one) for one in made))
        print()
        print(idle, peak(), *counts)

asyncio.run(main(Path(sys.argv[1])))
"""


def peak() -> int:
    """The most bytes that this process had in memory."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


async def sorted_rows(dual: DualResponseServer, response: DualResponse, **options: Any) -> int:
    """The rows of a stream that DuckDB sorts as a whole."""
    order = (SortKey(field="s", order="desc"),)
    stream = await dual.stream(response.resource_id, None, StreamRequest(sort=order, **options))
    return sum([chunk.rows async for chunk in stream.chunks])


@pytest.mark.long
def test_a_process_that_sorts_more_than_the_bound_stays_within_it(tmp_path: Path) -> None:
    rows = 100_000
    with closing(sqlite3.connect(tmp_path / "data.db")) as connection, connection:
        connection.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, n INTEGER, s VARCHAR, d NUMERIC)")
        # 60 MB, which nothing compresses.
        texts = ((n, n, os.urandom(300).hex(), n) for n in range(1, rows + 1))
        connection.executemany("INSERT INTO numbers VALUES (?, ?, ?, ?)", texts)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # DuckDB writes its progress above the last line.
    idle, most, *counts = map(int, done.stdout.splitlines()[-1].split())
    assert counts == [rows - n for n in range(4)]
    # Besides DuckDB: the batches of four streams.
    assert most - idle < LEAST_KEEP_MEMORY + 64 * MEBIBYTE, (idle, most)
