"""A resumed stream is byte for byte the rest of the broken one, or it is refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.resource import Principal
from dualsql_client.wire import NO_RESUME_HEADER, RESUME_HEADER, row_digest
from tests.http.application import Application, by_header, problem_of, running

METADATA = MetaData()
TEXTS = Table("texts", METADATA, Column("id", Integer, primary_key=True), Column("body", String(200)))
BODIES = [
    "plain", "two\r\nlines", 'quo"te', '"\r\n"', ",\n", "", None, '{"$summary":1}', "\r\n\r\n", 'ü "x",\r\n',
]  # fmt: skip

Engines = Callable[[str], AsyncEngine]


@pytest.fixture
async def engine(sqlite_url: str, make_engine: Engines) -> AsyncEngine:
    """A database of texts that hold all that separates rows."""
    engine = make_engine(sqlite_url)
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(TEXTS), [{"id": n, "body": body} for n, body in enumerate(BODIES)])
    return engine


@pytest.fixture
async def texts(engine: AsyncEngine, sqlite_url: str) -> AsyncIterator[Application]:
    async with running(sqlite_url, tables=METADATA) as application:
        yield application


def rows_in(body: bytes, format_name: str) -> list[bytes]:
    """Each row's bytes, as a client finds them in a stream that it reads."""
    if format_name == "ndjson":
        return body.splitlines()[:-1]
    if format_name == "json":
        return [] if body == b"[]\n" else body[1:].removesuffix(b"]\n").split(b",\n")
    records = re.findall(rb'((?:[^"\r]|"(?:[^"]|"")*"|\r(?!\n))*)\r\n', body)
    return records[1:]


def received(body: bytes, rows: list[bytes], after: int) -> bytes:
    """The bytes up to the end of the last complete row, with what ends a row in its format."""
    if not after:
        return b""
    end = sum(map(len, rows[:after]))
    if body.startswith(b"[{"):
        return body[: 1 + end + len(b",\n") * (after - 1)]
    ending = b"\r\n" if body.startswith(b"id,") else b"\n"
    head = len(b"id,body\r\n") if body.startswith(b"id,") else 0
    return body[: head + end + len(ending) * after]


@pytest.mark.quick(3)
@pytest.mark.parametrize("format_name", ["ndjson", "json", "csv"])
@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("query", [{}, {"sort": "-body"}, {"limit": 7}])
async def test_the_rest_continues_byte_for_byte(
    texts: Application, format_name: str, is_checked: bool, query: dict[str, Any]
) -> None:
    path = f"{await texts.create(select(TEXTS))}/rows"
    query = query | {"format": format_name}
    whole = await texts.http.get(path, params=query)
    rows = rows_in(whole.content, format_name)
    assert len(rows) == query.get("limit", len(BODIES))
    for after in range(len(rows) + 1):
        asked = query | {"resume": whole.headers[RESUME_HEADER], "after": after}
        if is_checked and after:
            asked["last"] = row_digest(rows[after - 1])
        rest = await texts.http.get(path, params=asked)
        assert rest.status_code == 200, rest.text
        assert received(whole.content, rows, after) + rest.content == whole.content


async def test_arrow_goes_on_with_the_next_batch(texts: Application) -> None:
    ipc = pytest.importorskip("pyarrow.ipc", reason="the extra dualsql[arrow] is not installed")
    path = f"{await texts.create(select(TEXTS))}/rows"
    query: dict[str, Any] = {"format": "arrow", "limit": 4}
    first = await texts.http.get(path, params=query)
    parameters: dict[str, Any] = {"format": "arrow", "resume": first.headers[RESUME_HEADER], "after": 4}
    rest = await texts.http.get(path, params=parameters)
    schema = ipc.open_stream(first.content).schema.serialize().to_pybytes()
    assert first.content.startswith(schema)
    joined = schema + rest.content
    assert ipc.open_stream(joined).read_all()["id"].to_pylist() == list(range(4, len(BODIES)))
    refused = await texts.http.get(path, params=parameters | {"last": "0" * 32})
    assert problem_of(refused, 400)["details"] == {"name": "last"}


class TestDataThatMoved:
    async def stream(self, application: Application) -> tuple[str, httpx.Response, list[bytes]]:
        path = f"{await application.create(select(TEXTS))}/rows"
        whole = await application.http.get(path)
        return path, whole, rows_in(whole.content, "ndjson")

    @pytest.mark.parametrize(
        "change",
        [
            update(TEXTS).where(TEXTS.c.id == 2).values(body="changed"),
            delete(TEXTS).where(TEXTS.c.id == 0),
            insert(TEXTS).values(id=-1, body="new"),
            delete(TEXTS),
        ],
    )
    async def test_is_noticed(self, texts: Application, engine: AsyncEngine, change: Any) -> None:
        path, whole, rows = await self.stream(texts)
        async with engine.begin() as connection:
            await connection.execute(change)
        token = whole.headers[RESUME_HEADER]
        parameters: dict[str, Any] = {"resume": token, "after": 3, "last": row_digest(rows[2])}
        assert problem_of(await texts.http.get(path, params=parameters), 409)["code"] == "RESULT_CHANGED"

    async def test_rows_that_are_gone_are_noticed_without_a_digest(
        self, texts: Application, engine: AsyncEngine
    ) -> None:
        path, whole, _ = await self.stream(texts)
        async with engine.begin() as connection:
            await connection.execute(delete(TEXTS).where(TEXTS.c.id > 1))
        parameters: dict[str, Any] = {"resume": whole.headers[RESUME_HEADER], "after": 3}
        assert problem_of(await texts.http.get(path, params=parameters), 409)["code"] == "RESULT_CHANGED"

    async def test_rows_to_come_may_change(self, texts: Application, engine: AsyncEngine) -> None:
        path, whole, rows = await self.stream(texts)
        async with engine.begin() as connection:
            await connection.execute(delete(TEXTS).where(TEXTS.c.id == len(BODIES) - 1))
        parameters: dict[str, Any] = {
            "resume": whole.headers[RESUME_HEADER],
            "after": 3,
            "last": row_digest(rows[2]),
        }
        rest = await texts.http.get(path, params=parameters)
        assert rest.status_code == 200
        assert rest.content.endswith(b'{"$summary":{"rows":9,"complete":true}}\n')


class TestTokens:
    """What a token is not good for is one answer, whatever was wrong with it."""

    async def test_each_is_bound_to_its_stream(self, texts: Application) -> None:
        path = f"{await texts.create(select(TEXTS))}/rows"
        other = f"{await texts.create(select(TEXTS))}/rows"
        token = (await texts.http.get(path)).headers[RESUME_HEADER]
        parameters: dict[str, Any] = {"resume": token, "after": 1}
        assert (await texts.http.get(path, params=parameters)).status_code == 200
        # The format is not part of it: the rows received were kept as rows.
        assert (await texts.http.get(path, params=parameters | {"format": "csv"})).status_code == 200
        swapped: list[tuple[str, dict[str, Any]]] = [
            (other, {}),
            (path, {"sort": "-id"}),
            (path, {"sort": "body"}),
            (path, {"columns": "id"}),
            (path, {"columns": "body,id"}),
            (path, {"big_integers": "string"}),
            (path, {"guard_formulas": "true"}),
            (path, {"text_columns": "id"}),
        ]
        for where, changed in swapped:
            problem = problem_of(await texts.http.get(where, params=parameters | changed), 400)
            assert problem["code"] == "BAD_CURSOR", changed
            assert (problem["message"], problem["hint"]) == (
                "The resume token is not valid for this request.",
                "Repeat the request that gave it, as the same caller, or start again without resume.",
            )

    async def test_no_bit_of_it_may_change(self, texts: Application) -> None:
        path = f"{await texts.create(select(TEXTS))}/rows"
        token = (await texts.http.get(path)).headers[RESUME_HEADER]
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        for place in range(len(token)):
            # The last character carries two bits that mean nothing: a step of four changes those that do.
            forged = alphabet[(alphabet.index(token[place]) + 4) % 64]
            parameters: dict[str, Any] = {"resume": token[:place] + forged + token[place + 1 :], "after": 1}
            assert problem_of(await texts.http.get(path, params=parameters), 400)["code"] == "BAD_CURSOR"

    async def test_it_is_its_caller_s(self, institutions_url: str) -> None:
        async with running(institutions_url, authenticate=by_header) as application:
            path = f"{await application.create()}/rows"  # whoever holds the link may read it
            own = (await application.http.get(path, headers={"x-user": "ana"})).headers[RESUME_HEADER]
            for user, tenant, status in [("ana", None, 200), ("eve", None, 400), ("ana", "acme", 400)]:
                headers = {"x-user": user} | ({"x-tenant": tenant} if tenant else {})
                parameters: dict[str, Any] = {"resume": own, "after": 1}
                answered = await application.http.get(path, params=parameters, headers=headers)
                assert answered.status_code == status, (user, tenant)

    async def test_it_does_not_open_what_is_not_the_caller_s(self, institutions_url: str) -> None:
        async with running(institutions_url, authenticate=by_header) as application:
            path = f"{await application.create(principal=Principal(id='ana'))}/rows"
            own = (await application.http.get(path, headers={"x-user": "ana"})).headers[RESUME_HEADER]
            parameters: dict[str, Any] = {"resume": own, "after": 1}
            assert problem_of(
                await application.http.get(path, params=parameters, headers={"x-user": "eve"}), 404
            )

    async def test_other_secrets_other_tokens(self, institutions_url: str) -> None:
        async with running(institutions_url, secrets=["a" * 32]) as application:
            path = f"{await application.create()}/rows"
            assert problem_of(await application.http.get(path, params={"resume": "A" * 43, "after": 1}), 400)

    async def test_more_rows_than_there_can_be(self, texts: Application) -> None:
        path = f"{await texts.create(select(TEXTS))}/rows"
        token = (await texts.http.get(path)).headers[RESUME_HEADER]
        for bounds in ({"after": 3, "limit": 2}, {"after": 10**15}):
            problem = problem_of(await texts.http.get(path, params={"resume": token, **bounds}), 400)
            assert problem["code"] == "BAD_PARAMETER"


async def test_where_no_order_is_total_nothing_is_resumed(texts: Application) -> None:
    path = f"{await texts.create(select(TEXTS).order_by(func.random()))}/rows"
    answered = await texts.http.get(path)
    assert answered.headers[NO_RESUME_HEADER] == "NO_TOTAL_ORDER"
    assert RESUME_HEADER not in answered.headers


class TestCursors:
    """A stream may begin where a page ended."""

    async def begin(self, application: Application, **query: Any) -> tuple[str, dict[str, Any], list[bytes]]:
        """The path of a result, what asks for the rows after its fifth, and all its rows."""
        path = await application.create(select(TEXTS))
        whole = await application.http.get(f"{path}/rows", params=query)
        page = (await application.http.get(path, params=query | {"limit": 5})).json()
        return f"{path}/rows", query | {"cursor": page["next_cursor"]}, rows_in(whole.content, "ndjson")

    @pytest.mark.parametrize("query", [{}, {"sort": "-body"}, {"sort": "body"}])
    async def test_it_sends_what_comes_next(self, texts: Application, query: dict[str, Any]) -> None:
        path, asked, rows = await self.begin(texts, **query)
        rest = await texts.http.get(path, params=asked)
        assert rows_in(rest.content, "ndjson") == rows[5:]
        some = await texts.http.get(path, params=asked | {"limit": 2, "format": "csv", "columns": "id"})
        assert len(rows_in(some.content, "csv")) == 2

    @pytest.mark.parametrize("query", [{}, {"sort": "-body"}])
    async def test_it_goes_on_after_a_break(self, texts: Application, query: dict[str, Any]) -> None:
        path, asked, rows = await self.begin(texts, **query)
        whole = await texts.http.get(path, params=asked)
        for after in range(1, len(rows) - 5):
            again = asked | {"resume": whole.headers[RESUME_HEADER], "after": after}
            rest = await texts.http.get(path, params=again | {"last": row_digest(rows[4 + after])})
            assert received(whole.content, rows[5:], after) + rest.content == whole.content
        unbound = {name: value for name, value in again.items() if name != "cursor"}
        assert problem_of(await texts.http.get(path, params=unbound), 400)["code"] == "BAD_CURSOR"

    async def test_the_forged_and_the_misplaced(self, texts: Application) -> None:
        path, asked, _ = await self.begin(texts)
        other, _, _ = await self.begin(texts)
        cursor = asked["cursor"]
        flipped = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
        for where, query in [
            (other, asked),
            (path, asked | {"sort": "-id"}),
            (path, {"cursor": flipped}),
            (path, {"cursor": "x" * 20_000}),
            (path, {"cursor": ""}),
        ]:
            problem = problem_of(await texts.http.post(where, json=body_of(query)), 400)
            assert problem["code"] == "BAD_CURSOR"

    async def test_a_stream_goes_forward(self, texts: Application) -> None:
        path, asked, _ = await self.begin(texts)
        page = (await texts.http.get(path.removesuffix("/rows"), params=asked)).json()
        refused = await texts.http.get(path, params={"cursor": page["previous_cursor"]})
        assert problem_of(refused, 400)["details"] == {"name": "cursor"}


def body_of(query: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a URL as a body says them."""
    sort = query.get("sort")
    return query | ({"sort": {"field": sort[1:], "order": "desc"}} if sort else {})


async def test_a_stream_that_was_resumed_can_be_resumed(texts: Application) -> None:
    path = f"{await texts.create(select(TEXTS))}/rows"
    token = (await texts.http.get(path)).headers[RESUME_HEADER]
    again = await texts.http.get(path, params={"resume": token, "after": 2})
    assert again.headers[RESUME_HEADER] == token
