"""POST /{id}/query. Pages, streams and refusals are those of rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import Column, DateTime, Integer, MetaData, Table, func, insert, select

from dualsql import DualResponseServer
from tests.engines import opened
from tests.http.application import ALL, INSTITUTIONS, ROWS, Application, problem_of, running

BY_STATE = {"group_by": ["state"], "aggregates": ["count", {"function": "sum", "column": "budget"}]}


async def _ask(application: Application, path: str, body: Any, **headers: str) -> httpx.Response:
    return await application.http.post(f"{path}/query", json=body, headers=headers)


async def test_groups_of_the_whole_result(application: Application) -> None:
    path = await application.create()
    page = (await _ask(application, path, BY_STATE)).raise_for_status().json()
    assert [row["state"] for row in page["data"]] == ["NJ", "NY", "PA"]
    assert [row["count"] for row in page["data"]] == [20, 20, 20]
    assert (page["total_count"], page["total_count_kind"], page["has_next"]) == (3, "exact", False)
    assert page["columns"][2]["name"] == "sum_budget"


async def test_an_answer_of_more_groups_than_a_page_says_how_many(application: Application) -> None:
    path = await application.create()
    question = {"group_by": ["name"], "limit": 7}
    page = (await _ask(application, path, question)).raise_for_status().json()
    assert (page["total_count"], page["total_count_kind"], page["has_next"]) == (60, "exact", True)


async def test_pages_joined_are_the_answer(application: Application) -> None:
    path = await application.create()
    question = {
        "filters": [{"column": "state", "op": "ne", "value": "PA"}],
        "order_by": ["enrollment"],
        "limit": 7,
    }
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = (await _ask(application, path, question | ({"cursor": cursor} if cursor else {}))).json()
        found += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    kept = [row for row in ROWS if row["state"] != "PA"]
    wanted = sorted(kept, key=lambda row: (row["enrollment"] is None, row["enrollment"] or 0, row["id"]))
    assert [row["id"] for row in found] == [row["id"] for row in wanted]


async def test_a_cursor_is_good_for_its_question_alone(application: Application) -> None:
    path = await application.create()
    cursor = (await _ask(application, path, {"columns": ["id"], "limit": 5})).json()["next_cursor"]
    assert cursor
    for other in ({"columns": ["id", "name"]}, {"filters": [{"column": "id", "op": "gt", "value": 1}]}):
        refused = await _ask(application, path, other | {"cursor": cursor})
        assert problem_of(refused, 400)["code"] == "BAD_CURSOR"
    refused = await application.http.post(path, json={"cursor": cursor})
    assert problem_of(refused, 400)["code"] == "BAD_CURSOR"


async def test_every_format_of_streams(application: Application) -> None:
    path = await application.create()
    by_name = await _ask(application, path, BY_STATE | {"format": "csv"})
    assert by_name.text.splitlines()[:2] == ["state,count,sum_budget", f'"NJ",20,{_budget("NJ")}']
    by_header = await _ask(application, path, BY_STATE, accept="application/x-ndjson")
    *lines, summary = by_header.text.splitlines()
    assert len(lines) == 3 and orjson.loads(summary) == {"$summary": {"rows": 3, "complete": True}}
    for format_name in ("json", "arrow", "parquet"):
        assert (await _ask(application, path, BY_STATE | {"format": format_name})).raise_for_status().content
    cut = await _ask(application, path, {"columns": ["id"], "format": "csv", "offset": 3, "limit": 2})
    assert cut.text.split() == ["id", "4", "5"]


def _budget(state: str) -> int:
    return sum(row["budget"] for row in ROWS if row["state"] == state)


async def test_a_stream_of_an_answer_is_gone_on_with_by_its_own_question(application: Application) -> None:
    path = await application.create()
    parameters = {"columns": ["id"], "format": "ndjson"}
    token = (await _ask(application, path, parameters)).headers["dualsql-resume"]
    refused = await application.http.post(f"{path}/rows", json=parameters | {"resume": token, "after": 3})
    assert problem_of(refused, 400)["code"] == "BAD_CURSOR"


async def test_a_window_of_the_author_s_stays(application: Application) -> None:
    ten = select(INSTITUTIONS).order_by(INSTITUTIONS.c.id.desc()).limit(10)
    path = await application.create(ten)
    page = (await _ask(application, path, {"filters": [{"column": "id", "op": "le", "value": 55}]})).json()
    assert [row["id"] for row in page["data"]] == [55, 54, 53, 52, 51]
    page = (await _ask(application, path, {"aggregates": ["count"]})).json()
    assert page["data"] == [{"count": 10}]


async def test_a_result_of_groups_is_asked_like_any_other(application: Application) -> None:
    grouped = select(INSTITUTIONS.c.state, func.count().label("schools"), func.avg(INSTITUTIONS.c.enrollment))
    path = await application.create(grouped.group_by(INSTITUTIONS.c.state))
    question = {
        "filters": [
            {"column": "schools", "op": "ge", "value": 20},
            {"column": "avg", "op": "gt", "value": 1.5},
        ],
        "columns": ["state"],
    }
    page = (await _ask(application, path, question)).raise_for_status().json()
    assert page["data"] == [{"state": "NJ"}, {"state": "NY"}, {"state": "PA"}]


async def test_names_are_the_result_s_own(application: Application) -> None:
    other = INSTITUTIONS.alias("other")
    joined = select(INSTITUTIONS.c.id, other.c.id).join(other, INSTITUTIONS.c.id == other.c.id)
    path = await application.create(joined)
    names = [column["name"] for column in (await application.http.get(path)).json()["columns"]]
    page = (
        await _ask(application, path, {"columns": names[::-1], "order_by": [names[1]], "limit": 1})
    ).json()
    assert page["data"] == [dict.fromkeys(names[::-1], 1)]
    page = (await _ask(application, path, {"aggregates": [{"function": "max", "column": names[1]}]})).json()
    assert page["data"] == [{f"max_{names[1]}": 60}]


COLUMN = {"column": "name"}
REFUSED: list[tuple[Any, int, str]] = [
    ([], 400, "BAD_PARAMETER"),
    ({"filter": []}, 400, "BAD_PARAMETER"),
    ({"filters": "x"}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"value": None}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"op": "like", "value": "%"}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"value": 5}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"value": "a\x00b"}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"value": {"a": 1}}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"op": "in", "value": []}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"op": "in", "value": ["a"] * 1_001}]}, 413, "LIMIT_EXCEEDED"),
    ({"filters": [COLUMN | {"op": "between", "value": ["a"]}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "nmae", "value": "x"}]}, 422, "UNKNOWN_COLUMN"),
    ({"filters": [{"column": "id; DROP TABLE institutions", "value": 1}]}, 422, "UNKNOWN_COLUMN"),
    ({"filters": [{"column": "id", "value": 2**63}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "id", "value": True}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "id", "value": "1 OR 1=1"}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "id", "op": "contains", "value": 1}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "tuition", "value": "1e999999"}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"column": "founded", "value": "1900-13-01"}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"and": []}]}, 400, "BAD_PARAMETER"),
    ({"filters": [{"and": [COLUMN | {"value": "x"}], "or": []}]}, 400, "BAD_PARAMETER"),
    ({"filters": [COLUMN | {"value": "x"}] * 201}, 413, "LIMIT_EXCEEDED"),
    ({"columns": []}, 400, "BAD_PARAMETER"),
    ({"columns": ["id", "id"]}, 400, "BAD_PARAMETER"),
    ({"columns": ["nope"]}, 422, "UNKNOWN_COLUMN"),
    ({"columns": ["id"], "group_by": ["state"]}, 400, "BAD_PARAMETER"),
    ({"group_by": ["id"]}, 400, "BAD_PARAMETER"),
    ({"group_by": ["state"] * 2}, 400, "BAD_PARAMETER"),
    ({"group_by": ["state"], "aggregates": [{"function": "count", "as": "State"}]}, 400, "BAD_PARAMETER"),
    ({"group_by": [{"column": "founded", "bucket": "hour"}]}, 400, "BAD_PARAMETER"),
    ({"group_by": [{"column": "state", "bucket": "day"}]}, 400, "BAD_PARAMETER"),
    ({"group_by": [{"column": "founded", "bucket": "decade"}]}, 400, "BAD_PARAMETER"),
    ({"group_by": [{"column": str(number)} for number in range(9)]}, 413, "LIMIT_EXCEEDED"),
    ({"aggregates": [{"function": "sum"}]}, 400, "BAD_PARAMETER"),
    ({"aggregates": [{"function": "sum", "column": "name"}]}, 400, "BAD_PARAMETER"),
    ({"aggregates": [{"function": "median", "column": "name"}]}, 400, "BAD_PARAMETER"),
    ({"aggregates": [{"function": "percentile", "column": "id", "fraction": 1.5}]}, 400, "BAD_PARAMETER"),
    ({"aggregates": [{"function": "load_extension", "column": "name"}]}, 400, "BAD_PARAMETER"),
    ({"having": [{"column": "count", "op": "gt", "value": 1}]}, 400, "BAD_PARAMETER"),
    ({"aggregates": ["count"], "having": [{"column": "cuont", "value": 1}]}, 422, "UNKNOWN_COLUMN"),
    ({"aggregates": ["count"], "order_by": ["state"]}, 422, "UNKNOWN_COLUMN"),
    ({"order_by": ["nope"]}, 422, "UNKNOWN_COLUMN"),
    ({"order_by": ["id", "id"]}, 400, "BAD_PARAMETER"),
    ({"limit": 0}, 400, "BAD_PARAMETER"),
    ({"limit": -1}, 400, "BAD_PARAMETER"),
    ({"limit": 10**9}, 400, "BAD_PARAMETER"),
    ({"format": "xml"}, 400, "BAD_PARAMETER"),
]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("body", "status", "code"), REFUSED)
async def test_what_cannot_be_answered_is_refused(
    application: Application, body: Any, status: int, code: str
) -> None:
    path = await application.create()
    problem = problem_of(await _ask(application, path, body), status)
    assert problem["code"] == code


async def test_a_misspelt_name_comes_with_suggestions(application: Application) -> None:
    path = await application.create()
    problem = (await _ask(application, path, {"filters": [{"column": "enrolment", "value": 1}]})).json()
    assert problem["hint"] == "Did you mean 'enrollment'?"
    problem = (await _ask(application, path, {"agregates": []})).json()
    assert problem["hint"] == "Did you mean 'aggregates'?"
    problem = (await _ask(application, path, {"group_by": ["id"]})).json()
    assert "state" in problem["details"]["columns"]
    for operator, value in (("in", "NJ"), ("between", "NJ"), ("between", ["NJ"])):
        condition = {"column": "state", "op": operator, "value": value}
        problem = (await _ask(application, path, {"filters": [condition]})).json()
        assert f'"op": "{operator}", "value": [' in problem["hint"]


async def test_conditions_nested_without_end_are_refused_before_they_are_read(
    application: Application,
) -> None:
    path = await application.create()
    deep: dict[str, Any] = COLUMN | {"value": "x"}
    for _ in range(400):
        deep = {"not": deep}
    assert problem_of(await _ask(application, path, {"filters": [deep]}), 413)["code"] == "LIMIT_EXCEEDED"


async def test_wildcards_are_letters(application: Application) -> None:
    path = await application.create()
    for part in ("%", "_", "institution"):
        question = {"filters": [{"column": "name", "op": "contains", "value": part}]}
        assert (await _ask(application, path, question)).json()["data"] == []


async def test_letters_in_any_case(application: Application) -> None:
    path = await application.create()
    found = {}
    for operator, part in (("contains", "Institution"), ("contains_any_case", "iNSTITUTION")):
        question = {"filters": [{"column": "name", "op": operator, "value": part}]}
        found[operator] = (await _ask(application, path, question)).json()["data"]
    assert found["contains"] and found["contains"] == found["contains_any_case"]


@pytest.fixture
async def small(institutions_url: str) -> AsyncIterator[Application]:
    """A server that allows few groups."""
    async with running(institutions_url, maximum_groups=10, signed_links=True) as application:
        yield application


async def test_too_many_groups_are_refused(small: Application) -> None:
    path = await small.create(ALL)
    refused = await _ask(small, path, {"group_by": ["name"], "limit": 5})
    assert problem_of(refused, 413)["details"] == {"maximum_groups": 10}


async def test_a_signed_link_answers_no_questions(small: Application) -> None:
    path = await small.create(ALL)
    refused = await small.http.post(f"{path}/query?link=x", json={})
    assert problem_of(refused, 400)["code"] == "BAD_PARAMETER"


async def test_other_methods_and_other_resources(application: Application) -> None:
    path = await application.create()
    assert problem_of(await application.http.get(f"{path}/query"), 405)["code"] == "METHOD_NOT_ALLOWED"
    assert (await application.http.options(f"{path}/sql")).headers["allow"] == "OPTIONS, POST"
    unknown = await _ask(application, "/resources/" + "x" * 27, BY_STATE)
    assert problem_of(unknown, 404)["code"] == "RESOURCE_NOT_FOUND"


@pytest.mark.parametrize("value", ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01T00:00:00+00:00"])
async def test_an_instant_without_a_zone_is_in_utc(value: str, postgresql_url: str) -> None:
    metadata = MetaData()
    table = Table(
        "events", metadata, Column("id", Integer, primary_key=True), Column("at", DateTime(timezone=True))
    )
    midnight = datetime(2024, 1, 1, tzinfo=UTC)
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(
            insert(table), [{"id": 1, "at": midnight}, {"id": 2, "at": midnight - timedelta(1)}]
        )
    async with DualResponseServer(postgresql_url, base_url="http://127.0.0.1/r", tables=metadata) as dual:
        parent = await dual.create_response(select(table), name="x")
        question = {"filters": [{"column": "at", "op": "ge", "value": value}], "columns": ["id"]}
        response = await dual.create_response(name="y", parent=parent.resource_uri, refinement=question)
    assert response.sample == [{"id": 1}]
