"""SQL about a result keeps the result's order, also through WITH, subqueries and joins, on every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from dualsql_client.wire import Row
from tests import engines
from tests.http.application import Application, by_header, problem_of
from tests.mariadb import MariaDB
from tests.query.readings import READINGS, person, readings_at

pytestmark = pytest.mark.quick(50, "sqlite")

HEADERS = {"x-user": "ada", "x-tenant": "north"}
C = READINGS.c

OTHER = READINGS.alias("other")
FEW = (C.id, C.small, C.word, C.text, C.flag, C.big)
RESULTS: dict[str, Any] = {
    "hidden keys": select(*FEW).order_by(C.price.desc(), C.day),
}
MORE_RESULTS: dict[str, Any] = {
    "cut": select(READINGS).order_by(C.small, C.text.desc()).limit(70).offset(3),
    "ties": select(READINGS).order_by(C.small.desc(), C.word),
    "no order": select(READINGS),
    "joined": select(READINGS).join(OTHER, OTHER.c.id == C.id).order_by(OTHER.c.small),
    "grouped": select(*FEW).group_by(*FEW).order_by(func.max(C.small).desc()),
    "numbered": select(READINGS, func.row_number().over(order_by=C.id.desc()).label("n")).order_by("n"),
}
ALL_RESULTS = [
    *(pytest.param(statement, id=name) for name, statement in RESULTS.items()),
    *(pytest.param(statement, id=name, marks=pytest.mark.long) for name, statement in MORE_RESULTS.items()),
]

ROW_BY_ROW = [
    "SELECT * FROM data",
    "SELECT id, upper(text) AS w FROM data",
    "SELECT id FROM data WHERE small < 1 OR small IS NULL",
    "SELECT id FROM data WHERE big + small > 0",
    "SELECT d.id FROM data AS d JOIN data AS e ON d.id = e.id WHERE e.flag",
    "SELECT d.id FROM data AS d JOIN (SELECT small, count(*) AS n FROM data GROUP BY small) AS g USING (small)",
    "SELECT d.id FROM data AS d LEFT JOIN data AS e ON d.id = e.id AND e.small > 1",
    "WITH x AS (SELECT * FROM data WHERE small < 2) SELECT id FROM x",
    "WITH x (a, b) AS (SELECT id, small FROM data), y AS (SELECT a FROM x WHERE b < 2) SELECT a AS id FROM y",
    "SELECT id FROM (SELECT id, small FROM data) AS s WHERE small < 1",
    "SELECT id, row_number() OVER (ORDER BY big, id) AS n FROM data",
    "SELECT id, (SELECT max(small) FROM data) AS most FROM data",
    "SELECT id FROM data WHERE id > (SELECT id FROM data LIMIT 1) - 200",
    "(SELECT id FROM data)",
]


@pytest.fixture(
    scope="module",
    params=[
        *engines.ENGINES,
        *(pytest.param(name, marks=pytest.mark.long) for name in ("mariadb", "duckdb")),
    ],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database, once for every engine."""
    folder = tmp_path_factory.mktemp("order")
    if request.param == "sqlite":
        yield engines.sqlite_url_in(folder)
    elif request.param == "duckdb":
        yield f"duckdb:///{folder / 'readings.duckdb'}"
    else:
        server: engines.PostgreSQL | MariaDB = request.getfixturevalue(f"{request.param}_server")
        with server.database() as database:
            yield database


@pytest.fixture(scope="module")
async def ordered(anyio_backend: str, url: str) -> AsyncIterator[Application]:
    """A server over the readings, once for every engine."""
    async with readings_at(url, authenticate=by_header) as application:
        yield application


@pytest.fixture(scope="module", params=ALL_RESULTS)
async def path(request: pytest.FixtureRequest, ordered: Application) -> str:
    """A result of tenant north."""
    return await ordered.create(request.param, principal=person("north"))


async def ask(application: Application, path: str, sql: str) -> list[Row]:
    """The whole answer."""
    answer = await application.http.post(f"{path}/sql", json={"sql": sql, "limit": 1000}, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    rows: list[Row] = answer.json()["data"]
    return rows


async def ids_of(application: Application, path: str) -> list[int]:
    """The result's own order."""
    page = await application.http.get(f"{path}?limit=1000", headers=HEADERS)
    return [row["id"] for row in page.raise_for_status().json()["data"]]


async def test_a_text_without_an_order_keeps_the_result_s(ordered: Application, path: str) -> None:
    wanted = await ids_of(ordered, path)
    assert len(wanted) > 60
    for sql in ROW_BY_ROW:
        values = [row["id"] for row in await ask(ordered, path, sql)]
        assert values, sql
        assert values == [number for number in wanted if number in set(values)], sql


async def test_windows_joined_are_the_result(ordered: Application, path: str) -> None:
    wanted = await ids_of(ordered, path)
    joined: list[int] = []
    for offset in range(0, len(wanted), 29):
        joined += [
            row["id"] for row in await ask(ordered, path, f"SELECT * FROM data LIMIT 29 OFFSET {offset}")
        ]
    assert joined == wanted
    inner = "SELECT id FROM (SELECT * FROM data LIMIT 20 OFFSET 7) AS s WHERE id > 0"
    assert [row["id"] for row in await ask(ordered, path, inner)] == wanted[7:27]
    common = "WITH x AS (SELECT * FROM data LIMIT 20) SELECT count(*) AS n, min(id) AS least FROM x"
    assert await ask(ordered, path, common) == [{"n": 20, "least": min(wanted[:20])}]
    united = "(SELECT id FROM data LIMIT 9) UNION ALL (SELECT id FROM data LIMIT 2 OFFSET 20)"
    values = [row["id"] for row in await ask(ordered, path, united)]
    assert sorted(values) == sorted(wanted[:9] + wanted[20:22])


async def test_rows_that_tie_in_the_text_s_own_order_stay_in_the_result_s(
    ordered: Application, path: str
) -> None:
    wanted = await ids_of(ordered, path)
    for sql in (
        "SELECT id, flag FROM data WHERE flag IS NOT NULL ORDER BY flag",
        "WITH x AS (SELECT id, flag FROM data WHERE flag IS NOT NULL ORDER BY flag) SELECT id, flag FROM x",
        "SELECT id, flag FROM data WHERE flag IS NOT NULL ORDER BY flag LIMIT 500",
    ):
        rows = await ask(ordered, path, sql)
        expected = sorted(rows, key=lambda row: (row["flag"], wanted.index(row["id"])))
        assert [row["id"] for row in rows] == [row["id"] for row in expected], sql


async def test_groups_and_distinct_rows_have_an_order_of_their_own(ordered: Application, path: str) -> None:
    for sql in (
        "SELECT small, count(*) AS n FROM data GROUP BY small",
        "SELECT DISTINCT small FROM data",
        "SELECT count(*) AS n FROM data",
        "SELECT max(id) AS n FROM data HAVING count(*) > 1",
        "SELECT id FROM data UNION SELECT id FROM data",
        "SELECT DISTINCT flag FROM (SELECT flag FROM data LIMIT 50) AS s",
    ):
        assert await ask(ordered, path, sql), sql


async def test_no_text_names_or_shows_what_carries_the_order(ordered: Application, path: str) -> None:
    page = await ordered.http.get(f"{path}?limit=1", headers=HEADERS)
    names = [column["name"] for column in page.json()["columns"]]
    for sql in ("SELECT * FROM data", "WITH x AS (SELECT * FROM data) SELECT * FROM x LIMIT 1"):
        answer = await ordered.http.post(f"{path}/sql", json={"sql": sql, "limit": 1}, headers=HEADERS)
        assert [column["name"] for column in answer.json()["columns"]] == names
    for hidden in ("order_1", "order__1", "data.order_1"):
        body = {"sql": f"SELECT {hidden} FROM data"}
        problem = problem_of(await ordered.http.post(f"{path}/sql", json=body, headers=HEADERS), 422)
        assert problem["code"] == "UNKNOWN_COLUMN"
        assert not any("order" in name for name in problem["details"]["suggestions"])


@pytest.mark.parametrize("statement", ALL_RESULTS)
async def test_a_refinement_keeps_it_too(ordered: Application, statement: Any) -> None:
    path = await ordered.create(statement, principal=person("north"))
    wanted = await ids_of(ordered, path)
    body = {"sql": "SELECT id FROM data WHERE id > 3 LIMIT 40 OFFSET 5"}
    answer = await ordered.http.post(f"{path}/refine", json=body, headers=HEADERS)
    assert answer.status_code == 201, answer.text
    kept = [number for number in wanted if number > 3]
    child = answer.headers["location"].rpartition("/")[2]
    assert await ids_of(ordered, f"/resources/{child}") == kept[5:45]


@pytest.mark.quick(1, "mariadb")
async def test_distinct_rows_are_on_pages_with_every_type(readings: Application) -> None:
    """MariaDB cannot read the key of an ENUM from a subquery."""
    path = await readings.create(select(READINGS).distinct(), principal=person("north"))
    page: dict[str, Any] = {"next_cursor": ""}
    rows = 0
    while page["next_cursor"] is not None:
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
        page = (await readings.http.get(path, params={"limit": 9, **cursor}, headers=HEADERS)).json()
        rows += page["returned_count"]
    assert rows == page["total_count"] > 9
