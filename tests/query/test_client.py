"""The client asks a real server. What a program writes with Python's values comes back with them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from dualsql_client import DualResponseClient, FetchError, NotConfiguredError, ParsedDualResponse, where
from dualsql_client.query import plain_value
from tests.http.application import BASE_URL, INSTITUTIONS, ROWS, Application


async def _parsed(application: Application, statement: Any = None) -> ParsedDualResponse:
    statement = select(INSTITUTIONS) if statement is None else statement
    response = await application.server.create_response(statement, name="Institutions")
    client = DualResponseClient(BASE_URL, http=application.http)
    return client.parse(response.to_mcp_tool_result(), strict=True)


async def test_figures_of_groups(application: Application) -> None:
    result = await _parsed(application)
    page = await result.query(
        filters=where("state").one_of(["NJ", "NY"]) & ~where("enrollment").is_null(),
        group_by=["state", {"column": "founded", "bucket": "year"}],
        aggregates=["count", {"function": "sum", "column": "tuition", "as": "paid"}],
        order_by=[{"column": "state", "order": "desc"}],
        typed=True,
    )
    kept = [row for row in ROWS if row["state"] in {"NJ", "NY"} and row["enrollment"] is not None]
    assert [row["state"] for row in page.data] == ["NY", "NJ"]
    assert page.data[0]["founded_year"] == date(1900, 1, 1)
    assert page.data[0]["paid"] == sum(row["tuition"] for row in kept if row["state"] == "NY")
    assert sum(row["count"] for row in page.data) == len(kept)


async def test_every_row_of_an_answer(application: Application) -> None:
    result = await _parsed(application)
    rows = await result.query_all(
        page_size=7, columns=["id"], filters=where("tuition").between(Decimal("5.10"), Decimal("40.10"))
    )
    assert [row["id"] for row in rows] == list(range(5, 41))
    # An order that has no cursors is read on by offset.
    cut = await _parsed(application, select(INSTITUTIONS.c.id).order_by(INSTITUTIONS.c.id).limit(20))
    assert len(await cut.query_all(page_size=6, filters=where("id").gt(3))) == 17


async def test_sql(application: Application) -> None:
    result = await _parsed(application)
    page = await result.sql(
        "SELECT state, count(*) AS n FROM data WHERE id <= :most GROUP BY state ORDER BY state",
        parameters={"most": 30},
        limit=2,
    )
    assert page.data == [{"state": "NJ", "n": 10}, {"state": "NY", "n": 10}] and page.has_next


async def test_refinements_in_a_row(application: Application) -> None:
    result = await _parsed(application)
    some = await result.refine(name="Some", filters=[where("id").gt(40), {"column": "state", "value": "NJ"}])
    fewer = await some.refine(columns=["id"], order_by=[{"column": "id", "order": "desc"}], limit=2)
    assert some.name == "Some" and some.resource_uri != result.resource_uri
    assert [row["id"] for row in await fewer.fetch_all()] == [60, 57]
    assert fewer.total_count == 2 and fewer.expires_at is not None
    assert (await some.query(aggregates=["count"])).data == [{"count": some.total_count}]


async def test_what_cannot_be_asked(application: Application) -> None:
    result = await _parsed(application)
    with pytest.raises(FetchError) as unknown:
        await result.query(filters=where("stat").eq("NJ"))
    assert unknown.value.status == 422 and "Did you mean 'state'" in str(unknown.value.hint)
    with pytest.raises(ValueError, match="either a cursor"):
        await result.query(offset=3, cursor="x")
    response = await application.server.create_response(select(INSTITUTIONS), name="x")
    parsed = DualResponseClient().parse(response.to_mcp_tool_result(), strict=True)
    with pytest.raises(NotConfiguredError):
        await parsed.refine()


def test_values_are_written_as_results_show_them() -> None:
    written = {
        date(2026, 1, 31): "2026-01-31",
        datetime(2026, 1, 31, 8, tzinfo=UTC): "2026-01-31T08:00:00+00:00",
        time(8, 30): "08:30:00",
        timedelta(days=-1, microseconds=1): "-P0DT86399.999999S",
        Decimal("1.50"): "1.50",
        UUID(int=1): "00000000-0000-0000-0000-000000000001",
        b"\xff": "/w==",
        5: 5,
        "x": "x",
    }
    for value, text in written.items():
        assert plain_value(value) == text
    assert repr(~where("a").eq(1) | where("b").contains("x")) == (
        "Condition({'or': [{'not': {'column': 'a', 'op': 'eq', 'value': 1}}, "
        "{'column': 'b', 'op': 'contains', 'value': 'x'}]})"
    )


async def test_conditions_as_json_may_have_the_values_of_others(application: Application) -> None:
    result = await _parsed(application)
    between = where("founded").between(date(1900, 1, 1), date(2999, 1, 1))
    one_of = where("tuition").one_of([Decimal("5.10"), Decimal("6.10")])
    for column, operator, value, same in (
        ("founded", "between", (date(1900, 1, 1), date(2999, 1, 1)), between),
        ("tuition", "in", [Decimal("5.10"), Decimal("6.10")], one_of),
    ):
        rows = await result.query_all(filters=[{"and": [{"column": column, "op": operator, "value": value}]}])
        assert rows and rows == await result.query_all(filters=same)
    with pytest.raises(FetchError) as caught:
        await result.query_all(filters=[{"column": "tuition", "op": "lt", "value": float("nan")}])
    assert caught.value.code == "BAD_PARAMETER"


async def test_no_part_of_a_question_is_left_out(application: Application) -> None:
    result = await _parsed(application)
    one: Any = {"column": "id", "op": "eq", "value": 5}
    assert [row["id"] for row in (await result.query(filters=one)).data] == [5]
    wrong: list[dict[str, Any]] = [{"filters": 5}, {"columns": 5}]
    for question in wrong:
        with pytest.raises(FetchError) as error:
            await result.query(**question)
        assert error.value.code == "BAD_PARAMETER", question
    misspelt: list[dict[str, Any]] = [{"fliters": [one]}, {"limits": 3}]
    for question in misspelt:
        with pytest.raises(TypeError, match="Did you mean"):
            await result.query(**question)
