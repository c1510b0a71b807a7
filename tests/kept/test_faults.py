"""Whatever goes wrong with keeping, at whatever moment, the result is served live, and no query runs twice."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import case, func, insert, select, true
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import LocalResultStorage, QueryTimeoutError, StreamRequest
from dualsql.charts.chart import read_chart
from dualsql.charts.service import ChartRequest
from dualsql.events import EVENTS
from dualsql.kept.files import KeptFileWriter, SharingEngine
from dualsql.pending.feature import Pending
from dualsql.profiles.feature import Profiles
from dualsql.query import read_result_query, read_structured_query
from dualsql.results.view import NOT_KEPT_ROWS
from tests.kept.test_results import ROWS, KeptServer, kept_server, sales

DATABASES = ("sqlite", *(pytest.param(each, marks=pytest.mark.long) for each in ("postgresql", "mariadb")))
MOMENTS = ("opening", "writing", "closing", "reading")


class Statements:
    """Listens to the events, and counts the statements that the database of the data runs.

    Attributes:
        number: of all. whole: of those that read all rows, as a stream. later: of those that began after one of them.
    """

    def __init__(self) -> None:
        self.number = self.whole = self.later = 0

    def hear(self, event: object) -> None:
        """Nothing else is of interest."""

    @contextmanager
    def measure(self, kind: str, name: str, attributes: Any, headers: object) -> Iterator[Any]:
        if kind == "statement" and attributes["db.system.name"] != "duckdb":
            self.number += 1
            self.later += self.whole
        yield self

    is_sampled = False

    def note(self, attributes: Any) -> None:
        self.whole += "dualsql.lane" in attributes

    def fail(self, code: str) -> None:
        """Nothing to count."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    statements = Statements()
    monkeypatch.setattr(EVENTS, "listener", statements)
    return statements


@pytest.fixture
async def url(request: pytest.FixtureRequest, make_engine: Callable[[str], AsyncEngine]) -> str:
    """Of a database of the kind of the parameter, with as many sales as there are ROWS."""
    if request.param == "duckdb":
        path = request.getfixturevalue("tmp_path") / "data.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                "CREATE TABLE sales AS SELECT range::INTEGER AS id, 'a' AS tenant, 's' || range % 7 AS state, "
                f"range / 7 AS price, range::DECIMAL(10, 2) AS paid FROM range({ROWS})"
            )
        return f"duckdb:///{path}"
    url: str = request.getfixturevalue(f"{request.param}_url")
    async with make_engine(url).begin() as connection:
        await connection.exec_driver_sql(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, tenant VARCHAR(9), state VARCHAR(400), "
            "price DOUBLE PRECISION, paid NUMERIC(10, 2))"
        )
        await connection.execute(
            insert(sales),
            [{"id": n, "tenant": "a", "state": f"s{n % 7}", "price": n / 7, "paid": n} for n in range(ROWS)],
        )
    return url


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    path = tmp_path / "kept"
    path.mkdir(mode=0o700)
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(path)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)


def fill_disk(path: Path) -> None:
    with (path / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def remove_folder(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)
    with suppress(FileNotFoundError):
        path.rmdir()


def make_read_only(path: Path) -> None:
    # Files that are open for writing would refuse it.
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=False, capture_output=True)


def fail_in_duckdb(path: Path) -> None:
    raise duckdb.IOException("IO Error: the disk is broken")


def fail_in_memory(path: Path) -> None:
    raise MemoryError


FAULTS: dict[str, Callable[[Path], None]] = {
    "full": fill_disk,
    "gone": remove_folder,
    "read-only": make_read_only,
    "duckdb": fail_in_duckdb,
    "memory": fail_in_memory,
}


def arrange(monkeypatch: pytest.MonkeyPatch, moment: str, path: Path, fault: Callable[[Path], None]) -> None:
    """Let something go wrong right before a file is opened, written to, closed or read."""
    owner, name = {
        "opening": (LocalResultStorage, "new_folder"),
        "writing": (KeptFileWriter, "add"),
        "closing": (KeptFileWriter, "finish"),
        "reading": (SharingEngine, "connect"),
    }[moment]
    whole = getattr(owner, name)

    def failing(*arguments: Any) -> Any:
        fault(path)
        return whole(*arguments)

    monkeypatch.setattr(owner, name, failing)


def left_in(path: Path) -> list[Path]:
    return list(path.glob("part-*"))


SLOW = {"keep_after": timedelta(milliseconds=1)}


def statement(keep: object) -> Any:
    rows = select(sales).order_by(sales.c.state)
    if keep is True:
        return rows
    # Many rows are counted before the first one is there.
    a, b, c = (sales.alias(name) for name in "abc")
    pairs = a.join(b, a.c.id != b.c.id).join(c, (b.c.id != c.c.id) & (c.c.id < 20))
    many = select(func.count(a.c.id + b.c.id + c.c.id)).select_from(pairs)
    return rows.add_columns(many.scalar_subquery().label("many"))


async def read_everything(kept: KeptServer, resource_id: str) -> dict[str, Any]:
    resource = await kept.dual.get_resource(resource_id)
    assert resource is not None
    page = await kept.dual.read_page(resource_id, None)
    states = [row["state"] for row in page.rows]
    stream = await kept.dual.stream(resource_id, None, StreamRequest())
    chunks = [chunk.rows async for chunk in stream.chunks]
    question = read_result_query({"group_by": ["state"], "aggregates": ["count"]})
    answer = await kept.dual.queries.page_unchecked(resource, question)
    condition = read_structured_query({"filters": {"column": "state", "op": "eq", "value": states[0]}})
    profile = await kept.dual.features.get(Profiles).service.profile(resource, query=condition)
    bars = ChartRequest(read_chart({"mark": "bar", "x": "STATE", "y": {"aggregate": "count"}}), condition)
    ids = ChartRequest(read_chart({"mark": "histogram", "x": "ID"}), condition)
    return {
        "page": [row["id"] for row in page.rows],
        "total": page.total_count,
        "notes": list(page.notes),
        "stream": (sum(chunks), stream.ending.is_complete),
        "question": sorted(row["count"] for row in answer.rows),
        "profile of a query": profile["covers"],
        "charts": [
            (await kept.dual.charts.draw_of_unchecked(resource, chart))["data"] for chart in (bars, ids)
        ],
        "profile": (await kept.dual.profiles.profile(resource_id, None))["covers"],
        "again": len((await kept.dual.features.get(Pending).show_again(resource, None)).sample),
        "counted": (await kept.dual.describe(resource_id, None, count="exact"))["total_count"],
    }


@pytest.mark.quick(3)
@pytest.mark.parametrize("keep", [True, pytest.param("slow", marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("url", DATABASES, indirect=True)
async def test_a_fault_of_keeping_never_fails_a_query(
    moment: str,
    fault: str,
    keep: Any,
    url: str,
    disk: Path,
    tmp_path: Path,
    statements: Statements,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How long a statement of a server takes is not known. There, every query is slow.
    is_sqlite = url.startswith("sqlite")
    query = statement(keep if is_sqlite else True)
    async with kept_server(tmp_path, url=url, **(SLOW if is_sqlite else {"keep_after": timedelta()})) as kept:
        live = await kept.make(select=query, keep=False)
        expected = await read_everything(kept, live.resource_id)
        if moment != "reading":
            arrange(monkeypatch, moment, disk, FAULTS[fault])
        statements.whole = statements.later = 0
        response = await kept.make(select=query, keep=keep)
        said = await kept.said(response)
        if moment == "reading":
            assert said["kept"]
            arrange(monkeypatch, moment, disk, FAULTS[fault])
        elif moment == "opening" or fault in ("duckdb", "memory"):
            assert not said["kept"]
        if not said["kept"]:
            assert said["reason"] == "The rows could not be written."
            assert any("could not be written" in note for note in response.notes)
            assert (statements.whole, statements.later) == (int(moment != "opening"), 0)
            if fault != "read-only":  # what was written so far does not keep the disk full
                assert left_in(disk) == []
        assert (response.sample, response.total_count) == (live.sample, ROWS)
        assert response.total_count_kind == "exact"
        actual = await read_everything(kept, response.resource_id)
        notes = actual.pop("notes")
        assert actual | {"total": None} == {k: v for k, v in expected.items() if k != "notes"} | {
            "total": None
        }
        if not said["kept"] or fault in ("duckdb", "memory"):
            assert notes == [NOT_KEPT_ROWS]


@pytest.mark.quick(1)
@pytest.mark.parametrize("keep", [True, "slow"])
@pytest.mark.parametrize("url", DATABASES, indirect=True)
async def test_a_result_fills_the_disk(
    keep: Any,
    url: str,
    disk: Path,
    tmp_path: Path,
    statements: Statements,
    make_engine: Callable[[str], AsyncEngine],
) -> None:
    """The run that fills it goes on, and says its sample and its number of rows; the next one has room again."""
    async with make_engine(url).begin() as connection:
        large = [{"id": n, "state": secrets.token_hex(200), "paid": 1} for n in range(ROWS, 40_000)]
        await connection.execute(insert(sales), large)
    rows = select(sales).order_by(sales.c.id)
    async with kept_server(tmp_path, url=url, keep_after=timedelta()) as kept:
        live = await kept.make(select=rows, keep=False)
        statements.number = 0
        response = await kept.make(select=rows, keep=keep)
        assert statements.number == 1
        assert await kept.said(response) == {"kept": False, "reason": "The rows could not be written."}
        assert (response.sample, response.total_count, response.total_count_kind) == (
            live.sample,
            40_000,
            "exact",
        )
        assert kept.files() == []
        assert (await kept.page(response, limit=5)).total_count == 40_000
        small = await kept.make(select=rows.limit(ROWS), keep=keep)
        assert (await kept.said(small))["kept"]


@pytest.mark.long
@pytest.mark.parametrize("url", [*DATABASES, "duckdb"], indirect=True)
@pytest.mark.parametrize("keep_after", [timedelta(), timedelta(seconds=0.5)])
async def test_a_run_that_was_stopped_is_not_begun_again(
    tmp_path: Path, statements: Statements, url: str, keep_after: timedelta
) -> None:
    """`query_timeout` bounds the attempt that was quick, the run whose rows are kept, and all that follows."""
    a, b, c, d, e = (sales.alias(name) for name in "abcde")
    pairs = a.join(b, a.c.id != b.c.id).join(c, b.c.id != c.c.id)
    pairs = pairs.join(d, c.c.id != d.c.id).join(e, d.c.id != e.c.id)
    forever = select(func.count(a.c.id + b.c.id - c.c.id + d.c.id - e.c.id)).select_from(pairs)
    options = {"keep_after": keep_after, "query_timeout": timedelta(seconds=2)}
    async with kept_server(tmp_path, url=url, **options) as kept:
        started = time.monotonic()
        statements.number = statements.whole = 0
        with pytest.raises(QueryTimeoutError):
            await kept.make(select=forever, keep="slow")
        assert keep_after or url.startswith("duckdb") or statements.number == 1
        assert statements.whole <= 1
        assert time.monotonic() - started < 2 + 3
        assert kept.files() == []


@pytest.mark.long
async def test_the_first_rows_of_a_run_without_an_end_are_the_sample(
    tmp_path: Path, statements: Statements
) -> None:
    a, b, c, d = (sales.alias(name) for name in "abcd")
    pairs = a.join(b, true()).join(c, true()).join(d, true())
    forever = select(func.count()).select_from(pairs).where(a.c.id + b.c.id != sales.c.id).scalar_subquery()
    rows = select(sales.c.id, case((sales.c.id < 150, 0), else_=forever).label("n")).order_by(sales.c.id)
    options = {
        "keep_after": timedelta(),
        "query_timeout": timedelta(seconds=1),
        "count_budget": timedelta(seconds=5),  # no time is left for a count
    }
    async with kept_server(tmp_path, **options) as kept:
        started = time.monotonic()
        response = await kept.make(select=rows, keep="slow")
        assert time.monotonic() - started < 1 + 2
        assert statements.whole == 1
        assert (await kept.said(response))["reason"] == "The rows could not all be read."
        assert [row["id"] for row in response.sample] == list(range(len(response.sample)))
        # A count that the event loop reads needs no time.
        assert response.total_count_kind in ("capped", "exact") and response.total_count is not None
        assert 0 < len(response.sample) <= min(response.total_count, 150)
        assert response.total_count_kind == "capped" or response.total_count == ROWS
        assert kept.files() == []
        with pytest.raises(QueryTimeoutError):
            await kept.make(select=rows)


async def test_a_page_that_is_read_from_the_database_after_a_fault_is_one_request(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kept_server(tmp_path, **SLOW) as kept:
        response = await kept.make(select=statement(True), keep=True)
        arrange(monkeypatch, "reading", disk, fail_in_memory)
        requests: list[str] = []
        monkeypatch.setattr(kept.dual.access, "require_rate", lambda action, *_: requests.append(action))
        page = await kept.dual.read_page(response.resource_id, None)
    assert (page.notes, requests) == ([NOT_KEPT_ROWS], ["ask"])
