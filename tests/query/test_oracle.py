"""Every answer equals what polars makes of the full rows. On every engine, for every tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dualsql.formats.json import dumps, loads
from dualsql.query import read_structured_query
from dualsql.resource import Resource
from dualsql.results.pages import PageRequest, ResultPage
from dualsql_client.ndjson import decode_rows
from tests.http.application import Application
from tests.query import oracle
from tests.query.readings import ALL, TENANTS, person, rows_of
from tests.query.specifications import as_json, for_polars, groups_asked, rows_asked

pytestmark = pytest.mark.quick(50, "sqlite")

_ANY: Any = {"deadline": None, "suppress_health_check": list(HealthCheck)}
any_question = given(spec=st.one_of(rows_asked(), groups_asked()))


_KNOWN: dict[tuple[int, str], Resource] = {}


async def _resource(application: Application, tenant: str) -> Resource:
    """The tenant's result; stored once, however many questions there are."""
    key = (id(application), tenant)
    if key not in _KNOWN:
        _KNOWN[key] = await _created(application, tenant)
    return _KNOWN[key]


async def _created(application: Application, tenant: str) -> Resource:
    response = await application.server.create_response(ALL, name="Readings", principal=person(tenant))
    resource = await application.server.unchecked.get(response.resource_id)
    assert resource is not None
    return resource


async def _answered(
    application: Application, resource: Resource, spec: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The whole answer, by a page as JSON has it."""
    question = read_structured_query(as_json(spec))
    principal = person(resource.tenant or "")
    page = await application.server.queries.page_unchecked(
        resource, question, PageRequest(limit=1_000), principal=principal
    )
    wire = loads(dumps(page.to_wire()))
    return decode_rows(wire["data"], wire["columns"])


def _same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    return len(found) == len(wanted) and all(
        list(one) == list(other) and all(_equal(one[name], other[name]) for name in one)
        for one, other in zip(found, wanted, strict=True)
    )


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and wanted is not None:
        return bool(found == pytest.approx(float(wanted), rel=1e-9, abs=1e-9))
    return bool((str(found) if isinstance(found, UUID) else found) == wanted)


async def _check(application: Application, spec: dict[str, Any]) -> None:
    database = application.server.parts.sources["default"].capabilities.name
    lower = oracle.lower_ascii if database == "SQLite" else oracle.lower_by_letter
    for tenant in TENANTS:
        resource = await _resource(application, tenant)
        answer = await _answered(application, resource, spec)
        wanted = oracle.answer(for_polars(spec), rows_of(tenant), lower=lower)
        assert _same(answer, wanted), f"{as_json(spec)}\n{answer[:8]}\n{wanted[:8]}"


@pytest.mark.quick(1, "sqlite")
@settings(max_examples=40, **_ANY)
@any_question
async def test_any_answer_is_that_of_the_full_rows(readings: Application, spec: dict[str, Any]) -> None:
    await _check(readings, spec)


@pytest.mark.exhaustive
@settings(max_examples=800, **_ANY)
@any_question
async def test_two_thousand_answers_are_those_of_the_full_rows(
    readings: Application, spec: dict[str, Any]
) -> None:
    await _check(readings, spec)


@pytest.mark.parametrize(
    "order", [[], ["count"], [{"column": "avg_ratio", "order": "desc"}, {"column": "word", "order": "desc"}]]
)
@pytest.mark.parametrize("having", [[], [{"column": "count", "op": "gt", "value": 1}]])
async def test_pages_joined_are_all_groups(readings: Application, order: Any, having: Any) -> None:
    """Groups with equal and missing values of their keys and aggregates, forward and backward."""
    resource = await _resource(readings, TENANTS[0])
    question = read_structured_query({
        "group_by": ["word", {"column": "day", "bucket": "year"}, "flag"],
        "aggregates": ["count", {"function": "avg", "column": "ratio"}],
        "order_by": order,
        "having": having,
    })  # fmt: skip

    async def page(request: PageRequest) -> ResultPage:
        return await readings.server.queries.page_unchecked(
            resource, question, request, principal=person(TENANTS[0])
        )

    def place(cursor: str | None, offset: int) -> PageRequest:
        # MariaDB has no cursors of doubles.
        return PageRequest(limit=7, cursor=cursor) if cursor else PageRequest(limit=7, offset=offset)

    groups = (await page(PageRequest(limit=1_000))).rows
    pages = [await page(PageRequest(limit=7))]
    while pages[-1].has_next:
        last = pages[-1]
        pages.append(await page(place(last.next_cursor, last.offset + 7)))
    assert [row for each in pages for row in each.rows] == groups and len(pages) > 2
    backward = pages[-1:]
    while backward[0].has_previous:
        first = backward[0]
        backward.insert(0, await page(place(first.previous_cursor, first.offset - 7)))
    assert [row for each in backward for row in each.rows] == groups
