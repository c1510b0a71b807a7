"""The tables of aggregates, operators and buckets: each row is accepted, described and answered everywhere."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, get_args

import pytest
from mcp.server import MCPServer
from sqlalchemy import Column, Date, DateTime, Integer, MetaData, String, Table, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.charts.chart import read_chart
from dualsql.errors import BadParameterError
from dualsql.query import read_result_query
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.mcp import add_result_tools
from dualsql.query.model import BUCKETS, NOT_HERE, OPERATORS, StructuredQuery
from dualsql_client.query import Compared, where
from dualsql_client.wire_requests import Bucket, Operator
from tests.http.application import Application, problem_of, running

pytestmark = pytest.mark.quick(50, "sqlite")

DOCS = Path(__file__).parents[2] / "docs"
METADATA = MetaData()
DAYS = Table(
    "days",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("day", Date),
    Column("at", DateTime),
    Column("size", Integer),
    Column("word", String(10)),
)
SIZES = [1, 2, 4, 8, 16]
VALUES: dict[str, Any] = {"one": 4, "several": [2, 4], "two": [2, 8], "flag": None}


@pytest.fixture
async def days(source_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncIterator[Application]:
    """Five days, once for every database."""
    async with make_engine(source_url).begin() as connection:
        await connection.run_sync(METADATA.create_all)
        rows = [
            {
                "id": n,
                "day": date(2024, 5, n),
                "at": datetime.fromisoformat(f"2024-05-0{n}T07:30"),
                "size": size,
                "word": f"w{n}",
            }
            for n, size in enumerate(SIZES, 1)
        ]
        await connection.execute(insert(DAYS), rows)
    async with running(source_url, tables=METADATA) as application:
        yield application


async def answer(application: Application, path: str, **question: Any) -> Any:
    """The rows of the answer, or the problem."""
    got = await application.http.post(f"{path}/query", json=question)
    return got.json()["data"] if got.status_code == 200 else problem_of(got, 400)


def spelled(name: str, column: str = "size") -> dict[str, Any]:
    """An aggregate of the column."""
    fraction = {"fraction": 0.25} if AGGREGATES[name].takes_fraction else {}
    return {"function": name, "column": column, "as": "found", **fraction}


def condition(name: str) -> dict[str, Any]:
    """A condition with a value of the kind that the operator takes."""
    known = OPERATORS[name]  # type: ignore[index]
    column, value = ("word", "w") if known.kind == "text" else ("size", VALUES[known.takes])
    return {"column": column, "op": name, "value": value}


@pytest.mark.parametrize(("table", "spellings"), [(OPERATORS, Operator), (BUCKETS, Bucket)])
def test_the_client_spells_each_row_and_no_other(table: Iterable[str], spellings: Any) -> None:
    assert list(table) == list(get_args(spellings)), "write the new name in dualsql_client.wire_requests"


def test_the_client_writes_a_condition_of_every_operator() -> None:
    methods = [name for name in vars(Compared) if not name.startswith("_")]
    arguments: dict[str, Any] = {"one_of": ([1, 2],), "between": (1, 2), "is_null": ()}
    written = [getattr(where("size"), name)(*arguments.get(name, ("w",))).to_json() for name in methods]
    assert {one["op"] for one in written} == set(OPERATORS)
    for one in written:
        read_result_query({"filters": [one]})


@pytest.mark.parametrize("name", AGGREGATES)
def test_each_aggregate_is_read_in_a_question_and_in_a_chart(name: str) -> None:
    read_result_query({"aggregates": [spelled(name)]})
    chart = {"mark": "bar", "x": "word", "y": {"aggregate": name, "field": "size"}}
    if AGGREGATES[name].takes_fraction:
        with pytest.raises(BadParameterError):
            read_chart(chart)
    else:
        assert read_chart(chart).aggregate == name


@pytest.mark.parametrize("name", BUCKETS)
def test_each_bucket_is_read_in_a_question_and_in_a_chart(name: str) -> None:
    read_result_query({"group_by": [{"column": "day", "bucket": name}]})
    chart = {"mark": "line", "x": {"field": "day", "bucket": name}, "y": {"aggregate": "count"}}
    assert read_chart(chart).bucket == name


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_is_read_by_its_name_and_its_signs(name: str) -> None:
    wanted = read_result_query({"filters": [condition(name)]})
    known = OPERATORS[name]  # type: ignore[index]
    for sign in known.signs:
        assert read_result_query({"filters": [condition(name) | {"op": sign}]}) == wanted
        assert (
            read_result_query({"filters": [condition(name) | {"op": sign.upper().replace("_", " ")}]})
            == wanted
        )
    for word in known.negations:
        negated = read_result_query({"filters": [condition(name) | {"op": word}]})
        assert negated == read_result_query({"filters": [{"not": condition(name)}]})
    for word in known.opposites:
        opposite = read_result_query({"filters": [condition(name) | {"op": word}]})
        assert opposite == read_result_query({"filters": [condition(name) | {"value": False}]})


@pytest.mark.parametrize("name", AGGREGATES)
def test_each_aggregate_is_read_by_its_other_spellings_and_as_a_call(name: str) -> None:
    known = AGGREGATES[name]
    wanted = read_result_query({"aggregates": [spelled(name)]})
    for sign in (*known.signs, name.upper()):
        assert read_result_query({"aggregates": [spelled(name) | {"function": sign}]}) == wanted
        if not known.takes_fraction:
            assert read_result_query({"aggregates": f"{sign}(size) AS found"}) == wanted


def test_no_spelling_means_two_things() -> None:
    operators = [
        word
        for name, known in OPERATORS.items()
        for word in (name, *known.signs, *known.opposites, *known.negations)
    ]
    functions = [word for name, known in AGGREGATES.items() for word in (name, *known.signs)]
    for words in ([*operators, *NOT_HERE], functions):
        assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"aggregates": "count"}, {"aggregates": [{"function": "count"}]}),
        ({"aggregates": ["COUNT(*)"]}, {"aggregates": [{"function": "count"}]}),
        (
            {"aggregates": "count(distinct word)"},
            {"aggregates": [{"function": "count_distinct", "column": "word"}]},
        ),
        (
            {"group_by": "word", "aggregates": ["avg(size)"], "order_by": "avg(size) desc"},
            {
                "group_by": ["word"],
                "aggregates": [{"function": "avg", "column": "size"}],
                "order_by": [{"column": "avg_size", "order": "desc"}],
            },
        ),
        ({"columns": "City, State"}, {"columns": ["City, State"]}),
        ({"order_by": "-size"}, {"order_by": [{"column": "size", "order": "desc"}]}),
        (
            {"order_by": ["size DESC", "word asc"]},
            {"order_by": [{"column": "size", "order": "desc"}, "word"]},
        ),
        (
            {"order_by": [{"field": "size", "direction": "descending"}]},
            {"order_by": [{"column": "size", "order": "desc"}]},
        ),
        (
            {"filters": {"field": "size", "operator": ">", "value": 1}},
            {"filters": {"column": "size", "op": "gt", "value": 1}},
        ),
        (
            {"filters": '[{"column": "size", "value": 1}]'},
            {"filters": [{"column": "size", "op": "eq", "value": 1}]},
        ),
        (
            {"group_by": [{"column": "day", "bucket": "MONTH"}]},
            {"group_by": [{"column": "day", "bucket": "month"}]},
        ),
    ],
)
def test_what_models_write_is_understood(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert read_result_query(written) == read_result_query(meant)


def test_names_that_are_almost_calls_are_read_at_once() -> None:
    """A pattern without possessive quantifiers tries each way to share out the spaces: 0.2 s for this question."""
    names = [f"sum(distinct{120 * ' '}){120 * ' '}{letter}" for letter in "abcdefghijklmnop"]
    started = time.process_time()
    query = read_result_query({"aggregates": "count", "order_by": names})
    assert time.process_time() - started < 0.1
    assert isinstance(query, StructuredQuery)
    assert [key.column for key in query.order] == names


def test_a_column_that_looks_like_words_of_an_order_is_named_in_an_object() -> None:
    read = read_result_query(
        {"order_by": [{"column": "-size"}, {"column": "size desc"}, {"column": "count(*)"}]}
    )
    assert [key.column for key in read.order] == ["-size", "size desc", "count(*)"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ({"filters": {"state": "NJ"}}, 'Write {"column": "state", "op": "eq", "value": "NJ"}.'),
        ({"filters": ["state = 'NJ'"]}, 'Such as "filters": [{"column"'),
        ({"filters": [{"column": "word", "op": "like", "value": "a%"}]}, "Use contains or starts_with"),
        ({"filters": [{"column": "word", "op": "near", "value": "a"}]}, "op is one of: eq, ne, "),
        ({"aggregates": ["stddev(size)"]}, "function is one of: count, "),
        ({"aggregates": [{"price": "sum"}]}, 'Write {"function": "sum", "column": "price"}.'),
        ({"aggregates": [{"sum": "price"}]}, 'Write {"function": "sum", "column": "price"}.'),
        ({"aggregates": [{"sum": "size"}]}, 'Write {"function": "sum", "column": "size"}.'),
        ({"aggregates": [{"size": "sum"}]}, 'Write {"function": "sum", "column": "size"}.'),
        ({"aggregates": [{"total": "n"}]}, 'Write {"function": "total", "column": "n"}.'),
    ],
)
def test_what_cannot_be_understood_is_answered_with_what_can(written: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadParameterError) as refused:
        read_result_query(written)
    assert refused.value.hint.startswith(hint)


async def test_the_model_s_tool_names_every_row(application: Application) -> None:
    server = MCPServer("tables")
    add_result_tools(application.server, server)
    (tool,) = [tool for tool in await server.list_tools() if tool.name == "query_result"]
    descriptions = {
        name: part.get("description", "") for name, part in tool.input_schema["properties"].items()
    }
    for key, table in (("filters", OPERATORS), ("aggregates", AGGREGATES), ("group_by", BUCKETS)):
        words = re.findall(r"\w+", descriptions[key])
        assert [name for name in table if name not in words] == []


def test_the_documents_name_every_row() -> None:
    asking = (DOCS / "querying.md").read_text(encoding="utf-8")
    assert [name for name in (*OPERATORS, *AGGREGATES) if f"`{name}`" not in asking] == []
    charts = (DOCS / "charts.md").read_text(encoding="utf-8")
    charted = [name for name, known in AGGREGATES.items() if not known.takes_fraction]
    for text, table in ((asking, BUCKETS), (charts, BUCKETS), (charts, charted)):
        assert [name for name in table if not re.search(rf"\b{name}\b", text)] == []


async def test_each_row_is_answered_by_each_database(days: Application) -> None:
    path = await days.create(select(DAYS))
    dialect = days.server.parts.sources["default"].capabilities.query
    figures = {
        "count": 5, "count_distinct": 5, "sum": sum(SIZES), "avg": fmean(SIZES), "min": 1, "max": 16,
        "median": median(SIZES), "percentile": 2,
    }  # fmt: skip
    for name in AGGREGATES:
        actual = await answer(days, path, aggregates=[spelled(name)])
        if dialect.aggregates.get(name, actual) is None:
            assert actual["details"]["function"] == name
        else:
            assert float(actual[0]["found"]) == figures[name]
    rows = {
        "eq": [3], "ne": [1, 2, 4, 5], "lt": [1, 2], "le": [1, 2, 3], "gt": [4, 5], "ge": [3, 4, 5], "in": [2, 3],
        "between": [2, 3, 4], "contains": [1, 2, 3, 4, 5], "contains_any_case": [1, 2, 3, 4, 5],
        "starts_with": [1, 2, 3, 4, 5], "is_null": [],
    }  # fmt: skip
    for operator in OPERATORS:
        actual = await answer(days, path, filters=[condition(operator)])
        assert [row["id"] for row in actual] == rows[operator]
    for bucket in BUCKETS.values():
        groups = [{"column": "at", "bucket": bucket.name, "as": "cut"}]
        cut = await answer(days, path, group_by=groups)
        assert len(cut) == (5 if bucket.name in ("day", "hour") else 1)
        refused = await answer(days, path, group_by=[{"column": "day", "bucket": bucket.name}])
        assert isinstance(refused, dict) is bucket.needs_time


async def test_an_aggregate_is_added_by_one_row(days: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    half: Any = "half"
    added = replace(
        AGGREGATES["avg"], name=half, write=lambda call: func.sum(call.values, type_=call.type) / 2
    )
    monkeypatch.setitem(AGGREGATES, half, added)
    path = await days.create(select(DAYS))
    assert (await answer(days, path, aggregates=[spelled("half")]))[0]["found"] == sum(SIZES) / 2
    words = await answer(days, path, aggregates=[spelled("half", "word")])
    assert words["details"]["function"] == "half"
    chart = read_chart({"mark": "bar", "x": "word", "y": {"aggregate": "half", "field": "size"}})
    assert chart.aggregate == half
    dialect = days.server.parts.sources["default"].capabilities.query
    monkeypatch.setitem(
        dialect.aggregates, half, lambda values, _fraction: func.sum(values, type_=added.result) / 2.0 + 1
    )
    path = await days.create(select(DAYS).where(DAYS.c.id > 0))
    assert (await answer(days, path, aggregates=[spelled("half")]))[0]["found"] == sum(SIZES) / 2 + 1


async def test_an_operator_is_added_by_one_row(days: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whole numbers, texts and instants, which databases keep and compare in different ways."""
    beyond: Any = "beyond"
    monkeypatch.setitem(OPERATORS, beyond, replace(OPERATORS["gt"], name=beyond, signs=()))
    path = await days.create(select(DAYS))
    for column in ("size", "word", "at"):
        rows = await answer(days, path, filters=[{"column": "id", "op": "eq", "value": 3}])
        asked = [{"column": column, "op": "beyond", "value": rows[0][column]}]
        wanted = await answer(days, path, filters=[asked[0] | {"op": "gt"}])
        assert await answer(days, path, filters=asked) == wanted != []


async def test_a_chart_draws_the_median(days: Application) -> None:
    result = await days.server.create_response(select(DAYS), name="Days")
    chart = {
        "mark": "bar",
        "x": {"field": "day", "bucket": "month"},
        "y": {"aggregate": "median", "field": "size"},
    }
    response = await days.server.charts.create(result, chart)
    assert [row["y"] for row in response.sample] == [median(SIZES)]
