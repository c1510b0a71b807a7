"""Results made of results. Each is complete, obeys whom its parent obeys, and outlives it."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import DateTime, String, TypeDecorator, func, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column

from dualsql import (
    BadParameterError,
    LimitExceededError,
    Principal,
    ResourceNotFoundError,
    Shared,
    UnknownColumnError,
)
from dualsql.errors import ConfigurationError
from tests.engines import opened
from tests.http.application import ALL, INSTITUTIONS, ROWS, Application, problem_of, running
from tests.query.readings import ALL as READINGS_ALL, TENANTS, person, rows_of

BIG: dict[str, Any] = {"filters": [{"column": "id", "op": "gt", "value": 50}]}
REFINEMENTS: list[dict[str, Any]] = [
    BIG,
    {"columns": ["name", "id"], "order_by": [{"column": "id", "order": "desc"}], "limit": 3, "offset": 1},
    {"group_by": ["state"], "aggregates": ["count", {"function": "avg", "column": "enrollment"}]},
    {
        "group_by": [
            {"column": "founded", "bucket": unit} for unit in ("year", "quarter", "month", "week", "day")
        ],
        "aggregates": [
            {"function": function, "column": "budget"}
            for function in ("sum", "min", "max", "count", "count_distinct")
        ],
        "having": [{"column": "count_budget", "op": "gt", "value": 1}],
    },
    {
        "filters": [
            {
                "not": {
                    "or": [
                        {"column": "name", "op": "contains", "value": "1"},
                        {"column": "state", "value": "NJ"},
                    ]
                }
            }
        ]
    },
    {
        "sql": "SELECT state, count(*) AS n FROM data WHERE id < :most GROUP BY state",
        "parameters": {"most": 48},
    },
]
STATEMENTS = {
    "rows": ALL,
    "cut": select(INSTITUTIONS).order_by(INSTITUTIONS.c.name.desc()).limit(20),
    "merged": select(INSTITUTIONS).distinct(),
    "numbered": select(INSTITUTIONS, func.row_number().over(order_by=INSTITUTIONS.c.id).label("number")),
}


async def _rows(application: Application, path: str, **headers: str) -> list[dict[str, Any]]:
    page = await application.http.get(f"{path}?limit=1000", headers=headers)
    rows: list[dict[str, Any]] = page.raise_for_status().json()["data"]
    return rows


@pytest.mark.quick(1)
@pytest.mark.parametrize("refinement", REFINEMENTS, ids=range(len(REFINEMENTS)))
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
async def test_a_child_holds_what_its_parent_would_answer(
    application: Application, statement: Any, refinement: dict[str, Any]
) -> None:
    path = await application.create(statement)
    answer = await application.http.post(f"{path}/refine", json=refinement | {"name": "Fewer"})
    assert answer.status_code == 201, answer.text
    kind = "sql" if "sql" in refinement else "query"
    asked = {key: value for key, value in refinement.items() if key not in {"limit", "offset"}}
    answered = (await application.http.post(f"{path}/{kind}", json=asked | {"limit": 1000})).json()["data"]
    first = refinement.get("offset", 0)
    wanted = answered[first : first + refinement.get("limit", 1000)]
    actual = await _rows(application, f"/resources/{answer.json()['resource']['uri'].rpartition('/')[2]}")
    assert actual == wanted and actual
    assert answer.headers["location"] == answer.json()["resource"]["url"]


async def test_a_child_of_a_child_knows_where_it_comes_from(application: Application) -> None:
    server = application.server
    first = await server.create_response(ALL, name="All")
    second = await server.create_response(name="Some", parent=first.resource_uri, refinement=BIG)
    parent = await server.unchecked.get(second.resource_id)
    assert parent is not None
    third = await server.create_response(
        name="Per state", parent=parent, refinement={"group_by": ["state"], "aggregates": ["count"]}
    )
    resource = await server.unchecked.get(third.resource_id)
    assert resource is not None
    assert resource.metadata["lineage"] == {
        "parent": second.resource_uri,
        "depth": 2,
        "refinement": "count for each state",
    }
    assert parent.metadata["lineage"]["refinement"] == "where id is above 50"
    assert sum(row["count"] for row in third.sample) == 10
    metadata = (await application.http.get(f"/resources/{third.resource_id}")).json()["metadata"]
    assert metadata["lineage"]["depth"] == 2


async def test_a_pinned_child_outlives_its_parent(application: Application) -> None:
    path = await application.create()
    uri = (await application.http.post(f"{path}/refine", json=BIG)).json()["resource"]["uri"]
    child = f"/resources/{uri.rpartition('/')[2]}"
    await application.http.put(child)
    assert (await application.http.delete(path)).status_code == 204
    assert [row["id"] for row in await _rows(application, child)] == list(range(51, 61))
    assert problem_of(await application.http.post(f"{path}/refine", json=BIG), 404)


@pytest.mark.quick(1, "sqlite")
async def test_each_child_is_its_principal_s_alone_on_every_engine(readings: Application) -> None:
    for tenant, other in (TENANTS, TENANTS[::-1]):
        ada = {"x-user": "ada", "x-tenant": tenant}
        path = await readings.create(READINGS_ALL, principal=person(tenant))
        question = {
            "filters": [{"column": "secret", "op": "is_null"}],
            "group_by": ["tenant", {"column": "day", "bucket": "year"}],
            "aggregates": [
                "count",
                {"function": "sum", "column": "big"},
                {"function": "min", "column": "text"},
            ],
        }
        answer = await readings.http.post(f"{path}/refine", json=question, headers=ada)
        assert answer.status_code == 201, answer.text
        child = f"/resources/{answer.json()['resource']['uri'].rpartition('/')[2]}"
        rows = await _rows(readings, child, **ada)
        assert {row["tenant"] for row in rows} == {tenant}
        assert sum(row["count"] for row in rows) == len(rows_of(tenant))
        for stranger in ({}, {"x-user": "ada", "x-tenant": other}, {"x-user": "bob", "x-tenant": tenant}):
            assert problem_of(await readings.http.get(child, headers=stranger), 404)
            assert problem_of(
                await readings.http.post(f"{path}/refine", json=question, headers=stranger), 404
            )


async def test_what_cannot_be_refined(application: Application) -> None:
    server = application.server
    response = await server.create_response(ALL, name="All")
    for options in (
        {},
        {"parent": response.resource_uri},
        {"refinement": BIG},
        {"parent": response.resource_uri, "refinement": {"filter": []}},
    ):
        with pytest.raises(BadParameterError):
            await server.create_response(name="None", **options)
    with pytest.raises(BadParameterError):
        await server.create_response(ALL, name="Both", parent=response.resource_uri, refinement=BIG)
    with pytest.raises(UnknownColumnError):
        await server.create_response(
            name="No", parent=response.resource_uri, refinement={"columns": ["nmae"]}
        )
    for unknown in ("resource://" + "x" * 27, "../../etc/passwd", "x' OR '1'='1"):
        with pytest.raises(ResourceNotFoundError):
            await server.create_response(name="No", parent=unknown, refinement=BIG)
    mine = await server.create_response(ALL, name="Mine", principal=Principal(id="ada"))
    with pytest.raises(ResourceNotFoundError):
        await server.create_response(name="Theirs", parent=mine.resource_uri, refinement=BIG)


@pytest.fixture
async def strict(institutions_url: str) -> AsyncIterator[Application]:
    """A server that lets little be refined."""
    async with running(institutions_url, maximum_refinements=3, maximum_refinement_depth=2) as application:
        yield application


async def test_depth_and_number_are_bounded(strict: Application) -> None:
    server = strict.server
    uri = (await server.create_response(ALL, name="All")).resource_uri
    deeper = uri
    for _ in range(2):
        deeper = (await server.create_response(name="Deeper", parent=deeper, refinement=BIG)).resource_uri
    with pytest.raises(LimitExceededError, match="2 times"):
        await server.create_response(name="Too deep", parent=deeper, refinement=BIG)
    for _ in range(2):
        await server.create_response(name="Wider", parent=uri, refinement=BIG)
    with pytest.raises(LimitExceededError, match="too often"):
        await server.create_response(name="Too many", parent=uri, refinement=BIG)


async def test_functions_that_narrow_know_only_statements_of_tools(institutions_url: str) -> None:
    def narrowed(statement: Any, context: Any) -> Any:
        return statement.where(INSTITUTIONS.c.state == "NJ")

    async with running(institutions_url, hooks=(narrowed, Shared(INSTITUTIONS))) as application:
        path = await application.create()
        page = await application.http.post(f"{path}/query", json={"aggregates": ["count"]})
        assert page.json()["data"] == [{"count": sum(row["state"] == "NJ" for row in ROWS)}]
        with pytest.raises(ConfigurationError):
            await application.server.create_response(
                name="No", parent=path.rpartition("/")[2], refinement=BIG
            )


class Color(enum.Enum):
    red = "r"
    blue = "b"


class Shouted(TypeDecorator[str]):
    """Texts that are bound in capitals."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value.upper()


class Instant(TypeDecorator[datetime]):
    """Instants in UTC, where the database has no zones too."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """Of a class with types of its own."""


class Job(Base):
    """Its column `initial` has no name in SQL."""

    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(primary_key=True)
    color: Mapped[Color]
    word = mapped_column(Shouted(20))
    at = mapped_column(Instant)


Job.initial = column_property(func.substr(Job.word, 1, 1))

AGAIN: dict[str, dict[str, Any]] = {
    "all": {"sql": "SELECT * FROM data WHERE word IS NOT NULL ORDER BY at"},
    "alias": {"sql": "SELECT a.* FROM data a WHERE a.id IN (SELECT a.id FROM data a WHERE a.at IS NOT NULL)"},
    "with": {
        "sql": "WITH found AS (SELECT * FROM data) SELECT found.* FROM found JOIN (SELECT 1 AS one) x ON x.one < 2"
    },
    "united": {"sql": "SELECT id, color, word, at FROM data UNION SELECT id, color, word, at FROM data"},
    "cut": {"columns": ["at", "word", "id", "color"], "order_by": ["at"], "limit": 3},
    "equal": {"filters": [{"column": "word", "op": "ne", "value": "B"}], "order_by": ["word"]},
    "groups": {
        "group_by": ["word", "color"],
        "aggregates": ["min(id) AS id", "max(at) AS at", "min(word) AS first"],
        "order_by": ["first"],
    },
}


@pytest.mark.long
@pytest.mark.parametrize("first", AGAIN)
async def test_results_with_types_of_their_own_are_refined_again_and_again(
    source_url: str, first: str
) -> None:
    """The types are not registered. Two relations of one name, and texts under a collation, were NOT_FREEZABLE."""
    async with opened(source_url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            rows = [
                {"id": n, "color": color, "word": word, "at": datetime(2024, 1, n, 12, tzinfo=UTC)}
                for n, (color, word) in enumerate(zip([*Color, *Color], "aabc", strict=True), 1)
            ]
            await connection.execute(insert(Job), rows)
        async with running(engine, tables=Base) as application:
            parent = await application.create(select(Job))
            for path in [(first, second, "all") for second in AGAIN]:
                actual = parent
                for step in path:
                    asked = AGAIN[step]
                    kind = "sql" if "sql" in asked else "query"
                    answered = await application.http.post(f"{actual}/{kind}", json=asked)
                    answer = await application.http.post(f"{actual}/refine", json={**asked, "name": step})
                    assert answer.status_code == 201, (path, step, answer.text)
                    actual = urlsplit(answer.json()["resource"]["url"]).path
                    page = await application.http.get(f"{actual}?limit=100")
                    assert page.status_code == answered.status_code == 200, (path, page.text, answered.text)
                    assert page.json()["data"] == answered.json()["data"], (path, step)
