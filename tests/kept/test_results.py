"""Every read of a kept result is of the rows of its one run; what is not safe or possible is read from the database."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from io import FileIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import (
    Column,
    Double,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    func,
    make_url,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import (
    BadCursorError,
    ConfigurationError,
    DualResponse,
    DualResponseServer,
    ForbiddenSQLError,
    InvalidSQLError,
    LocalResultStorage,
    Mask,
    PageRequest,
    Principal,
    ResourceNotFoundError,
    Resumption,
    RowFilter,
    RowSecurity,
    Shared,
    SQLResourceStore,
    StorageError,
    StreamRequest,
    TamperedError,
    TenantFilter,
    UnknownColumnError,
    UnknownTableError,
)
from dualsql.kept import files, service
from dualsql.kept.service import ResultKeeper
from dualsql.pending.feature import Pending
from dualsql.query import read_result_query
from dualsql.settings import KeepOption
from dualsql.store.tables import resources
from dualsql_client.wire import SortKey, row_digest
from tests import engines
from tests.servers import create_server
from tests.waiting import until

metadata = MetaData()
sales = Table(
    "sales",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tenant", String),
    Column("state", String),
    Column("price", Double),
    Column("paid", Numeric(10, 2)),
)
ROWS = 250
ANN, BOB = Principal(id="ann", tenant="a"), Principal(id="bob", tenant="a")


def fill(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE sales (id INTEGER PRIMARY KEY, tenant, state, price REAL, paid NUMERIC)"
        )
        connection.executemany(
            "INSERT INTO sales VALUES (?, 'a', ?, ?, ?)",
            [(n, f"s{n % 7}", n / 7, f"{n}.50") for n in range(ROWS)],
        )


def change(path: Path) -> None:
    """Another state of the data, in which no row is as before."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM sales WHERE id > 20")
        connection.execute("UPDATE sales SET state = 'new', price = -1")


class KeptServer:
    """A server that keeps results, its database and its storage."""

    def __init__(self, dual: DualResponseServer, folder: Path) -> None:
        self.dual = dual
        self.data = folder / "data.db"
        self.storage = folder / "kept"

    async def make(self, principal: Principal | None = None, **options: Any) -> DualResponse:
        select_ = options.pop("select", select(sales).order_by(sales.c.state))
        options = {"name": "sales", "keep": True, "principal": principal, **options}
        return await self.dual.create_response(select_, **options)

    async def said(self, response: DualResponse, principal: Principal | None = None) -> Any:
        return (await self.dual.describe(response.resource_id, principal)).get("kept")

    async def lines(
        self, response: DualResponse, principal: Principal | None = None, **options: Any
    ) -> list[str]:
        stream = await self.dual.stream(response.resource_id, principal, StreamRequest(**options))
        data = b"".join([chunk.data async for chunk in stream.chunks])
        return data.decode().splitlines()[:-1]

    async def page(self, response: DualResponse, principal: Principal | None = None, **options: Any) -> Any:
        return await self.dual.read_page(response.resource_id, principal, PageRequest(**options))

    def files(self) -> list[Path]:
        return [path for path in self.storage.iterdir() if path.name != "storage-id"]


@asynccontextmanager
async def kept_server(folder: Path, **options: Any) -> AsyncIterator[KeptServer]:
    """Of the database `url`; without it, of a SQLite file of the folder."""
    url: str | None = options.pop("url", None)
    if url is None and not (folder / "data.db").exists():
        fill(folder / "data.db")
    options = {"storage": LocalResultStorage(folder / "kept"), "tables": metadata, **options}
    async with create_server(
        url or f"sqlite:///{folder / 'data.db'}", base_url="http://127.0.0.1/resources", **options
    ) as dual:
        yield KeptServer(dual, folder)


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[KeptServer]:
    async with kept_server(tmp_path) as server:
        yield server


async def everything(kept: KeptServer, response: DualResponse) -> dict[str, Any]:
    """What readers get of a result, by the kind of the request."""
    resource = await kept.dual.get_resource(response.resource_id)
    assert resource is not None
    grouped = read_result_query(
        {"group_by": ["state"], "aggregates": ["count", {"function": "sum", "column": "price"}]}
    )
    filtered = read_result_query(
        {"filters": [{"column": "paid", "op": "gt", "value": "120.50"}], "order_by": ["id"]}
    )
    sql = read_result_query({"sql": "SELECT count(*) AS n, max(price) AS most FROM data"})
    pages = [
        (await kept.page(response, **asked)).to_wire()["data"]
        for asked in (
            {"limit": 20},
            {"limit": 20, "offset": 230},
            {"limit": 20, "offset": 3, "sort": [SortKey(field="price", order="desc")]},
            {"limit": 20, "sort": [SortKey(field="paid", order="desc")]},
        )
    ]
    questions = [
        (await kept.dual.queries.page_unchecked(resource, question, PageRequest(limit=50))).rows
        for question in (grouped, filtered, sql)
    ]
    return {
        "pages": pages,
        "questions": [list(map(list, map(dict.values, rows))) for rows in questions],
        "streams": [await kept.lines(response, format=format_name) for format_name in ("ndjson", "csv")],
        "sorted": await kept.lines(response, sort=(SortKey(field="price"),), columns=("price", "id")),
        "profile": (await kept.dual.profiles.profile(response.resource_id, None, kind="full"))["covers"],
        "total": (await kept.dual.describe(response.resource_id, None, count="exact"))["total_count"],
        "again": (await kept.dual.features.get(Pending).show_again(resource, None)).sample,
    }


async def test_every_read_is_of_the_rows_of_the_one_run(kept: KeptServer) -> None:
    live, response = await kept.make(keep=False), await kept.make()
    assert (response.sample, response.columns, response.total_count, response.total_count_kind) == (
        live.sample, live.columns, ROWS, "exact",
    )  # fmt: skip
    before = await everything(kept, live)
    assert await everything(kept, response) == before
    change(kept.data)
    assert await everything(kept, response) == before
    assert await everything(kept, live) != before
    description = await kept.said(response)
    (file,) = kept.files()
    assert (description["kept"], description["rows"], description["bytes"]) == (
        True,
        ROWS,
        file.stat().st_size,
    )
    assert file.stat().st_mode & 0o777 == 0o600


async def test_pages_joined_are_the_run_and_cursors_go_both_ways(kept: KeptServer) -> None:
    # Many rows are equal in the author's order: the order of the run is that of the row numbers.
    response = await kept.make()
    expected = [json.loads(line)["id"] for line in await kept.lines(response)]
    actual, cursor, page = [], None, None
    while page is None or page.has_next:
        page = await kept.page(response, limit=40, **({"cursor": cursor} if cursor else {}))
        actual += [row["id"] for row in page.rows]
        cursor = page.next_cursor
    assert actual == expected
    back = await kept.page(response, limit=40, cursor=page.previous_cursor)
    assert [row["id"] for row in back.rows] == expected[200:240]
    for offset in (0, 1, 99, 249, 250, 400):
        at = await kept.page(response, limit=10, offset=offset)
        assert [row["id"] for row in at.rows] == expected[offset : offset + 10]
    start = (await kept.page(response, limit=100)).next_cursor
    rest = await kept.lines(response, cursor=start)
    assert [json.loads(line)["id"] for line in rest] == expected[100:]


async def test_a_stream_without_an_order_resumes(kept: KeptServer) -> None:
    response = await kept.make(select=select(sales.c.state, sales.c.price).order_by(func.random()))
    stream = await kept.dual.stream(response.resource_id, None, StreamRequest())
    assert stream.resume is not None
    lines = b"".join([chunk.data async for chunk in stream.chunks]).splitlines()[:-1]
    resumption = Resumption(token=stream.resume, after=90, last=row_digest(lines[89]))
    rest = await kept.lines(response, resumption=resumption)
    assert rest == [line.decode() for line in lines[90:]]


async def test_a_cursor_of_other_rows_is_refused(kept: KeptServer, tmp_path: Path) -> None:
    response = await kept.make(select=select(sales).order_by(sales.c.id))
    cursor = (await kept.page(response, limit=10)).next_cursor
    (file,) = kept.files()
    file.unlink()
    with pytest.raises(BadCursorError):
        await kept.page(response, limit=10, cursor=cursor)


async def test_slow_queries_are_kept_in_the_background(kept: KeptServer) -> None:
    response = await kept.make(wait=timedelta())
    assert response.status == "pending"
    resource = await kept.dual.get_resource(response.resource_id)
    while resource is not None and resource.status == "pending":
        await kept.dual.features.get(Pending).jobs.drain(timedelta(seconds=10))
        resource = await kept.dual.get_resource(response.resource_id)
    change(kept.data)
    assert (await kept.said(response))["kept"]
    assert len(await kept.lines(response)) == ROWS


# Rights ----------------------------------------------------------------------------------------------------

TENANTS: dict[str, Any] = {"a": "a"}


async def test_a_kept_result_belongs_to_its_principal(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    assert len(await kept.lines(response, ANN)) == ROWS
    for stranger in (BOB, Principal(id="ann", tenant="b"), None):
        with pytest.raises(ResourceNotFoundError):
            await kept.page(response, stranger)


def hooks_of(rule: str, state: dict[str, Any]) -> list[Any]:
    tenant = TenantFilter(column="tenant", value=lambda who: state.get("tenant", "a"))
    rows = RowFilter(sales, lambda who: sales.c.price >= state.get("least", 0))
    mask = Mask(sales.c.price, unless=lambda who: not state.get("masked"))
    hooks: dict[str, list[Any]] = {"tenant": [tenant], "rows": [rows], "mask": [Shared(sales), mask]}
    return hooks[rule]


@pytest.mark.parametrize(
    ("rule", "changed"), [("tenant", {"tenant": "b"}), ("rows", {"least": 30}), ("mask", {"masked": True})]
)
async def test_where_a_rule_changed_the_rows_are_those_of_the_database(
    rule: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    state: dict[str, Any] = {}
    async with kept_server(tmp_path, hooks=hooks_of(rule, state)) as kept:
        response = await kept.make(ANN)
        assert (await kept.said(response, ANN))["kept"]
        before = await kept.lines(response, ANN)
        state.update(changed)
        live = await kept.make(ANN, keep=False)
        assert await kept.lines(response, ANN) == await kept.lines(live, ANN) != before
        assert await kept.said(response, ANN) == {
            "kept": False, "reason": "The rules for the rows have changed since they were kept.",
        }  # fmt: skip
        state.clear()
        assert await kept.lines(response, ANN) == before


def only_cheap(statement: Any, context: Any) -> Any:
    return statement.where(sales.c.price < 10)


def by_subquery(principal: Principal) -> Any:
    other = sales.alias("other")
    return sales.c.id.in_(select(other.c.id).where(other.c.price < 10))


@pytest.mark.parametrize(
    "hook", [Shared(sales), only_cheap, RowFilter(sales, by_subquery)], ids=["shared", "function", "subquery"]
)
@pytest.mark.parametrize("is_opted_in", [False, True])
async def test_rules_that_read_more_than_the_statement_keep_nothing_unless_allowed(
    hook: Any, is_opted_in: bool, tmp_path: Path
) -> None:
    hooks = [hook] if not callable(hook) else [Shared(sales), hook]
    async with kept_server(tmp_path, hooks=hooks, keep_past_rule_changes=is_opted_in) as kept:
        response = await kept.make(ANN)
        is_kept = is_opted_in or isinstance(hook, Shared)
        assert (await kept.said(response, ANN))["kept"] is is_kept
        assert len(kept.files()) == is_kept
        assert len(await kept.lines(response, ANN)) == response.total_count


prices = Table("prices", MetaData(), Column("id", Integer, primary_key=True), Column("tenant", String))
_READS = {
    "no ruled table": (select(sales), True),
    "the table": (select(prices), False),
    "a join": (select(sales).join(prices, prices.c.id == sales.c.id), False),
    "an alias": (select(prices.alias("p")), False),
    "EXISTS": (select(sales).where(select(prices.c.id).where(prices.c.id == sales.c.id).exists()), False),
    "a scalar subquery": (select(sales, select(func.count(prices.c.id)).scalar_subquery().label("n")), False),
    "a CTE": (select(sales).join(select(prices).cte("p"), true()), False),
    "a UNION": (select(sales.c.id).union(select(prices.c.id)), False),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("reads", _READS)
async def test_only_results_that_read_a_table_whose_rule_reads_another_one_stay_live(
    reads: str, tmp_path: Path
) -> None:
    fill(tmp_path / "data.db")
    with closing(sqlite3.connect(tmp_path / "data.db")) as connection, connection:
        connection.execute("CREATE TABLE prices (id INTEGER PRIMARY KEY, tenant)")
        connection.executemany("INSERT INTO prices VALUES (?, 'a')", [(n,) for n in range(5)])
    statement, is_kept = _READS[reads]
    hooks = [Shared(sales), RowFilter(prices, lambda who: prices.c.id.in_(select(sales.c.id)))]
    async with kept_server(tmp_path, hooks=hooks, tables=[sales, prices]) as kept:
        response = await kept.make(ANN, select=statement)
        description = await kept.said(response, ANN)
        assert description["kept"] is is_kept
        assert is_kept or description["reason"] == "A rule for the rows reads other rows."


# Attacks ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def stored(folder: Path, url: str) -> AsyncIterator[KeptServer]:
    """A server whose store is a database, and its rows in it."""
    store = SQLResourceStore(url)
    async with kept_server(folder, store=store, secrets=["s" * 40]) as kept:
        yield kept


async def altered(url: str, resource_id: str, alter: Callable[[dict[str, Any]], None]) -> None:
    """Change the record of the kept rows in the store."""
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        statement = select(resources.c.kept).where(resources.c.id == resource_id)
        record = json.loads((await connection.execute(statement)).scalar_one())
        alter(record)
        await connection.execute(
            update(resources).where(resources.c.id == resource_id).values(kept=json.dumps(record))
        )
    await engine.dispose()


ATTACKS: dict[str, Any] = {
    "file": "../data.db",
    "rows": 1,
    "digest": "0" * 64,
    "as_of": "2999-01-01T00:00:00+00:00",
    "fingerprint": "0" * 64,
    "cells": ["text"],
    "copied": [25] * 5,
    "storage": "0" * 32,
    "signature": "zz",
}


async def test_a_changed_record_is_refused(tmp_path: Path, sqlite_store_url: str) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        saved: dict[str, Any] = {}
        await altered(sqlite_store_url, response.resource_id, saved.update)
        attacks = [{**saved, name: value} for name, value in [*ATTACKS.items(), ("file", "/etc/passwd")]] + [
            {name: value for name, value in saved.items() if name != lacking} for lacking in saved
        ]
        for attack in attacks:
            await altered(sqlite_store_url, response.resource_id, lambda record: record.clear())
            await altered(sqlite_store_url, response.resource_id, lambda record: record.update(attack))  # noqa: B023
            with pytest.raises(TamperedError):
                await kept.page(response, ANN)


async def test_the_record_of_another_result_is_refused(tmp_path: Path, sqlite_store_url: str) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        mine, other = await kept.make(ANN), await kept.make(BOB)
        stolen: dict[str, Any] = {}
        await altered(sqlite_store_url, other.resource_id, stolen.update)
        await altered(sqlite_store_url, mine.resource_id, lambda record: record.update(stolen))
        with pytest.raises(TamperedError):
            await kept.page(mine, ANN)


async def test_a_signed_record_of_cells_that_nobody_can_read_is_refused(
    tmp_path: Path, sqlite_store_url: str
) -> None:
    """Another release, with the same secrets, may keep cells in another way."""
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        record: dict[str, Any] = {}
        await altered(sqlite_store_url, response.resource_id, record.update)
        changed: Any = {**record, "cells": ["of another release", *record["cells"][1:]]}
        changed["signature"] = kept.dual.parts.seal.sign(
            *service._signed_parts(response.resource_id, changed)
        ).hex()
        await altered(
            sqlite_store_url, response.resource_id, lambda stored_record: stored_record.update(changed)
        )
        with pytest.raises(TamperedError):
            await kept.page(response, ANN)


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_changed_file_is_refused(is_open: bool, kept: KeptServer) -> None:
    response = await kept.make()
    if not is_open:
        await kept.dual.features.get(ResultKeeper).release()
    (file,) = kept.files()
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    with pytest.raises(TamperedError):
        await kept.page(response)


async def test_swapped_files_are_refused(kept: KeptServer) -> None:
    response, other = await kept.make(), await kept.make(select=select(sales.c.id, sales.c.tenant))
    one, two = kept.files()
    spare = one.with_name("spare")
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    for result in (response, other):
        with pytest.raises(TamperedError):
            await kept.page(result)


async def test_a_link_is_never_followed(kept: KeptServer, tmp_path: Path) -> None:
    response = await kept.make()
    (file,) = kept.files()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    change(kept.data)
    assert (await kept.said(response))["reason"] == "The file of the rows is gone."
    assert len(await kept.lines(response)) == 21


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750])
async def test_a_folder_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(mode)
    with pytest.raises(ConfigurationError, match="other users"):
        async with kept_server(tmp_path):
            pass


async def test_a_question_reads_no_other_file(kept: KeptServer) -> None:
    response = await kept.make()
    resource = await kept.dual.get_resource(response.resource_id)
    assert resource is not None
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT n FROM data",
        "SELECT n FROM kept_rows",
        "SELECT * FROM duckdb_settings()",
    ):
        with pytest.raises((InvalidSQLError, ForbiddenSQLError, UnknownTableError, UnknownColumnError)):
            await kept.dual.queries.page_unchecked(resource, read_result_query({"sql": sql}), PageRequest())


async def answer(kept: KeptServer, response: DualResponse, sql: str) -> Any:
    """The rows, or what the reader is told."""
    resource = await kept.dual.get_resource(response.resource_id)
    assert resource is not None
    try:
        page = await kept.dual.queries.page_unchecked(
            resource, read_result_query({"sql": sql}), PageRequest()
        )
    except UnknownTableError as error:
        return error.message
    return page.rows


async def test_questions_in_sql_name_the_table_as_those_of_the_live_result(kept: KeptServer) -> None:
    other = sales.alias("other")
    for statement in (
        select(other.c.id).order_by(other.c.id),
        select(sales.c.id).join(other, sales.c.id == other.c.id).order_by(sales.c.id),
    ):
        live, response = [await kept.make(select=statement, keep=keep) for keep in (False, True)]
        for name in ("data", "other", "sales", "kept_rows"):
            sql = f"SELECT count(*) AS n FROM {name}"
            assert await answer(kept, response, sql) == await answer(kept, live, sql)
    assert await answer(kept, response, "SELECT count(*) AS n FROM data") == [{"n": ROWS}]


@pytest.mark.long
async def test_few_files_are_open_and_each_once(kept: KeptServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_MOST_OPEN", 2)
    responses = [await kept.make(select=select(sales.c.id).where(sales.c.id < 10 + n)) for n in range(4)]
    for _ in range(2):
        pages = await asyncio.gather(*(kept.page(responses[n % 4], limit=1) for n in range(12)))
        assert [page.rows[0]["id"] for page in pages] == [0] * 12
        assert len(kept.dual.features.get(ResultKeeper)._open) == 2
    await kept.dual.features.get(ResultKeeper).release()
    assert not kept.dual.features.get(ResultKeeper)._closing
    digests: list[FileIO] = []

    def noted(file: FileIO) -> tuple[files.FileState, str]:
        digests.append(file)
        return files.digest_of(file)

    monkeypatch.setattr(service, "digest_of", noted)
    await asyncio.gather(*(kept.page(responses[0], limit=1) for _ in range(10)))
    await kept.page(responses[0], limit=1)
    assert len(digests) == 1


# Where rows are not kept, and files that go ----------------------------------------------------------------


async def test_what_is_gone_old_or_elsewhere_is_read_from_the_database(
    tmp_path: Path, sqlite_store_url: str
) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        gone = await kept.make(ANN)
        newest = max(kept.files(), key=lambda path: path.stat().st_mtime_ns)
        newest.unlink()
        change(kept.data)
        assert (await kept.said(gone, ANN))["reason"] == "The file of the rows is gone."
        assert len(await kept.lines(gone, ANN)) == 21
        assert len(await kept.lines(response, ANN)) == ROWS
    elsewhere: Any
    for elsewhere, reason in (
        ({"storage": LocalResultStorage(tmp_path / "other")}, "The rows are kept at another server."),
        ({"storage": None}, "This server keeps no results."),
        ({"keep_for": timedelta(microseconds=1)}, "The kept rows are too old."),
    ):
        options = {"store": SQLResourceStore(sqlite_store_url), "secrets": ["s" * 40], **elsewhere}
        async with kept_server(tmp_path, **options) as kept:
            assert await kept.said(response, ANN) == {"kept": False, "reason": reason}
            assert len(await kept.lines(response, ANN)) == 21


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"keep_rows": ROWS - 1}, "There are more than 249 rows."),
        ({"keep_bytes": 1_000}, "There are more than 1,000 bytes."),
    ],
)
async def test_a_result_that_is_too_large_is_read_from_the_database(
    limit: dict[str, int], reason: str, tmp_path: Path
) -> None:
    async with kept_server(tmp_path, **limit) as kept:
        response = await kept.make()
        assert await kept.said(response) == {"kept": False, "reason": reason}
        assert (response.total_count, kept.files()) == (ROWS, [])
    async with kept_server(tmp_path, keep_rows=ROWS) as kept:
        assert (await kept.said(await kept.make()))["kept"]


async def test_names_that_duckdb_takes_for_one_are_told_apart(kept: KeptServer) -> None:
    response = await kept.make(select=select(sales.c.id.label("SS"), sales.c.state.label("ß")))
    assert (await kept.said(response))["kept"]
    assert [column["name"] for column in response.columns] == ["SS", "ß_2"]


async def test_keeping_needs_a_storage(tmp_path: Path) -> None:
    async with kept_server(tmp_path, storage=None) as kept:
        with pytest.raises(ConfigurationError, match="storage"):
            await kept.make()


async def test_an_empty_result_is_kept(kept: KeptServer) -> None:
    response = await kept.make(select=select(sales).where(sales.c.id < 0))
    assert (await kept.said(response))["rows"] == 0
    assert await kept.lines(response) == []


async def test_a_deleted_result_leaves_no_file_and_streams_go_on(kept: KeptServer) -> None:
    response = await kept.make()
    stream = await kept.dual.stream(response.resource_id, None, StreamRequest())
    first = await anext(stream.chunks)
    first = await anext(stream.chunks)
    await kept.dual.delete_resource(response.resource_id, None)
    assert kept.files() == []
    rest = [chunk.rows async for chunk in stream.chunks]
    assert first.rows + sum(rest) == ROWS
    assert stream.ending.is_complete


async def failing(resource: Any) -> str:
    raise StorageError("The store is out of reach.")


async def test_a_result_that_cannot_be_stored_leaves_no_file(kept: KeptServer) -> None:
    with pytest.raises(Exception, match="sort"):
        await kept.make(
            sample="spread",
            select=select(sales).order_by(func.random()),
            metadata=None,
            count="nonsense sort",
        )
    assert kept.files() == []


async def test_sweeping_deletes_what_no_resource_needs(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        response = await kept.make()
        await kept.make(expiration=timedelta())
        assert len(kept.files()) == 2
        orphans = [f"{response.resource_id}@{'0' * 16}", f"unknown@{'1' * 16}", "part-left_now"]
        for name in orphans[:2]:
            (kept.storage / name).write_bytes(b"x")
        (kept.storage / orphans[2]).mkdir()
        await kept.dual.maintenance.sweep()
        # A file that nobody names yet may be of a result that is being made.
        assert len(kept.files()) == 4
        for name in orphans:
            os.utime(kept.storage / name, (0, 0))
        await kept.dual.maintenance.sweep()
        (left,) = kept.files()
        assert left.name.startswith(response.resource_id)
        assert len(await kept.lines(response)) == ROWS
        # Deleted by another process: the next sweep takes the file.
        await kept.dual.store.delete(response.resource_id)
        await kept.dual.maintenance.sweep()
        assert kept.files() == []


async def test_sweeping_closes_files_that_another_process_deleted(kept: KeptServer) -> None:
    keeper = kept.dual.kept.keeper
    assert keeper is not None
    stays, swept, gone = [await kept.make() for _ in range(3)]
    for response in (stays, swept, gone):
        assert len(await kept.lines(response)) == ROWS
    await kept.dual.maintenance.sweep()  # notes that their rows name the files
    assert len(keeper.shares._holders) == 3
    await kept.dual.store.delete(swept.resource_id)
    await kept.dual.store.delete(gone.resource_id)
    (path,) = (path for path in kept.files() if path.name.startswith(gone.resource_id))
    path.unlink()
    await kept.dual.maintenance.sweep()
    await until(lambda: asyncio.sleep(0, len(keeper.shares._holders)), lambda number: number == 1)
    assert len(await kept.lines(stays)) == ROWS


async def test_sweeping_closes_no_file_that_is_opened_meanwhile(
    kept: KeptServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = kept.dual.kept.keeper
    assert keeper is not None
    list_files = keeper._list_files

    async def list_then_open() -> Any:
        files = await list_files()
        monkeypatch.undo()  # a creation lists them too
        assert len(await kept.lines(await kept.make())) == ROWS
        return files

    monkeypatch.setattr(keeper, "_list_files", list_then_open)
    await kept.dual.maintenance.sweep()
    assert len(keeper._open) == 1


async def test_the_first_reader_opens_the_file(kept: KeptServer) -> None:
    keeper = kept.dual.kept.keeper
    assert keeper is not None
    response = await kept.make()
    assert response.as_of is not None and response.total_count == ROWS
    assert len(keeper.shares._holders) == 0, "the sample is of the rows that were written"
    page = (await kept.page(response, limit=len(response.sample))).to_wire()
    assert [row["id"] for row in page["data"]] == [row["id"] for row in response.sample]
    assert len(keeper.shares._holders) == 1
    profiled = await kept.make(profile="full", sample="tail")
    assert len(profiled.sample) == len(response.sample) and profiled.sample != response.sample
    assert len(keeper.shares._holders) == 2, "other rows than the first are in the file"


@pytest.mark.parametrize("change", ["deleted", "refreshed"])
async def test_a_result_changes_while_its_file_is_opened(
    kept: KeptServer, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    keeper = kept.dual.kept.keeper
    assert keeper is not None
    response = await kept.make(ANN)
    opening, change_is_done, open_file = asyncio.Event(), asyncio.Event(), files.open_file

    async def open_late(*arguments: Any) -> Any:
        if not opening.is_set():
            opening.set()
            await change_is_done.wait()
        return await open_file(*arguments)

    monkeypatch.setattr(service, "open_file", open_late)
    reading = asyncio.ensure_future(kept.page(response, ANN, limit=5))
    await opening.wait()
    try:
        if change == "deleted":
            await kept.dual.delete_resource(response.resource_id, ANN)
        else:
            await kept.dual.kept.refresh(response.resource_id, ANN)
    finally:
        change_is_done.set()
    page = await reading
    if change == "deleted":
        assert len(keeper.shares._holders) == 0
    else:
        assert page.as_of is not None and page.notes == []


async def test_sweeping_deletes_what_duckdb_wrote_beside_a_file_that_is_gone(kept: KeptServer) -> None:
    response = await kept.make()
    await kept.lines(response)  # its first reader opens the file
    (file,) = kept.files()
    spilled = file.with_name(f"{file.name}.tmp")
    spilled.mkdir()
    (spilled / "duckdb_temp_1_0_storage_DEFAULT-0.tmp").write_bytes(b"x")
    os.utime(spilled, (0, 0))
    await kept.dual.maintenance.sweep()
    assert spilled.exists()  # readers of the file may use it
    await kept.dual.delete_resource(response.resource_id, None)
    await kept.dual.maintenance.sweep()
    assert kept.files() == []


QUIET = """
import asyncio, sys
from pathlib import Path
from tests.kept.test_results import kept_server

async def main():
    async with kept_server(Path(sys.argv[1])) as kept:
        made = await kept.make()
        assert len(await kept.lines(made)) == 250

asyncio.run(main())
assert "pandas" in sys.modules, "pyarrow imports it if it is there"
"""


@pytest.mark.long
@pytest.mark.parametrize("time", range(5))
async def test_the_process_ends_quietly(time: int, tmp_path: Path) -> None:
    """DuckDB's binding reports objects that are not freed: 39 lines."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", QUIET, str(tmp_path), cwd=Path(__file__).parents[2], stderr=PIPE
    )
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


BARS = """
import sys
from pathlib import Path
from dualsql.databases.files import FileLoader
from dualsql.kept.files import KeptFileWriter, MemoryShares
from dualsql_client.database_files import _DuckDBTable

def shown(connection):
    settings = ("enable_progress_bar", "enable_progress_bar_print")
    return all(connection.execute(f"SELECT current_setting('{name}')").fetchone()[0] for name in settings)

class Seen(FileLoader):
    def _load(self, path, target):
        print(shown(target._connection))
        super()._load(path, target)

folder = Path(sys.argv[1])
(folder / "rows.csv").write_text("n\\n1\\n")
Seen([folder / "rows.csv"], folder / "files.duckdb").run()
writer = KeptFileWriter(folder / "kept.duckdb", MemoryShares(1 << 28, 1 << 28))
table = _DuckDBTable(folder / "table.duckdb", "rows")
print(shown(writer._connection), shown(table._connection))
"""


@pytest.mark.long
async def test_duckdb_draws_no_bars_on_the_output_of_a_program(tmp_path: Path) -> None:
    """It does after two seconds, in programs without a file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BARS, str(tmp_path), cwd=Path(__file__).parents[2], stdout=PIPE
    )
    output, _ = await process.communicate()
    assert output.split() == [b"False"] * 3


@pytest.mark.quick(1)
@pytest.mark.parametrize("keep", [True, "slow"])
async def test_policies_that_were_not_declared_are_seen(
    postgresql_server: engines.PostgreSQL, tmp_path: Path, keep: KeepOption
) -> None:
    """A policy can change without a change of the statement, whoever told the server of it."""
    reader = f"reader_{uuid4().hex}"
    with postgresql_server.database() as url:
        database = str(make_url(url).database)

        def execute(statement: str) -> None:
            postgresql_server.execute(statement, database)

        for statement in (
            f"CREATE ROLE {reader} LOGIN",
            "CREATE TABLE notes AS SELECT n AS id FROM generate_series(1, 9) AS n",
            f"GRANT SELECT ON notes TO {reader}",
        ):
            execute(statement)
        notes = Table("notes", MetaData(), Column("id", Integer, primary_key=True))
        try:
            async with create_server(
                url.replace("postgres@", f"{reader}@"),
                base_url="http://127.0.0.1/resources",
                tables=notes.metadata,
                storage=LocalResultStorage(tmp_path / "kept"),
                keep_after=timedelta(),
            ) as dual:
                kept = KeptServer(dual, tmp_path)
                response = await kept.make(select=select(notes), keep=keep)
                assert (await kept.said(response))["rows"] == 9
                execute("ALTER TABLE notes ENABLE ROW LEVEL SECURITY")
                execute("CREATE POLICY few ON notes USING (id < 4)")
                reason = "The database narrows the rows by its own policies."
                # The rows that were kept before it, too, are not read any more: neither a page nor a stream has them.
                assert await kept.said(response) == {"kept": False, "reason": reason}
                assert len((await kept.page(response, limit=9)).rows) == 3
                assert len(await kept.lines(response)) == 3
                execute("ALTER TABLE notes DISABLE ROW LEVEL SECURITY")
                assert (await kept.said(response))["rows"] == 9
                execute("ALTER TABLE notes ENABLE ROW LEVEL SECURITY")
                response = await kept.make(select=select(notes), keep=keep)
                assert (response.total_count, await kept.said(response)) == (
                    3,
                    {"kept": False, "reason": reason},
                )
        finally:
            execute(f"DROP OWNED BY {reader}")
            execute(f"DROP ROLE {reader}")


async def test_rows_under_declared_policies_are_not_kept_while_the_policies_are_off(
    postgresql_server: engines.PostgreSQL, tmp_path: Path
) -> None:
    reader = f"reader_{uuid4().hex}"
    notes = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("tenant", String))
    security = RowSecurity(setting="app.tenant", value=lambda principal: principal.tenant)
    with postgresql_server.database() as url:
        database = str(make_url(url).database)
        for statement in (
            f"CREATE ROLE {reader} LOGIN",
            "CREATE TABLE notes AS SELECT n AS id, 'one' AS tenant FROM generate_series(1, 9) AS n",
            f"GRANT SELECT ON notes TO {reader}",
            "ALTER TABLE notes ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON notes USING (tenant = current_setting('app.tenant', true))",
        ):
            postgresql_server.execute(statement, database)
        try:
            async with create_server(
                url.replace("postgres@", f"{reader}@"),
                base_url="http://127.0.0.1/resources",
                tables=notes.metadata,
                storage=LocalResultStorage(tmp_path / "kept"),
                hooks=[security],
            ) as dual:
                postgresql_server.execute("ALTER TABLE notes DISABLE ROW LEVEL SECURITY", database)
                kept = KeptServer(dual, tmp_path)
                ann = Principal(id="ann", tenant="one")
                response = await kept.make(ann, select=select(notes), keep=True)
                actual = await dual.describe(response.resource_id, ann)
                assert actual["kept"] == {
                    "kept": False,
                    "reason": "The database narrows the rows by its own policies.",
                }
        finally:
            postgresql_server.execute(f"DROP OWNED BY {reader}", database)
            postgresql_server.execute(f"DROP ROLE {reader}")


@pytest.mark.long
async def test_a_question_is_answered_after_many_other_results_were_read(kept: KeptServer) -> None:
    """The statement of an answer is cached longer than the table that the kept rows are read as."""
    asked = [read_result_query(part) for part in ({"limit": 3}, {"sql": "SELECT count(*) AS n FROM data"})]
    first, *others = [await kept.make(ANN) for _ in range(20)]
    resource = await kept.dual.get_resource(first.resource_id, ANN)
    assert resource is not None
    before = [await kept.dual.queries.page_unchecked(resource, each, principal=ANN) for each in asked]
    for other in others:
        await kept.page(other, ANN, limit=1)
    after = [await kept.dual.queries.page_unchecked(resource, each, principal=ANN) for each in asked]
    assert [page.rows for page in after] == [page.rows for page in before]
    assert all(page.as_of is not None for page in after)
