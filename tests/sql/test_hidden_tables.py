"""Tables that a caller does not see decide no answer: twin servers, one of which has many more, hidden ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, false, select

from dualsql import ConfigurationError, DualResponseError, DualResponseServer, Principal, RowFilter, Shared
from dualsql.formats import json
from dualsql.query.model import SQLQuery
from dualsql.tenancy.compiler import OWN_NAMES
from tests.sql.attacks import ATTACKS
from tests.sql.corpus import texts_for
from tests.sql.test_legitimate import BASE_URL, fill
from tests.sql.warehouse import METADATA

SOMEBODY = Principal(id="somebody")
NAMED = (
    "WITH wages AS (SELECT 1 AS a) SELECT a FROM wages",
    "WITH wages AS (SELECT 1 AS a), more AS (SELECT a FROM wages) SELECT x.a FROM more x JOIN wages y ON x.a = y.a",
    "WITH RECURSIVE wages AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM wages WHERE n < 3) SELECT n FROM wages",
    "SELECT wages.r_name FROM region wages",
    "SELECT a FROM (SELECT 1 AS a) wages",
    "SELECT * FROM (SELECT 1 AS a UNION SELECT 2) ORDER BY a",
    "SELECT * FROM wages",
    "SELECT * FROM wage",
    "SELECT wages FROM region",
    "SELECT wages(r_name) FROM region",
    "SELECT 1 FROM dualsql_part_1_wages",
    "SELECT 1 AS a FROM region dualsql_part_1_wages",
)
OVER_A_RESULT = (
    "SELECT * FROM data JOIN wages USING (r_name)",
    "SELECT order_1 FROM data",
    "SELECT * FROM main.data",
    "SELECT * FROM orders ORDER BY o_orderkey LIMIT 3",
    "SELECT count(*) AS n FROM nation CROSS JOIN data",
)
TEXTS = [*NAMED, *(text.sql for text in texts_for("sqlite")), *ATTACKS]
PARTS = 16


def hidden_names(texts: list[str]) -> list[str]:
    """Each word of the texts, and the names that a translation has made of it."""
    seen = {table.name for table in METADATA.tables.values()}
    words = {word.lower() for text in texts for word in re.findall(r"[a-zA-Z_]\w{0,40}", text)}
    names = [f"{word}_{number}" for word in ("derived", "operand", "rollup") for number in range(1, 4)]
    numbered = [f"{word}_{number}" for word in words for number in range(1, 4)]
    free = {*words, *names, *numbered} - seen
    return sorted(name for name in free if not name.startswith(OWN_NAMES))


def server(path: Path, hidden: list[str]) -> DualResponseServer:
    others = MetaData()
    tables = [Table(name, others, Column("id", Integer, primary_key=True)) for name in hidden]
    rules = [RowFilter(table, lambda _: false()) for table in tables]
    return DualResponseServer(
        f"sqlite+aiosqlite:///{path}",
        base_url=BASE_URL,
        tables=[METADATA, others],
        hooks=[Shared(*METADATA.tables.values()), *rules],
    )


async def answer(twin: DualResponseServer, text: str) -> bytes:
    """All that the caller gets of a text, besides what every answer has of its own."""
    try:
        query = twin.sql.resolve(text, principal=SOMEBODY)
        response = await twin.create_response(query.select, name="text", principal=SOMEBODY, is_text=True)
    except DualResponseError as error:
        return json.dumps([error.code, error.message, error.hint, error.details])
    own: Any = [response.sample, response.total_count, response.columns]
    return json.dumps(own)


async def answer_over_a_result(twin: DualResponseServer, text: str) -> bytes:
    """All that the caller gets of a text over a result, which may name tables, too."""
    twin.sql.offer()
    parent = await twin.create_response(select(METADATA.tables["region"]), name="data", principal=SOMEBODY)
    query = SQLQuery(text.replace("region", "data"), reads_tables=True)
    try:
        response = await twin.create_response(
            name="text", parent=parent.resource_uri, refinement=query, principal=SOMEBODY
        )
    except DualResponseError as error:
        return json.dumps([error.code, error.message, error.hint, error.details])
    own: Any = [response.sample, response.total_count, response.columns]
    return json.dumps(own)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    engine = create_engine(f"sqlite:///{tmp_path}/warehouse.db")
    with engine.begin() as connection:
        fill(connection)
    engine.dispose()
    return tmp_path / "warehouse.db"


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
async def test_hidden_tables_decide_no_answer(part: int, path: Path) -> None:
    texts = TEXTS[part::PARTS]
    async with server(path, []) as plain, server(path, hidden_names(texts)) as other:
        differing = [text for text in texts if await answer(plain, text) != await answer(other, text)]
    assert differing == []


async def test_hidden_tables_decide_no_answer_over_a_result(path: Path) -> None:
    texts = [*NAMED, *OVER_A_RESULT]
    async with server(path, []) as plain, server(path, hidden_names(texts)) as other:
        answers = [(await answer_over_a_result(twin, text)) for text in texts for twin in (plain, other)]
    differing = [
        text for text, one, two in zip(texts, answers[::2], answers[1::2], strict=True) if one != two
    ]
    assert differing == []
    assert answers[-1] == b'[[{"n":24}],1,[{"name":"n","type":"number","encoding":"integer"}]]'


async def test_named_texts_are_answered_beside_hidden_tables(path: Path) -> None:
    async with server(path, hidden_names(list(NAMED))) as twin:
        answers = [await answer(twin, text) for text in NAMED[:6]]
    assert [each for each in answers if b"SQL" in each] == []


def test_no_table_has_a_name_of_ours(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="reserved"):
        server(path, ["dualsql_part_1_wages"])
