"""Rows over REST: the two ways to ask, what a page says of the rest, and that pages joined are the result."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Date,
    Executable,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    delete,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql_client.wire import Page
from tests.engines import sqlite_url_in
from tests.http.application import (
    ALL,
    INSTITUTIONS,
    ROWS,
    Application,
    assert_private,
    institution,
    problem_of,
    running,
)
from tests.quick import one_in


async def test_get_with_skip_and_limit_answers_rows(application: Application) -> None:
    response = await application.http.get(await application.create(), params={"skip": 20, "limit": 10})
    assert response.status_code == 200
    assert_private(response)
    page = response.json()
    assert page.keys() == Page.__annotations__.keys() - {"notes", "cut"}
    assert [row["id"] for row in page["data"]] == list(range(21, 31))
    assert (page["total_count"], page["returned_count"]) == (60, 10)
    assert (page["skip"], page["offset"], page["next_offset"]) == (20, 20, 30)
    assert (page["has_next"], page["has_prev"], page["has_previous"]) == (True, True, True)


async def test_post_answers_the_same_page(application: Application) -> None:
    path = await application.create()
    body = {"offset": 20, "limit": 10, "sort": {"field": "name", "order": "desc"}}
    posted = await application.http.post(path, json=body)
    got = await application.http.get(path, params={"offset": 20, "limit": 10, "sort": "-name"})
    assert (posted.status_code, posted.json()) == (200, got.json())


@pytest.mark.quick(2)
@pytest.mark.parametrize("parameter", ["limit=60", "skip=0", "offset=0", "sort=id", "big_integers=number"])
async def test_any_paging_parameter_asks_for_rows(application: Application, parameter: str) -> None:
    page = (await application.http.get(f"{await application.create()}?{parameter}")).json()
    assert [row["id"] for row in page["data"]] == [row["id"] for row in ROWS]
    assert (page["has_next"], page["has_previous"], page["next_offset"]) == (False, False, None)


async def test_a_page_beyond_the_end_is_empty(application: Application) -> None:
    page = (await application.http.get(await application.create(), params={"skip": 1_000})).json()
    assert (page["data"], page["returned_count"], page["has_next"]) == ([], 0, False)


async def test_get_sorts_by_several_columns(application: Application) -> None:
    page = (await application.http.get(await application.create(), params={"sort": "-state,name"})).json()
    expected = sorted(ROWS, key=lambda row: row["name"])
    expected.sort(key=lambda row: row["state"], reverse=True)
    assert [row["id"] for row in page["data"]] == [row["id"] for row in expected]


async def test_post_sorts_by_one_column_or_several(application: Application) -> None:
    path = await application.create()
    for sort in (
        {"field": "id", "order": "desc"},
        [{"field": "id", "order": "desc"}],
        [{"field": "state"}, {"field": "id"}],
    ):
        page = (await application.http.post(path, json={"sort": sort, "limit": 1})).json()
        assert page["data"][0]["id"] == (60 if "desc" in str(sort) else 3)


@pytest.mark.quick(3)
@pytest.mark.parametrize("sort", ["", "state", "-enrollment", "enrollment,-state", "tuition", "-founded"])
@pytest.mark.parametrize("limit", one_in(2, [60, 1, 7, 59, 61]))
async def test_pages_joined_are_the_whole_result(application: Application, sort: str, limit: int) -> None:
    path = await application.create(
        select(*INSTITUTIONS.c["id", "state", "enrollment", "tuition", "founded"])
    )
    ordering = {"sort": sort} if sort else {}
    whole = (await application.http.get(path, params={"limit": 1_000, **ordering})).json()["data"]
    joined: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = (await application.http.get(path, params={"limit": limit, "skip": offset, **ordering})).json()
        joined += page["data"]
        offset = page["next_offset"]
    assert joined == whole
    assert sorted(row["id"] for row in joined) == list(range(1, 61))


async def test_has_next_is_seen_in_the_rows_when_some_went_away(
    application: Application, institutions_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    path = await application.create()
    async with make_engine(institutions_url).begin() as connection:
        await connection.execute(delete(INSTITUTIONS).where(INSTITUTIONS.c.id > 30))
    page = (await application.http.get(path, params={"skip": 20, "limit": 10})).json()
    assert (page["returned_count"], page["has_next"], page["next_offset"]) == (10, False, None)
    assert page["total_count"] == 30


async def test_has_next_is_seen_in_the_rows_when_some_came(
    application: Application, institutions_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    path = await application.create()
    async with make_engine(institutions_url).begin() as connection:
        await connection.execute(insert(INSTITUTIONS).values(institution(61)))
    page = (await application.http.get(path, params={"skip": 50, "limit": 10})).json()
    assert (page["returned_count"], page["has_next"], page["next_offset"]) == (10, True, 60)


@pytest.mark.parametrize(
    ("change", "window", "total"),
    [
        (insert(INSTITUTIONS).values(institution(61)), {"skip": 50, "limit": 10}, (61, "capped")),
        (insert(INSTITUTIONS).values(institution(61)), {"skip": 50, "limit": 20}, (61, "exact")),
        (insert(INSTITUTIONS).values(institution(61)), {"skip": 0, "limit": 10}, (60, "exact")),
        (delete(INSTITUTIONS).where(INSTITUTIONS.c.id > 30), {"skip": 20, "limit": 20}, (30, "exact")),
        (delete(INSTITUTIONS).where(INSTITUTIONS.c.id > 30), {"skip": 50, "limit": 10}, (50, "estimated")),
        (delete(INSTITUTIONS), {"skip": 0, "limit": 10}, (0, "exact")),
    ],
)
async def test_a_page_corrects_the_total_by_the_rows_that_it_saw(
    application: Application,
    institutions_url: str,
    make_engine: Callable[[str], AsyncEngine],
    change: Executable,
    window: dict[str, int],
    total: tuple[int, str],
) -> None:
    path = await application.create()
    async with make_engine(institutions_url).begin() as connection:
        await connection.execute(change)
    page = (await application.http.get(path, params=window)).json()
    assert (page["total_count"], page["total_count_kind"]) == total


async def test_values_are_exact(application: Application) -> None:
    response = await application.http.get(await application.create(), params={"limit": 1})
    [row] = response.json()["data"]
    assert row["budget"] == ROWS[0]["budget"]
    assert f'"budget":{ROWS[0]["budget"]}' in response.text
    assert (row["tuition"], row["founded"]) == ("1.10", "1900-01-01")
    encodings = {column["name"]: column["encoding"] for column in response.json()["columns"]}
    assert (encodings["budget"], encodings["tuition"], encodings["founded"]) == ("integer", "decimal", "date")


async def test_big_integers_come_as_strings_when_asked(application: Application) -> None:
    path = await application.create()
    got = (await application.http.get(path, params={"limit": 1, "big_integers": "string"})).json()
    posted = (await application.http.post(path, json={"limit": 1, "big_integers": "string"})).json()
    assert got == posted
    assert got["data"][0]["budget"] == str(ROWS[0]["budget"])
    assert {column["name"]: column["encoding"] for column in got["columns"]}["budget"] == "integer-string"


@pytest.mark.parametrize("most", [1, 7, 500])
async def test_long_cells_are_cut_when_asked(tmp_path: Path, most: int) -> None:
    """Each cell is whole, or its beginning, and then the page says how long it is; asked for in each way."""
    metadata = MetaData()
    table = Table(
        "long", metadata, Column("id", Integer, primary_key=True), Column("text", String), Column("document", JSON),
        Column("bytes", LargeBinary), Column("price", Numeric(12, 2)), Column("born", Date),
    )  # fmt: skip
    texts = [None, "", "ä" * most, "漢" * (most + 1), "𝒳" * 3_000, "x" * 100_000]
    rows = [
        {"id": number, "text": text, "document": {"text": text}, "bytes": None if text is None else text.encode(),
         "price": Decimal("1234567890.12"), "born": date(2026, 1, 31)}
        for number, text in enumerate(texts, 1)
    ]  # fmt: skip
    engine = create_async_engine(sqlite_url_in(tmp_path))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(table.insert(), rows)
    async with running(engine, tables=metadata) as application:
        path = await application.create(select(table))
        post = application.http.post
        whole = (await post(path, json={})).json()
        assert "cut" not in whole
        page = (await post(path, json={"cell_limit": most})).json()
        assert page == (await application.http.get(f"{path}?offset=0&cell_limit={most}")).json()
        body = (await post(f"{path}/query", json={"order_by": ["id"], "cell_limit": most})).json()
        assert (page["data"], page["cut"]) == (body["data"], body["cut"])
        cut = {(cell["row"], cell["column"]): cell["characters"] for cell in page["cut"]}
        for number, (row, beginning) in enumerate(zip(whole["data"], page["data"], strict=True)):
            for name, value in row.items():
                compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                text = compact if isinstance(value, dict) else value
                is_long = name in ("text", "document", "bytes") and text is not None and len(text) > most
                assert beginning[name] == (text[:most] if is_long else value)
                assert cut.get((number, name)) == (len(text) if is_long else None)
        for answer in (
            await post(path, json={"cell_limit": 0}),
            await post(path, json={"cell_limit": -1}),
            await post(path, json={"cell_limit": 2**31}),
            await post(f"{path}/query", json={"order_by": ["id"], "cell_limit": 5, "format": "csv"}),
        ):
            assert "cell_limit" in problem_of(answer, 400)["message"]
    await engine.dispose()


async def test_the_page_size_has_a_default_and_a_bound(institutions_url: str) -> None:
    async with running(institutions_url, default_page_size=7, maximum_page_size=20) as application:
        path = await application.create()
        assert (await application.http.post(path, json={})).json()["returned_count"] == 7
        assert (await application.http.post(path, json={"limit": 20})).json()["returned_count"] == 20
        problem_of(await application.http.post(path, json={"limit": 21}), 400)
        problem_of(await application.http.get(f"{path}?limit=21"), 400)


async def test_the_offset_and_the_number_of_sort_keys_are_bounded(institutions_url: str) -> None:
    async with running(institutions_url, maximum_offset=100, maximum_sort_keys=2) as application:
        path = await application.create()
        assert (await application.http.get(f"{path}?skip=100&sort=id,name")).status_code == 200
        problem_of(await application.http.get(f"{path}?skip=101"), 400)
        problem_of(await application.http.get(f"{path}?skip=9999999999999999"), 400)
        problem_of(await application.http.get(f"{path}?sort=id,name,state"), 400)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "query", ["skip=1&offset=2", "limit=-1", "limit=1e3", "limit=ten", "limit=1&limit=2", "sort="]
)
async def test_a_bad_value_is_a_bad_request(application: Application, query: str) -> None:
    problem = problem_of(await application.http.get(f"{await application.create()}?{query}"), 400)
    assert (problem["error"], problem["code"]) == ("bad_request", "BAD_PARAMETER")


async def test_an_unknown_parameter_is_answered_with_the_one_that_was_meant(application: Application) -> None:
    path = await application.create()
    assert "'limit'" in problem_of(await application.http.get(f"{path}?limits=5"), 400)["hint"]
    assert "'offset'" in problem_of(await application.http.post(path, json={"ofset": 5}), 400)["hint"]


async def test_an_unknown_column_is_answered_with_the_one_that_was_meant(application: Application) -> None:
    path = await application.create()
    for response in (
        await application.http.get(f"{path}?sort=-enrolment"),
        await application.http.post(path, json={"sort": {"field": "enrolment"}}),
    ):
        problem = problem_of(response, 422)
        assert (problem["code"], problem["details"]["column"]) == ("UNKNOWN_COLUMN", "enrolment")
        assert "'enrollment'" in problem["hint"]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "field",
    [
        "id; DROP TABLE institutions",
        "(SELECT 1)",
        "institutions.id",
        '"id"',
        "ID",
        "1",
        "rowid",
        "id\x00",
        "id DESC",
    ],
)
async def test_sql_is_not_a_column(application: Application, field: str) -> None:
    path = await application.create()
    problem_of(await application.http.post(path, json={"sort": {"field": field}}), 422)
    assert (await application.http.get(f"{path}?limit=60")).json()["returned_count"] == 60


async def test_a_column_that_the_result_does_not_show_cannot_sort_it(application: Application) -> None:
    path = await application.create(select(*INSTITUTIONS.c["id", "name"]))
    problem = problem_of(await application.http.get(f"{path}?sort=budget"), 422)
    assert problem["details"]["columns"] == ["id", "name"]


async def test_the_statement_s_own_order_and_limit_hold(application: Application) -> None:
    path = await application.create(ALL.order_by(INSTITUTIONS.c.id.desc()).limit(10))
    page = (await application.http.get(f"{path}?skip=5&limit=10")).json()
    assert [row["id"] for row in page["data"]] == [55, 54, 53, 52, 51]
    assert page["has_next"] is False


@pytest.mark.parametrize("below", ["", "/rows", "/sql"])
async def test_null_is_as_if_left_out(application: Application, below: str) -> None:
    path = await application.create()
    given = {"sql": "SELECT id FROM data ORDER BY id"} if below == "/sql" else {}
    nulls: dict[str, None] = dict.fromkeys(("limit", "cursor", "big_integers"))
    nulls |= dict.fromkeys(("columns", "format")) if below == "/rows" else {"offset": None}
    plain = await application.http.post(f"{path}{below}", json=given)
    with_nulls = await application.http.post(f"{path}{below}", json={**given, **nulls})
    assert (with_nulls.status_code, with_nulls.content) == (plain.status_code, plain.content)
    unknown = await application.http.post(f"{path}{below}", json={**given, "ofset": None})
    assert unknown.json()["code"] == "BAD_PARAMETER"
    refined = await application.http.post(f"{path}/refine", json={"name": None, "columns": None, "limit": 3})
    assert (refined.status_code, refined.json()["resource"]["name"]) == (201, "Refined")
