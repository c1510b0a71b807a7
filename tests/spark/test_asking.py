"""Profiles, questions and SQL texts on a real cluster. Polars and Python say what the answers have to be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Column, MetaData, Table, select

from dualsql import Mask, TenantFilter
from dualsql.formats.json import dumps, loads
from dualsql.mcp import add_result_tools
from dualsql.query import read_structured_query
from dualsql.results.pages import PageRequest
from dualsql_client import DualResponseClient
from dualsql_client.ndjson import decode_rows
from tests.http.application import Application, by_header, problem_of, running
from tests.mcp.conftest import Host, text_of
from tests.profiles import things
from tests.profiles.test_profile import assert_right
from tests.query import oracle, readings
from tests.query.specifications import as_json, for_polars, groups_asked, rows_asked
from tests.spark.cluster import Cluster
from tests.spark.tables import created
from tests.sql.attacks import SPARK

pytestmark = pytest.mark.exhaustive

METADATA = MetaData()
ABSENT = ("clock", "code", "bell", "extra")
"""Columns of types that Spark's Thrift server lacks."""


def _on_spark(table: Table) -> Table:
    kept = [column for column in table.c if column.name not in ABSENT]
    return Table(
        table.name, METADATA, *(Column(one.name, one.type, primary_key=one.primary_key) for one in kept)
    )


READINGS, THINGS = map(_on_spark, (readings.READINGS, things.things))
WHO = "north"
MINE = [{name: value for name, value in row.items() if name not in ABSENT} for row in readings.rows_of(WHO)]
HEADERS = {"x-user": "ada", "x-tenant": WHO}
RULES = (
    TenantFilter(column="tenant", value=lambda principal: principal.tenant),
    Mask(READINGS.c.secret, "null"),
)

# On busy cores a statement took up to 8 s, and a profile longer than its budget of 10 s.
OPTIONS: dict[str, Any] = {
    "tables": METADATA,
    "unproved_read_only": True,
    "profile_budget": timedelta(minutes=3),
    "count_budget": timedelta(minutes=1),
}


@pytest.fixture(scope="module")
def asked_url(spark: Cluster) -> Iterator[str]:
    """A schema with the readings of all tenants, and the things."""
    url = f"{spark.url.rpartition('/')[0]}/asked"
    spark.run("CREATE SCHEMA asked")
    for table, rows in ((READINGS, readings.ROWS), (THINGS, things.ROWS)):
        spark.run(*created(table, rows), url=url)
    yield url
    spark.run("DROP SCHEMA asked CASCADE")


@pytest.fixture(scope="module")
async def asked(asked_url: str, anyio_backend: str) -> AsyncIterator[Application]:
    async with running(asked_url, **OPTIONS, hooks=RULES, authenticate=by_header) as application:
        application.http.headers.update(HEADERS)
        yield application


@pytest.fixture(scope="module")
async def path(asked: Application) -> str:
    """The result of all readings that the caller may see."""
    return await asked.create(select(READINGS).order_by(READINGS.c.id), principal=readings.person(WHO))


# Profiles


def _assert_profiled(profile: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    assert (profile["kind"], profile["complete"], profile["left_out"]) == ("full", True, 0)
    assert profile["covers"] == {"rows": len(rows), "of": "all"}
    assert [column["name"] for column in profile["columns"]] == THINGS.c.keys()
    for column in profile["columns"]:
        if column["name"] != "blob":
            assert_right(column, rows)


async def test_a_profile_over_rest_is_of_the_tenant_s_rows(asked: Application) -> None:
    rows = [row for row in things.ROWS if row["tenant"] == "acme"]
    path = await asked.create(select(THINGS).order_by(THINGS.c.id), principal=readings.person("acme"))
    asks = partial(asked.http.get, f"{path}/profile", headers={"x-tenant": "acme"})
    answer = await asks(params={"kind": "full"})
    assert answer.status_code == 200, answer.text
    _assert_profiled(answer.json(), rows)
    some = await asks(params={"kind": "full", "columns": "big,word"})
    assert [column["name"] for column in some.json()["columns"]] == ["big", "word"]
    for column in some.json()["columns"]:
        assert_right(column, rows)


async def test_a_profile_of_a_tool_s_result_and_a_question_to_it(asked_url: str) -> None:
    async with running(asked_url, **OPTIONS) as application:
        dual, host = application.server, Host("official")
        server = host.server()

        @dual.tool(server, profile="full")
        def everything() -> Any:
            """All things."""
            return select(THINGS).order_by(THINGS.c.id)

        add_result_tools(dual, server)
        async with host.connected(server) as connection:
            result = await connection.call("everything")
            assert not result.is_error, text_of(result)
            response = DualResponseClient().parse(result, strict=True)
            question = {"group_by": ["kind"], "aggregates": ["count", "max(big)"], "order_by": ["kind"]}
            told = await connection.call("query_result", resource=response.resource_uri, **question)
        assert "gämma" in text_of(result)
        _assert_profiled(
            await dual.profiles.profile(response.resource_uri.rpartition("/")[2], None, kind="full"),
            things.ROWS,
        )
        kinds = sorted({row["kind"] for row in things.ROWS}, key=lambda kind: (kind is None, kind))
        groups = [[row["big"] for row in things.ROWS if row["kind"] == kind] for kind in kinds]
        # No double holds these numbers, so they cross as texts.
        assert list(DualResponseClient().parse(told, strict=True).sample) == [
            {"kind": kind, "count": len(group), "max_big": str(max(group))}
            for kind, group in zip(kinds, groups, strict=True)
        ]


# Questions


def _can_be_asked(spec: Mapping[str, Any]) -> bool:
    words = repr(spec)
    return not any(f"'{word}'" in words for word in (*ABSENT, "median", "percentile"))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(spec=st.one_of(rows_asked(), groups_asked()).filter(_can_be_asked))
async def test_any_answer_is_that_of_the_full_rows(
    asked: Application, path: str, spec: dict[str, Any]
) -> None:
    resource = await asked.server.unchecked.get(path.rpartition("/")[2])
    assert resource is not None
    page = await asked.server.queries.page_unchecked(
        resource,
        read_structured_query(as_json(spec)),
        PageRequest(limit=1_000),
        principal=readings.person(WHO),
    )
    wire = loads(dumps(page.to_wire()))
    rows = decode_rows(wire["data"], wire["columns"])
    wanted = oracle.answer(for_polars(spec), readings.rows_of(WHO), lower=str.lower)  # as Java has it
    _assert_same(rows, [{name: row[name] for name in row if name not in ABSENT} for row in wanted])


def _assert_same(found: Sequence[dict[str, Any]], wanted: Sequence[dict[str, Any]]) -> None:
    assert [list(row) for row in found] == [list(row) for row in wanted]
    for row, other in zip(found, wanted, strict=True):
        for name, value in row.items():
            is_close = isinstance(value, float) and other[name] is not None
            assert value == (
                pytest.approx(float(other[name]), rel=1e-9, abs=1e-9) if is_close else other[name]
            )


# SQL texts

_KNOWN = [row for row in MINE if row["small"] is not None]
TEXTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "names in backticks, whole division, remainders": (
        "SELECT `d`.`id`, `id` div 7 AS `the week`, `id` % 7 AS rest FROM data AS d ORDER BY `id` DESC",
        [{"id": row["id"], "the week": row["id"] // 7, "rest": row["id"] % 7} for row in reversed(MINE)],
    ),
    "dates as Spark writes them": (
        """SELECT id, date_format(day, 'yyyy-MM') AS month, year(day) AS y, datediff(day, DATE'1999-11-01') AS n
           FROM data WHERE day >= to_date('2000-01-01') AND day IS NOT NULL ORDER BY id""",
        [
            {
                "id": row["id"],
                "month": f"{row['day']:%Y-%m}",
                "y": row["day"].year,
                "n": (row["day"] - date(1999, 11, 1)).days,
            }
            for row in MINE
            if row["day"] and row["day"].year >= 2000
        ],
    ),
    "texts in either quotes, with escapes": (
        r"""SELECT id, 'a\'b' AS one, "a'b" AS two, instr(text, "'") AS place FROM data
            WHERE text = 'a\'b' OR text = "100%" ORDER BY id""",
        [
            {"id": row["id"], "one": "a'b", "two": "a'b", "place": row["text"].find("'") + 1}
            for row in MINE
            if row["text"] in ("a'b", "100%")
        ],
    ),
    "groups and their condition": (
        """SELECT word, count(*) AS n, sum(small) AS s, max(big) AS b, count_if(flag) AS f FROM data
           GROUP BY word HAVING count(*) > 1 ORDER BY word NULLS LAST""",
        [
            {
                "word": word,
                "n": len(group),
                "s": sum(row["small"] or 0 for row in group),
                "b": max(row["big"] or 0 for row in group),
                "f": sum(bool(row["flag"]) for row in group),
            }
            for word in ("one", "two", None)
            for group in [[row for row in MINE if row["word"] == word]]
        ],
    ),
    "windows over a common table": (
        """WITH known AS (SELECT id, small FROM data WHERE small IS NOT NULL)
           SELECT id, row_number() OVER (PARTITION BY small ORDER BY id) AS place FROM known ORDER BY id""",
        [
            {
                "id": row["id"],
                "place": sum(one["small"] == row["small"] and one["id"] <= row["id"] for one in _KNOWN),
            }
            for row in _KNOWN
        ],
    ),
    "what hides in a masked column and other tenants": (
        "SELECT count(*) AS n, count(secret) AS secrets, count(DISTINCT tenant) AS tenants FROM data",
        [{"n": len(MINE), "secrets": 0, "tenants": 1}],
    ),
    "text that variables of Hive would replace": (
        "SELECT '${env:PATH} ${spark.master} ${hivevar:x}' AS told FROM data LIMIT 1",
        [{"told": "${env:PATH} ${spark.master} ${hivevar:x}"}],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
async def test_a_text_is_answered_page_by_page(asked: Application, path: str, name: str) -> None:
    sql, wanted = TEXTS[name]
    assert wanted
    joined: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(100):
        more = {"cursor": cursor} if cursor else {"offset": len(joined)}
        answer = await asked.http.post(f"{path}/sql", json={"sql": sql, "limit": 9, **more})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        joined += page["data"]
        cursor = page["next_cursor"]
        if not page["has_next"]:
            break
    assert joined == wanted
    streamed = await asked.http.post(f"{path}/sql", json={"sql": sql, "format": "ndjson"})
    assert [loads(line) for line in streamed.content.splitlines()[:-1]] == wanted


async def test_no_text_writes_or_leaves_the_result(asked: Application, path: str, spark: Cluster) -> None:
    for attack in SPARK:
        sql = attack.replace("customer", "data").replace("c_name", "text")
        answer = await asked.http.post(f"{path}/sql", json={"sql": sql})
        assert answer.status_code in (400, 403, 422), sql
        assert problem_of(answer, answer.status_code)["hint"], sql
    tables = spark.run("SHOW TABLES", url=asked.server.parts.sources["default"].engine.url.render_as_string())
    assert {row[1] for row in tables} == {"readings", "things"}
    assert spark.run("LIST JARS") == []
