"""A structured question, an order, a profile or a chart of kept rows is answered as its database answers it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select

from dualsql import DualResponse, DualResponseError, DualResponseServer, LocalResultStorage, PageRequest
from dualsql.formats import json
from dualsql.query import read_result_query
from dualsql.results.kept_rows import ROWS_OF_NOW
from dualsql.results.streams import StreamRequest
from dualsql_client.wire import SortKey
from tests.engines import opened, sqlite_url_in
from tests.kept import questions
from tests.servers import create_server


class Compared(NamedTuple):
    """One result, live and kept."""

    dual: DualResponseServer
    live: DualResponse
    kept: DualResponse
    names: Sequence[str]
    shown: Sequence[Any]

    async def page(self, response: DualResponse, question: Any) -> Any:
        """The rows and columns as JSON, or the words of a refusal; and whether the rows are kept ones."""
        resource = await self.dual.get_resource(response.resource_id)
        assert resource is not None
        try:
            page = await self.dual.queries.page_unchecked(
                resource, read_result_query(question), PageRequest(limit=200)
            )
        except DualResponseError as error:
            return (error.code, error.message, error.hint), False
        rows = json.dumps(list(page.rows)), json.dumps(list(page.columns))
        return (*rows, page.total_count), page.as_of is not None

    async def sorted_page(self, response: DualResponse, column: str, order: Any) -> Any:
        keys = [SortKey(field=column, order=order)]
        try:
            page = await self.dual.read_page(response.resource_id, None, PageRequest(limit=200, sort=keys))
        except DualResponseError as error:
            return error.code, error.message, error.hint
        return json.dumps(list(page.rows))

    async def profile(self, response: DualResponse, kind: str) -> Any:
        actual = await self.dual.profiles.profile(response.resource_id, None, kind=kind)
        return {column["name"]: column for column in actual["columns"]}

    async def chart(self, response: DualResponse, chart: Any) -> Any:
        try:
            drawn = await self.dual.charts.create(response, chart)
            resource = await self.dual.get_resource(drawn.resource_id)
            assert resource is not None
            return await self.dual.charts.draw_unchecked(resource)
        except DualResponseError as error:
            return error.code, error.message, error.hint


@asynccontextmanager
async def compared(engine: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Compared]:
    url = await filled(engine, folder, request)
    table = questions.declared(engine)
    async with create_server(
        url,
        base_url="http://127.0.0.1/r",
        tables=table.metadata,
        storage=LocalResultStorage(folder / "kept"),
    ) as dual:
        live, kept = [
            await dual.create_response(select(table), name="x", keep=keep) for keep in (False, True)
        ]
        described = await dual.describe(kept.resource_id, None)
        assert described["kept"]["kept"], described["kept"]
        page = await dual.read_page(live.resource_id, None, PageRequest(limit=questions.ROWS))
        yield Compared(dual, live, kept, list(table.c.keys()), page.rows)


async def filled(engine: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a database that holds the table."""
    statements = list(questions.statements(engine))
    if engine == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / "hostile.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement.replace("%%", "%"))
        return f"duckdb:///{folder / 'hostile.duckdb'}"
    url = sqlite_url_in(folder) if engine == "sqlite" else request.getfixturevalue(f"{engine}_url")
    async with opened(url) as database, database.begin() as connection:
        for statement in statements:
            await connection.exec_driver_sql(
                statement if engine == "mariadb" else statement.replace("%%", "%")
            )
    return str(url)


async def compare_questions(server: Compared, every: int) -> None:
    """Compare the answers to one of so many questions."""
    is_kept = []
    for about, question in islice(questions.questions(server.shown, server.names), 0, None, every):
        wanted, (actual, of_kept) = (
            (await server.page(server.live, question))[0],
            await server.page(server.kept, question),
        )
        assert actual == wanted, (about, question)
        is_kept.append(of_kept)
    assert sum(is_kept) * 4 > len(is_kept), "kept rows are hardly asked"


async def compare_others(server: Compared, every: int) -> None:
    """Compare orders of the result's own rows, profiles, and one of so many charts."""
    for name in server.names:
        for order in ("asc", "desc"):
            wanted, actual = [
                await server.sorted_page(response, name, order) for response in (server.live, server.kept)
            ]
            assert actual == wanted, (name, order)
    for kind in ("sample", "full"):
        wanted, actual = [await server.profile(response, kind) for response in (server.live, server.kept)]
        assert actual == wanted, kind
    for chart in islice(questions.charts(server.names), 0, None, every):
        wanted, actual = [await server.chart(response, chart) for response in (server.live, server.kept)]
        assert actual == wanted, chart


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
async def test_some_questions_have_one_answer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with compared("sqlite", tmp_path, request) as server:
        await compare_questions(server, 61)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object.*OperatorClass:DeprecationWarning")
@pytest.mark.parametrize("engine", questions.HOSTILE)
async def test_questions_have_one_answer(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with compared(engine, tmp_path, request) as server:
        await compare_questions(server, 7)
        await compare_others(server, 3)


async def test_an_order_that_only_the_database_has_is_of_its_rows(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with compared("sqlite", tmp_path, request) as server:
        for name, is_kept in (("i", True), ("e", False), ("ci", False)):
            asked = PageRequest(limit=3, sort=[SortKey(field=name, order="asc")])
            page = await server.dual.read_page(server.kept.resource_id, None, asked)
            assert (page.as_of is not None) is is_kept, name
            assert page.notes == ([] if is_kept else [ROWS_OF_NOW]), name


async def lines(server: Compared, response: DualResponse, sql: str) -> list[Any]:
    """The records of a stream of a text over a result."""
    resource = await server.dual.get_resource(response.resource_id)
    assert resource is not None
    stream = await server.dual.queries.stream_unchecked(
        resource, read_result_query({"sql": sql}), StreamRequest()
    )
    data = b"".join([chunk.data async for chunk in stream.chunks])
    return [json.loads(line) for line in data.splitlines()]


async def test_a_stream_that_fails_before_its_first_row_is_of_the_database(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with compared("sqlite", tmp_path, request) as server:
        # 64-bit numbers that overflow are doubles in SQLite, and an error in the file of kept rows.
        for sql in ("SELECT b + b AS x FROM data ORDER BY id", "SELECT i + i AS x FROM data ORDER BY id"):
            live, kept = [await lines(server, response, sql) for response in (server.live, server.kept)]
            assert kept == live, sql
            assert len(kept) > questions.ROWS, "rows and a summary"


EXAMPLE = re.compile(r'"[^"]*"')


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_the_example_of_a_hint_is_answered(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A filter with a wrong value is refused with an example. The same filter with the example has an answer."""
    followed = set()
    async with compared(engine, tmp_path, request) as server:
        for response, name in product((server.live, server.kept), server.names):
            for wrong in (True, 1.5, "no such value", "2024-02-30"):
                part: Any = {"column": name, "op": "eq", "value": wrong}
                answer, _ = await server.page(response, {"filters": [part]})
                if answer[0] != "BAD_PARAMETER" or not answer[2].startswith(("Write ", "It holds one of")):
                    continue
                listed = answer[2].partition(": ")[2].rstrip(".").split(", ")
                is_list = answer[2].startswith("It holds")
                examples = [f'"{word}"' for word in listed] if is_list else EXAMPLE.findall(answer[2])
                for example in examples:
                    part["value"] = json.loads(example.encode())
                    actual, _ = await server.page(response, {"filters": [part]})
                    assert isinstance(actual[0], bytes), (name, answer[2], actual)
                    followed.add(name)
    assert followed >= {"d", "h", "ts"}, followed
