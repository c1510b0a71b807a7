"""Conversations of several steps, with errors that are met and mended: the benchmark's script, played briefly."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.flows import FLOWS, run, serving
from dualsql.demo.database import build, sqlite_url


@pytest.fixture(scope="module")
def colleges(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the demo's database."""
    url = sqlite_url(tmp_path_factory.mktemp("colleges"))
    asyncio.run(build(url))
    return url


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
async def test_every_flow_completes(colleges: str, rounds: int) -> None:
    async with serving(colleges) as origin:
        tally = await run(origin, rounds * len(FLOWS))
    assert tally.failures == []
    assert tally.completed == tally.flows == rounds * len(FLOWS)
    assert tally.unparsed == 0
    assert tally.provoked >= rounds * 6, "errors were met, and mended"
