"""Nothing is learned by asking that is not seen by reading; sums are exact or refused; on every engine."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from sqlalchemy import exists, insert, select

from dualsql import RowFilter
from tests.engines import opened
from tests.http.application import Application, by_header, problem_of, running
from tests.query.readings import ALL, METADATA, READINGS, ROWS, TENANTS, person as principal_of, rows_of

pytestmark = pytest.mark.quick(50, "sqlite")

GUESSES: list[dict[str, Any]] = [
    {"filters": [{"column": "secret", "op": "eq", "value": "hidden"}]},
    {"filters": [{"column": "secret", "op": "starts_with", "value": "h"}]},
    {"filters": [{"column": "secret", "op": "is_null", "value": False}]},
    {
        "filters": [
            {"not": {"column": "secret", "op": "ne", "value": "hidden"}},
            {"column": "secret", "op": "ge", "value": ""},
        ]
    },
]


async def _ask(
    application: Application, path: str, body: dict[str, Any], tenant: str, name: str = "ada"
) -> httpx.Response:
    headers = {"x-user": name, "x-tenant": tenant}
    return await application.http.post(f"{path}/query", json=body, headers=headers)


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize("guess", GUESSES, ids=range(len(GUESSES)))
async def test_a_masked_value_cannot_be_guessed(readings: Application, guess: dict[str, Any]) -> None:
    for tenant in TENANTS:
        path = await readings.create(ALL, principal=principal_of(tenant))
        page = (await _ask(readings, path, guess | {"columns": ["id"]}, tenant)).raise_for_status().json()
        assert page["data"] == []
        counted = await _ask(readings, path, guess | {"aggregates": ["count"]}, tenant)
        assert counted.json()["data"] == [{"count": 0}]


async def test_figures_of_a_masked_column_are_those_of_nothing(readings: Application) -> None:
    question = {
        "aggregates": [
            {"function": function, "column": "secret"}
            for function in ("count", "count_distinct", "min", "max")
        ]
    }
    path = await readings.create(ALL, principal=principal_of("north"))
    [row] = (await _ask(readings, path, question, "north")).json()["data"]
    assert list(row.values()) == [0, 0, None, None]
    lifted = await readings.create(ALL, principal=principal_of("north", "auditor"))
    [row] = (await _ask(readings, lifted, question, "north", "auditor")).json()["data"]
    seen = sum(one["secret"] is not None for one in ROWS if one["tenant"] == "north")
    assert list(row.values()) == [seen, 1, "hidden", "hidden"]


async def test_no_other_tenant_is_counted(readings: Application) -> None:
    path = await readings.create(ALL, principal=principal_of("south"))
    question: dict[str, Any] = {
        "filters": [
            {"or": [{"column": "tenant", "value": "north"}, {"column": "id", "op": "gt", "value": 0}]}
        ],
        "group_by": ["tenant"],
        "aggregates": ["count"],
    }
    page = (await _ask(readings, path, question, "south")).json()
    assert page["data"] == [{"tenant": "south", "count": len(rows_of("south"))}]
    assert problem_of(await _ask(readings, path, question, "north"), 404)["code"] == "RESOURCE_NOT_FOUND"


async def test_a_sum_beyond_64_bits_is_exact_or_refused(readings: Application) -> None:
    hundredfold = (READINGS.c.big * 100).label("huge")
    path = await readings.create(select(READINGS.c.id, hundredfold), principal=principal_of("north"))
    question = {"aggregates": [{"function": "sum", "column": "huge"}]}
    answer = await _ask(readings, path, question, "north")
    if readings.server.parts.sources["default"].capabilities.name == "SQLite":
        problem = problem_of(answer, 502)
        assert problem["code"] == "QUERY_EXECUTION_FAILED" and "overflow" not in problem["message"]
        return
    exact = sum(row["big"] * 100 for row in rows_of("north") if row["big"] is not None)
    assert exact > 2**63
    assert answer.json()["data"] == [{"sum_huge": str(exact)}]


async def test_letters_are_letters_on_every_engine(readings: Application) -> None:
    found: dict[tuple[str, str], int] = {}
    for tenant in TENANTS:
        path = await readings.create(ALL, principal=principal_of(tenant))
        for text in ("a", "A", "a ", "100%", "1_0", "\\", "a'b"):
            for op, value in (("eq", text), ("in", [text])):
                question = {
                    "filters": [{"column": "text", "op": op, "value": value}],
                    "aggregates": ["count"],
                }
                [row] = (await _ask(readings, path, question, tenant)).json()["data"]
                found[text, op] = found.get((text, op), 0) + row["count"]
        grouped = (await _ask(readings, path, {"group_by": ["text"], "limit": 100}, tenant)).json()["data"]
        assert len(grouped) == len({row["text"] for row in rows_of(tenant)})
    assert found == {(text, op): sum(row["text"] == text for row in ROWS) for text, op in found}
    assert all(found.values())


async def test_an_instant_has_the_zone_of_its_column(readings: Application) -> None:
    path = await readings.create(ALL, principal=principal_of("north"))
    zoned = ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00+02:00"]
    if readings.server.parts.sources["default"].capabilities.spells_instants:
        zoned = []  # texts of any zone, compared as instants
    for value in (*zoned, "yesterday", 5):
        question = {"filters": [{"column": "moment", "op": "gt", "value": value}]}
        assert problem_of(await _ask(readings, path, question, "north"), 400)["code"] == "BAD_PARAMETER"
    for column, value in (
        ("word", "three"),
        ("code", "x"),
        ("blob", "%%"),
        ("flag", 1),
        ("span", "1 day"),
        ("clock", 8),
    ):
        question = {"filters": [{"column": column, "op": "eq", "value": value}]}
        assert problem_of(await _ask(readings, path, question, "north"), 400)["code"] == "BAD_PARAMETER"


async def test_what_a_text_computes_fails_on_no_hidden_row(source_url: str) -> None:
    """Engines move conditions inward: a rule with a subquery is tested after 1/(id - 3) is computed."""
    other = READINGS.alias("other")
    rule = RowFilter(
        READINGS,
        lambda principal: exists().where(other.c.id == READINGS.c.id, other.c.tenant == principal.tenant),
    )
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(READINGS), ROWS)
    hidden, seen = (
        next(row["id"] for row in rows_of(tenant) if row["small"] == -2) for tenant in ("north", "south")
    )
    async with running(source_url, tables=METADATA, hooks=[rule], authenticate=by_header) as application:
        path = await application.create(ALL, principal=principal_of("south"))
        for row, status in ((hidden, 200), (seen, 502)):
            overflow = f"CASE WHEN id = {row} THEN abs(-9223372036854775807 - 1 - small + small) ELSE 1 END"
            question = {"sql": f"SELECT count(*) AS rows_seen FROM data WHERE {overflow} > 0"}
            headers = {"x-user": "ada", "x-tenant": "south"}
            answer = await application.http.post(f"{path}/sql", json=question, headers=headers)
            assert answer.status_code == status, answer.text
            if status == 200:
                assert answer.json()["data"] == [{"rows_seen": len(rows_of("south"))}]


async def test_names_that_a_database_would_cut_are_refused(readings: Application) -> None:
    path = await readings.create(ALL, principal=principal_of("north"))
    twins: list[dict[str, Any]] = [{"function": "count", "as": "x" * 63 + end} for end in "yz"]
    question = {"group_by": ["flag"], "aggregates": twins}
    assert problem_of(await _ask(readings, path, question, "north"), 400)["code"] == "BAD_PARAMETER"
    page = await _ask(
        readings, path, {"group_by": ["flag"], "aggregates": [{**twins[0], "as": "ä" * 31}]}, "north"
    )
    assert page.json()["data"][0].keys() == {"flag", "ä" * 31}
    nul = {"aggregates": [{"function": "count", "as": "a\x00"}]}
    assert problem_of(await _ask(readings, path, nul, "north"), 400)["code"] == "BAD_PARAMETER"
