"""POST /{id}/sql. The text knows the result, and nothing else."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from sqlalchemy import select

from tests.http.application import INSTITUTIONS, Application, problem_of
from tests.query.readings import ALL, TENANTS, person, rows_of

COUNTED = "SELECT state, count(*) AS n FROM data GROUP BY state ORDER BY state"


async def _rows(application: Application, path: str, sql: str, **more: Any) -> Any:
    answer = await application.http.post(f"{path}/sql", json={"sql": sql, **more})
    return answer.raise_for_status().json()["data"]


async def test_select_from_data(application: Application) -> None:
    path = await application.create()
    wanted = [{"state": state, "n": 20} for state in ("NJ", "NY", "PA")]
    assert await _rows(application, path, COUNTED) == wanted


async def test_only_the_rows_of_the_result(application: Application) -> None:
    three = select(INSTITUTIONS.c.id, INSTITUTIONS.c.name).where(INSTITUTIONS.c.id < 4)
    path = await application.create(three)
    assert await _rows(application, path, "SELECT count(*) AS n FROM data") == [{"n": 3}]
    twice = "WITH low AS (SELECT id FROM data WHERE id < :most) SELECT d.id FROM data d JOIN low USING (id)"
    assert await _rows(application, path, twice, parameters={"most": 3}) == [{"id": 1}, {"id": 2}]
    assert await _rows(
        application, path, "SELECT id FROM data UNION SELECT id FROM data ORDER BY 1 LIMIT 1"
    ) == [{"id": 1}]


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("", 400, "BAD_PARAMETER"),
        ("SELECT budget FROM data", 422, "UNKNOWN_COLUMN"),
        ("SELECT * FROM visits", 422, "UNKNOWN_TABLE"),
        # The tables of the result are not the result: a share of a table would be one of the rows shown.
        ("SELECT * FROM institutions", 422, "UNKNOWN_TABLE"),
        ("SELECT count(*) * 100.0 / (SELECT count(*) FROM institutions) FROM data", 422, "UNKNOWN_TABLE"),
        ("SELECT * FROM main.institutions", 422, "UNKNOWN_TABLE"),
        ("SELECT * FROM sqlite_master", 422, "UNKNOWN_TABLE"),
        ("SELECT * FROM dualsql_resources", 422, "UNKNOWN_TABLE"),
        ("SELECT id FROM data; SELECT 1", 403, "FORBIDDEN_SQL"),
        ("DELETE FROM data", 403, "FORBIDDEN_SQL"),
        ("SELECT load_extension('x') FROM data", 403, "FORBIDDEN_SQL"),
        ("SELECT readfile('/etc/passwd')", 403, "FORBIDDEN_SQL"),
        ("SELECT id FROM data WHERE id IN (SELECT id FROM institutions2)", 422, "UNKNOWN_TABLE"),
    ],
)
async def test_nothing_else_is_to_be_had(application: Application, sql: str, status: int, code: str) -> None:
    path = await application.create(select(INSTITUTIONS.c.id, INSTITUTIONS.c.name))
    answer = await application.http.post(f"{path}/sql", json={"sql": sql})
    assert problem_of(answer, status)["code"] == code


async def test_streams_and_suggestions(application: Application) -> None:
    path = await application.create()
    answer = await application.http.post(f"{path}/sql", json={"sql": COUNTED, "format": "csv"})
    assert answer.text.split() == ["state,n", '"NJ",20', '"NY",20', '"PA",20']
    answer = await application.http.post(f"{path}/sql", json={"sql": "SELECT 1 FROM dta"})
    assert problem_of(answer, 422)["details"]["suggestions"] == ["data"]
    answer = await application.http.post(f"{path}/sql", json={"sql": COUNTED, "format": "csv", "offset": 1})
    assert answer.text.split() == ["state,n", '"NY",20', '"PA",20']


@pytest.mark.parametrize("tenant", TENANTS)
async def test_each_tenant_s_own_rows_on_every_engine(readings: Application, tenant: str) -> None:
    headers = {"x-user": "ada", "x-tenant": tenant}
    path = await readings.create(ALL, principal=person(tenant))
    question = {"sql": "SELECT tenant, count(*) AS n, count(secret) AS seen FROM data GROUP BY tenant"}
    answer = await readings.http.post(f"{path}/sql", json=question, headers=headers)
    rows = answer.raise_for_status().json()["data"]
    assert rows == [{"tenant": tenant, "n": len(rows_of(tenant)), "seen": 0}]
    assert problem_of(await readings.http.post(f"{path}/sql", json=question), 404)


async def test_columns_limit_and_offset_beside_a_text(application: Application) -> None:
    path = await application.create()
    sql = "SELECT id, name, state FROM data WHERE id > 5"
    page = await application.http.post(
        f"{path}/sql", json={"sql": sql, "columns": ["name", "id"], "limit": 2, "offset": 3}
    )
    rows = page.raise_for_status().json()["data"]
    assert rows == [{"name": "Institution 009", "id": 9}, {"name": "Institution 010", "id": 10}]
    for text, wanted in (
        (sql, [9, 10]),
        (f"{sql} LIMIT 4", [9]),
        (f"{sql} ORDER BY id DESC", [57, 56]),
        ("SELECT id FROM data UNION SELECT id FROM data", [4, 5]),
    ):
        body = {"sql": text, "columns": ["id"], "limit": 2, "offset": 3, "name": "Some"}
        answer = await application.http.post(f"{path}/refine", json=body)
        assert answer.status_code == 201, answer.text
        child = answer.headers["location"].rpartition("/")[2]
        page = await application.http.get(f"/resources/{child}?limit=10")
        assert page.json()["data"] == [{"id": number} for number in wanted]
    problem = problem_of(
        await application.http.post(f"{path}/sql", json={"sql": sql, "columns": ["nam"]}), 422
    )
    assert problem["code"] == "UNKNOWN_COLUMN"


async def test_a_page_of_a_question_says_it_too(application: Application) -> None:
    path = await application.create(select(INSTITUTIONS.c.id, INSTITUTIONS.c.state))
    question: dict[str, Any] = {"sql": 'SELECT count(*) AS n FROM data WHERE state = "NJ"'}
    page = (await application.http.post(f"{path}/sql", json=question)).raise_for_status().json()
    assert page["data"] == [{"n": 20}]
    assert page["notes"][0].startswith('"NJ" names no column and is taken as text')
    again = (await application.http.post(f"{path}/sql", json=question)).raise_for_status().json()
    assert again["notes"] == page["notes"]
    body = (await application.http.post(f"{path}/refine", json=question)).raise_for_status().json()
    assert body["metadata"]["notes"] == page["notes"]
    plain = {"sql": "SELECT count(*) AS n FROM data WHERE state = 'NJ'"}
    page = (await application.http.post(f"{path}/sql", json=plain)).raise_for_status().json()
    assert "notes" not in page


async def test_without_the_parser_the_extra_is_named(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await application.create()
    monkeypatch.setitem(sys.modules, "sqlglot", None)  # as if it were not installed
    for way in ("sql", "refine"):
        problem = problem_of(await application.http.post(f"{path}/{way}", json={"sql": "SELECT 1"}), 501)
        assert (problem["code"], problem["hint"]) == ("MISSING_EXTRA", 'pip install "dualsql[sql]"')
    answer = await application.http.post(f"{path}/query", json={"limit": 1})
    assert answer.status_code == 200
