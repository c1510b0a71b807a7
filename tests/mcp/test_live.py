"""Tools over streamable HTTP, under uvicorn: many at once, each with its own answer, and the rows behind them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select

from dualsql.mcp import Answer
from dualsql_client import DualResponseClient
from tests.client.hosting import listening_socket, origin_of, serving
from tests.mcp.conftest import Host, MakeDual, application_of, text_of
from tests.schools import School


@pytest.mark.quick(1)
@pytest.mark.parametrize("calls", [5, pytest.param(50, marks=pytest.mark.long)])
async def test_many_calls_at_once_over_http(make_dual: MakeDual, host: Host, calls: int) -> None:
    with listening_socket() as listening:
        origin = origin_of(listening)
        # Whatever a busy machine takes for 50 calls, each waits for its turn and counts its rows.
        patient = timedelta(minutes=2)
        dual = make_dual(base_url=f"{origin}/resources", queue_timeout=patient, count_budget=patient)
        server = host.server()

        @dual.tool(server)
        def schools_below(number: int) -> Answer:
            statement = select(School.id, School.name).where(School.id < number).order_by(School.id)
            return Answer(statement, name=f"Below {number}", sample_size=2)

        async with (
            serving(application_of(dual, server), listening),
            host.connected(f"{origin}/mcp") as model,
            DualResponseClient(f"{origin}/resources") as application,
        ):
            numbers = [number % 20 + 4 for number in range(calls)]
            results = await asyncio.gather(
                *(model.call("schools_below", number=number) for number in numbers)
            )
            for number, result in zip(numbers, results, strict=True):
                assert text_of(result).startswith(f"Below {number}: showing 2 of {number - 1} rows")
            rows = await application.parse(results[0], strict=True).fetch_all()
    assert [row["id"] for row in rows] == list(range(1, numbers[0]))
