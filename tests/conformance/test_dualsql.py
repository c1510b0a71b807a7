"""dualsql is a server of the standard, over each database."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualsql.conformance.probe import Target
from dualsql.conformance.run import check_server, report
from tests.conformance.served import serving_standard
from tests.conformance.test_server import CALLERS, UNTESTABLE


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("database", ["sqlite", "postgresql", "duckdb"])
async def test_every_sentence(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if database == "duckdb":
        url = f"duckdb:///{tmp_path}/rows.duckdb"
    else:
        url = request.getfixturevalue(f"{database}_url")
    async with serving_standard(url) as endpoint:
        outcomes = await check_server(Target(endpoint, tokens=CALLERS))
    assert [each for each in outcomes if each.verdict == "failed"] == [], report(outcomes)
    assert {each.sentence.number for each in outcomes if each.verdict != "passed"} == UNTESTABLE
