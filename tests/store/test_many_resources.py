"""A store with many resources: every statement of a server finds its rows by an index."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql.store import SQLResourceStore
from dualsql.testing.stores import NOW
from tests.store.many import OWNED, OWNER, fill, operations

MANY = 100_000


@pytest.mark.long
async def test_every_statement_of_a_server_uses_an_index(store_url: str) -> None:
    await fill(store_url, MANY)
    store = SQLResourceStore(store_url)
    asked = await operations(store)
    statements: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, ___: Any, executemany: bool) -> None:
        statements.append((statement, parameters[0] if executemany else parameters))

    engines = [store._connections.engine.sync_engine]
    store._row_reader = None  # it tells no events, and sends what the ordinary connection sends
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    for ask in asked.values():
        await ask()
    assert len((await store.find(OWNER, now=NOW, limit=1000)).resources) >= OWNED - 1
    await store.close()
    assert len(statements) >= len(asked)
    for statement, plan in (await _plans(store_url, statements)).items():
        assert "Seq Scan" not in plan and "SCAN dualsql_" not in plan, f"{statement}\n{plan}"
        if " LIMIT " in statement:  # an index gives the order, but for rows of one time
            assert "->  Sort " not in plan and "B-TREE FOR ORDER BY" not in plan, f"{statement}\n{plan}"


async def _plans(url: str, statements: list[tuple[str, Any]]) -> dict[str, str]:
    """How the database would run each statement."""
    engine = create_async_engine(url)
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    plans = {}
    async with engine.connect() as connection:
        for statement, parameters in statements:
            if "dualsql_" in statement:
                rows = await connection.exec_driver_sql(f"{explain} {statement}", tuple(parameters))
                plans[statement] = "\n".join(str(row[-1]) for row in rows)
    await engine.dispose()
    return plans
