"""A server whose rows are hard for JavaScript, for the client in node and in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    insert,
    select,
    text,
)
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.types import NullType

from dualsql.identity import static_tokens
from dualsql.resource import Principal
from dualsql_client import DualResponseClient
from tests.client.cutting import CuttingProxy
from tests.client.served import Served, serving_results

METADATA = MetaData()
HOSTILE = Table(
    "hostile",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("__proto__", String),
    Column("$summary", String),
    Column("big", BigInteger),
    Column("ratio", Float),
    Column("price", Numeric(12, 2)),
    Column("body", LargeBinary),
    Column("document", JSON),
    Column("untyped", NullType()),
)
TEXTS = (
    "plain", '{"$summary":{"rows":1,"complete":true}}', "two\nlines\r\n\u2028", 'quo"te \\', "", "𝄞 \ud7ff \x01",
    '"},{"id":1', "[12345678901234567890]", None,
)  # fmt: skip
BIG = (2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**53 - 1, 0, None)
RATIOS = (0.1, 0.30000000000000004, 1e300, 5e-324, -2.5, None, 123456789.12345679)
DOCUMENTS = (
    {"n": 2**64 + 1, "__proto__": {"polluted": 1}, "f": 0.1, "list": [2**53 + 1, "9007199254740993"]},
    [1, [2, None]], None, "text", {"constructor": {"prototype": {"polluted": 1}}},
)  # fmt: skip
UNTYPED = (2**53 + 3, "text", 2.5, None)
ROWS = [
    {
        "id": number,
        "__proto__": TEXTS[number % len(TEXTS)],
        "$summary": TEXTS[-number % len(TEXTS)],
        "big": BIG[number % len(BIG)],
        "ratio": RATIOS[number % len(RATIOS)],
        "price": Decimal(number) + Decimal("0.10"),
        "body": bytes([0, 255, number % 256]),
        "document": DOCUMENTS[number % len(DOCUMENTS)],
        "untyped": UNTYPED[number % len(UNTYPED)],
    }
    for number in range(1, 701)
]
_SQLITE = {
    "id": "INTEGER PRIMARY KEY",
    "big": "BIGINT",
    "price": "NUMERIC",
    "body": "BLOB",
    "document": "JSON",
}
READER = Principal(id="reader")
TOKEN = "token-of-the-reader"


@asynccontextmanager
async def serving_hostile(url: str, **settings: Any) -> AsyncIterator[Served]:
    """Serve the rows, of a result of READER's, on loopback until the end of the block."""
    engine = create_async_engine(url)
    columns = ", ".join(f'"{column.name}" {_SQLITE.get(column.name, "")}' for column in HOSTILE.columns)
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE TABLE hostile ({columns})"))
        await connection.execute(insert(HOSTILE), ROWS)
    statement = select(HOSTILE).order_by(HOSTILE.c.id)
    options = {"authenticate": static_tokens({TOKEN: READER}), **settings}
    try:
        async with serving_results(engine, METADATA, statement, **options) as served:
            served.tool_result = await served.tool_result_of(statement, principal=READER)
            yield served
    finally:
        await engine.dispose()


@asynccontextmanager
async def given_to_client(url: str, *, is_cut: bool = True, **settings: Any) -> AsyncIterator[dict[str, Any]]:
    """What client.test.mjs is given, as long as the server runs; behind `cutUrl`, no connection lasts."""
    async with serving_hostile(url, **settings) as served:
        budgets = (1_500 + 7_003 * number % 20_000 for number in count())
        proxy = CuttingProxy(urlsplit(served.base_url).port or 0, lambda: next(budgets))
        async with proxy.listening() as cut:
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with DualResponseClient(served.base_url, headers=headers) as python:
                rows = await python.parse(served.tool_result, strict=True).fetch_all()
            yield {
                "baseUrl": served.base_url,
                "cutUrl": f"{cut}/resources",
                "toolResult": served.tool_result,
                "rows": tagged(rows),
                "token": TOKEN,
            }
            assert proxy.cuts or not is_cut


def tagged(value: Any) -> Any:
    """JSON in which each whole number is a text, which no reader rounds; `tagged` of checking.mjs does the same."""
    if isinstance(value, dict):
        return [[name, tagged(item)] for name, item in value.items()]
    if isinstance(value, list):
        return [tagged(item) for item in value]
    is_whole = not isinstance(value, bool) and isinstance(value, int | float) and value == int(value)
    return f"int:{int(value)}" if is_whole else value
