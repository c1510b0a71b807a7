"""Texts are compared character by character whatever the collation of a column is, of which the model knows nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, Text, func, select

from tests.databases.test_claims import pages, run
from tests.http.application import Application, running

TEXTS = ("a", "A", "a ", "á", "Ä", "ä", "b", "B", "", "a", None, "é", "true", "ab")
COLLATIONS = {
    "sqlite": ("NOCASE", "RTRIM"),
    "postgresql": ("all_folded",),
    "mariadb": ("utf8mb4_general_ci", "utf8mb4_bin"),
    "duckdb": ("NOCASE", "NOACCENT", '"NOCASE.NOACCENT"'),
}
CASES = [
    pytest.param(kind, name, False, id=f"{kind}-{name}")
    for kind, names in COLLATIONS.items()
    for name in names
]
CASES.append(pytest.param("postgresql", "all_folded", True, id="postgresql-declared"))
MADE = "CREATE COLLATION all_folded (provider=icu, locale='und-u-ks-level1', deterministic=false);"


@pytest.mark.quick(2, "duckdb-NOCASE", "postgresql-all_folded")
@pytest.mark.parametrize(("kind", "collation", "is_declared"), CASES)
async def test_texts_that_a_collation_takes_for_each_other_are_told_apart(
    kind: str, collation: str, is_declared: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url: str = (
        f"duckdb:///{tmp_path}/texts.duckdb" if kind == "duckdb" else request.getfixturevalue(f"{kind}_url")
    )
    values = ", ".join("(NULL)" if text is None else f"('{text}')" for text in TEXTS)
    run(
        url,
        f"""{MADE if kind == "postgresql" else ""}CREATE TABLE texts (v varchar(9) COLLATE {collation});
        INSERT INTO texts VALUES {values}""",
    )
    type_ = Text(collation=collation) if is_declared else String(9)
    table = Table("texts", MetaData(), Column("v", type_))
    async with running(url, tables=table.metadata) as application:
        path = await application.create(select(table))
        texts = [text for text in TEXTS if text is not None]

        async def ask(**question: Any) -> list[Any]:
            response = await application.http.post(f"{path}/query", json={**question, "limit": 99})
            assert response.status_code == 200, response.text
            rows: list[Any] = response.json()["data"]
            return rows

        async def found(op: str, value: Any) -> Counter[str]:
            return Counter(row["v"] for row in await ask(filters=[{"column": "v", "op": op, "value": value}]))

        for text in sorted(set(texts)):
            assert await found("eq", text) == Counter(each for each in texts if each == text)
            assert await found("ne", text) == Counter(each for each in texts if each != text)
            assert await found("in", [text, "b"]) == Counter(each for each in texts if each in (text, "b"))
            assert await found("lt", text) == Counter(each for each in texts if each < text)
            assert await found("between", ["a", text]) == Counter(
                each for each in texts if "a" <= each <= text
            )
            assert await found("contains", text) == Counter(each for each in texts if text in each)
            assert await found("starts_with", text) == Counter(
                each for each in texts if each.startswith(text)
            )
        groups = await ask(group_by=["v"], aggregates=["count"])
        assert Counter({row["v"]: row["count"] for row in groups}) == Counter(TEXTS)
        distinct = await ask(aggregates=[{"function": "count_distinct", "column": "v", "as": "n"}])
        assert distinct == [{"n": len(set(texts))}]
        await require_each_page(application, path)


@pytest.mark.quick(1, "mariadb")
@pytest.mark.parametrize("kind", ["mariadb", "sqlite", "duckdb"])
async def test_a_condition_on_groups_leaves_them_whole(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """MariaDB moves a condition by bytes to the rows, of which a group by collation is made."""
    url: str = (
        f"duckdb:///{tmp_path}/texts.duckdb" if kind == "duckdb" else request.getfixturevalue(f"{kind}_url")
    )
    collation = COLLATIONS[kind][0]
    values = ", ".join(
        f"('{text}', {number})" for number, text in enumerate(["a", "A", "b", "B", "a", "c"] * 3)
    )
    run(
        url,
        f"""{MADE if kind == "postgresql" else ""}CREATE TABLE texts (v varchar(9) COLLATE {collation}, k integer);
        INSERT INTO texts VALUES {values};
        CREATE VIEW grouped AS SELECT v, count(*) AS n FROM texts GROUP BY v;
        CREATE VIEW numbered AS SELECT v, k, row_number() OVER (PARTITION BY v ORDER BY k) AS n FROM texts""",
    )
    metadata = MetaData()
    texts = Table("texts", metadata, Column("v", String(9)), Column("k", Integer))
    views = [
        Table(name, metadata, Column("v", String(9)), Column("n", Integer))
        for name in ("grouped", "numbered")
    ]
    groups = select(texts.c.v, func.count().label("n")).group_by(texts.c.v)
    place = func.row_number().over(partition_by=texts.c.v, order_by=texts.c.k)
    async with running(url, tables=metadata) as application:
        for statement in (groups, select(texts.c.v, place.label("n")), *map(select, views)):
            path = await application.create(statement)
            rows = (await application.http.get(f"{path}/rows", params={"format": "json"})).json()
            for text in {row["v"] for row in rows}:
                question = {"filters": [{"column": "v", "op": "eq", "value": text}], "limit": 99}
                answer = await application.http.post(f"{path}/query", json=question)
                assert answer.json()["data"] == [row for row in rows if row["v"] == text], str(statement)
            assert await pages(application, path, "") == rows


async def require_each_page(application: Application, path: str) -> None:
    for sort in ("", "v", "-v"):
        answer = await application.http.get(
            f"{path}/rows", params={"format": "json", **({"sort": sort} if sort else {})}
        )
        assert Counter(row["v"] for row in answer.json()) == Counter(TEXTS)
        assert await pages(application, path, sort) == answer.json(), sort
