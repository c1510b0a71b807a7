"""A SQL text means on kept rows what it means in its database: each entry of the tables, over values that differ."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from sqlalchemy import insert, select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponse, DualResponseError, DualResponseServer, LocalResultStorage, PageRequest
from dualsql.formats import json
from dualsql.query import read_result_query
from dualsql.results.kept_rows import ROWS_OF_NOW
from dualsql.results.view import NOT_KEPT_ROWS
from tests.engines import opened, sqlite_url_in
from tests.kept import chance, meanings
from tests.servers import create_server

ENGINES = ("sqlite", "postgresql", "mariadb")


class Asked(NamedTuple):
    """One result, live and kept."""

    dual: DualResponseServer
    live: DualResponse
    kept: DualResponse

    async def answer(self, response: DualResponse, sql: str) -> Any:
        """The rows and columns of a text as JSON, or the code of its refusal; and whether they are kept rows."""
        resource = await self.dual.get_resource(response.resource_id)
        assert resource is not None
        try:
            page = await self.dual.queries.page_unchecked(
                resource, read_result_query({"sql": sql}), PageRequest(limit=200)
            )
        except DualResponseError as error:
            return error.code, False
        return (json.dumps(list(page.rows)), json.dumps(list(page.columns))), page.as_of is not None

    async def compare(self, sql: str) -> bool:
        """Whether kept rows gave the answer, which is that of the database."""
        (wanted, _), (actual, is_kept) = [
            await self.answer(response, sql) for response in (self.live, self.kept)
        ]
        assert actual == wanted, sql
        return bool(is_kept)


@asynccontextmanager
async def asked(engine: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Asked]:
    url = sqlite_url_in(folder) if engine == "sqlite" else request.getfixturevalue(f"{engine}_url")
    async with opened(url) as database, database.begin() as connection:
        await connection.run_sync(meanings.metadata.create_all)
        await connection.execute(insert(meanings.values), meanings.ROWS)
    folder.joinpath("kept").mkdir(mode=0o700)
    storage = LocalResultStorage(folder / "kept")
    async with create_server(
        url, base_url="http://127.0.0.1/r", tables=meanings.metadata, storage=storage
    ) as dual:
        rows = select(meanings.values)
        live, kept = [await dual.create_response(rows, name="x", keep=keep) for keep in (False, True)]
        yield Asked(dual, live, kept)


def whole(expression: str) -> str:
    return f"SELECT id, {expression} AS x FROM data ORDER BY id"


async def test_an_answer_of_the_database_about_kept_rows_says_so(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with asked("sqlite", tmp_path, request) as server:
        resource = await server.dual.get_resource(server.kept.resource_id)
        assert resource is not None
        # group_concat has no entry; the sum of these whole numbers overflows when it runs.
        for sql, is_kept in (
            ("SELECT group_concat(i) AS x FROM data", False),
            ("SELECT b + b AS x FROM data ORDER BY id", False),
            ("SELECT i + i AS x FROM data ORDER BY id", True),
        ):
            query = read_result_query({"sql": sql})
            page = await server.dual.queries.page_unchecked(resource, query, PageRequest(limit=3))
            assert (page.as_of is not None, bool(page.notes)) == (is_kept, not is_kept), sql
            assert is_kept or "of the database now" in page.notes[0]


async def test_an_answer_says_that_kept_rows_are_not_read(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with asked("sqlite", tmp_path, request) as server:
        overflow = {"sql": "SELECT b + b AS x FROM data"}
        response = await server.dual.create_response(
            name="sums", parent=server.kept.resource_uri, refinement=overflow
        )
        described = await server.dual.describe(response.resource_id, None)
        assert list(response.notes) == [ROWS_OF_NOW] and "cannot be asked" in described["kept"]["reason"]
        for file in tmp_path.joinpath("kept").glob("*@*"):
            file.unlink()
        resource = await server.dual.get_resource(server.kept.resource_id)
        assert resource is not None
        asked_for = read_result_query({"columns": ["id"]})
        for page in (
            await server.dual.queries.page_unchecked(resource, asked_for, PageRequest(limit=3)),
            await server.dual.read_page(server.kept.resource_id, None, PageRequest(limit=3)),
        ):
            assert list(page.notes) == [NOT_KEPT_ROWS] and page.as_of is None
            assert page.total_count is None, "that of the kept rows"
        response = await server.dual.create_response(
            name="ids", parent=server.kept.resource_uri, refinement={"columns": ["id"]}
        )
        assert list(response.notes) == [NOT_KEPT_ROWS]


async def test_a_stream_says_that_its_rows_are_not_the_kept_ones(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with (
        asked("sqlite", tmp_path, request) as server,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(Starlette(routes=[Mount("/r", server.dual.router())])),
            base_url="http://127.0.0.1",
        ) as http,
    ):
        result = f"/r/{server.kept.resource_id}"

        async def notes(route: str, body: dict[str, Any], format_name: str) -> list[str]:
            answer = await http.post(f"{result}/{route}", json=body | {"format": format_name})
            assert answer.status_code == 200, answer.text
            actual: list[str] = loads(answer.headers.get("Dualsql-Notes", "[]"))
            return actual

        overflow = {"sql": "SELECT b + b AS x FROM data ORDER BY id"}
        for format_name in ("ndjson", "csv", "arrow"):
            assert await notes("rows", {}, format_name) == []
            assert await notes("sql", {"sql": "SELECT i + i AS x FROM data ORDER BY id"}, format_name) == []
            assert await notes("sql", {"sql": "SELECT group_concat(i) AS x FROM data"}, format_name) == [
                ROWS_OF_NOW
            ]
            if format_name != "arrow":  # the sums are too large for its column
                assert await notes("sql", overflow, format_name) == [ROWS_OF_NOW], "known once it has begun"
        for file in tmp_path.joinpath("kept").glob("*@*"):
            file.unlink()
        assert await notes("rows", {}, "csv") == [NOT_KEPT_ROWS]


async def test_no_page_is_of_kept_rows_once_they_have_no_answer(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with asked("sqlite", tmp_path, request) as server:
        resource = await server.dual.get_resource(server.kept.resource_id)
        assert resource is not None
        query, ids, cursor = (
            read_result_query({"sql": "SELECT id, b + b AS x FROM data ORDER BY id"}),
            [],
            None,
        )
        for _ in range(3):
            request_ = PageRequest(limit=20, cursor=cursor)
            page = await server.dual.queries.page_unchecked(resource, query, request_)
            assert list(page.notes) == [ROWS_OF_NOW]
            ids += [row["id"] for row in page.rows]
            cursor = page.next_cursor
        assert ids == [row["id"] for row in meanings.ROWS] and cursor is None
        answer = await server.dual.queries.kept_answer(resource, query, None)
        assert answer is not None and answer.view is None, "not tried again"


def by_row(expression: str) -> Iterator[str]:
    """A row that fails does not hide the others."""
    for row in meanings.ROWS[::5]:
        yield f"SELECT {expression} AS x FROM data WHERE id = {row['id']}"


async def compared(server: Asked, texts: Sequence[tuple[str, str]], *, thoroughly: bool) -> set[str]:
    """Compare the answers. Returns the entries that kept rows were asked by."""
    reached = set()
    for entry, expression in texts:
        sqls = [expression] if expression.startswith(("SELECT", "WITH")) else [whole(expression)]
        if not expression.startswith(("SELECT", "WITH")) and thoroughly:
            sqls += by_row(expression)
        for sql in sqls:
            if await server.compare(sql):
                reached.add(entry)
    return reached


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ENGINES)
async def test_some_texts_mean_the_same(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    texts = [*meanings.expressions(engine), *meanings.statements(engine)][::24]
    async with asked(engine, tmp_path, request) as server:
        assert await compared(server, texts, thoroughly=False)


PARTS = 8
"""Of the texts of an engine: all of them take longer than the time limit of a test."""


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("engine", ENGINES)
async def test_every_entry_means_the_same(
    engine: str, part: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    texts = [*meanings.expressions(engine), *meanings.statements(engine)][part::PARTS]
    async with asked(engine, tmp_path, request) as server:
        reached = await compared(server, texts, thoroughly=True)
    # Most entries are not there for nothing. A few need values that are not among these.
    entries = {entry for entry, _ in texts}
    assert len(reached) * 2 > len(entries), sorted(entries - reached)


async def compare_some_by_chance(server: Asked, engine: str, seed: int, number: int) -> None:
    """Compare texts by chance."""
    kept = 0
    for sql in islice(chance.texts(engine, seed), number):
        kept += await server.compare(sql)
    assert kept * 8 > number, "kept rows are hardly asked"


@pytest.mark.long
async def test_texts_by_chance_mean_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with asked("sqlite", tmp_path, request) as server:
        await compare_some_by_chance(server, "sqlite", 1, 25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("engine", ENGINES)
async def test_many_texts_by_chance_mean_the_same(
    engine: str, seed: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with asked(engine, tmp_path, request) as server:
        await compare_some_by_chance(server, engine, seed, 150)
