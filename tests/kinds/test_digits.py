"""Numbers inside JSON documents keep every digit that the database shows, in every format."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import JSON, Column, Integer, MetaData, Table, select, text
from sqlalchemy.dialects.postgresql import JSONB

from dualsql.digits import Digits, read_document
from dualsql.formats import json
from tests.engines import opened
from tests.kinds.results import served, table_of

NUMBERS = ("0.1234567890123456789", "1.50", "123456789012345678901234567890", "-18446744073709551616", "2.5")
DOCUMENT = f'{{"numbers": [{", ".join(NUMBERS)}], "word": "a"}}'

documents = Table(
    "documents",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("document", JSON().with_variant(JSONB(), "postgresql")),
)


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize("is_owned", [True, False])
async def test_every_digit(database: str, is_owned: bool, request: pytest.FixtureRequest) -> None:
    if database == "postgresql" and not is_owned:
        pytest.skip("asyncpg reads documents as the application's engine told it")
    url: str = request.getfixturevalue(f"{database}_url")
    async with opened(url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(documents.metadata.create_all)
            await connection.execute(
                text(f"INSERT INTO documents VALUES (1, {_cast(database)})"),
                {"d": DOCUMENT},
            )
        async with served(url if is_owned else engine, documents.metadata) as server:
            result = await server.result(select(documents))
            expected = f"[{','.join(NUMBERS)}]"
            for written in ("ndjson", "json", "csv"):
                assert expected in (await server.rows(result, written)).text.replace(" ", ""), written
            for written in ("arrow", "parquet"):
                cell: Any = table_of(await server.rows(result, written), written).column("document")[0]
                assert expected in cell.as_py().replace(" ", ""), written
            path = f"/resources/{result.resource_uri.rpartition('/')[2]}/query"
            assert expected in (await server.http.post(path, json={})).text.replace(" ", "")


def _cast(database: str) -> str:
    return "CAST(:d AS JSONB)" if database == "postgresql" else ":d"


def test_what_is_no_document_is_an_error() -> None:
    long = "9" * 5_000
    assert json.dumps(read_document(long)) == long.encode()
    for wrong in ("{", "01", ""):
        with pytest.raises(ValueError, match=r"Expecting|Extra"):
            read_document(wrong)


def test_a_number_is_a_number() -> None:
    found = read_document('[0.1, 0.10, 1e400, {"1": 2}]')
    assert [type(one) for one in found[:2]] == [float, Digits]
    assert found[1] == 0.1 and found[0] + found[1] == 0.2
    assert json.loads(json.dumps(found)) == [0.1, 0.1, None, {"1": 2}]
    assert json.dumps({1: found, "big": 2**70, "nan": float("nan")}) == (
        b'{"1":[0.1,0.10,1e400,{"1":2}],"big":1180591620717411303424,"nan":null}'
    )
