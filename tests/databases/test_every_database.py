"""What dualsql asks of a database, asked of each that it knows: the tests that ship for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dualsql.testing import DatabaseTests

pytestmark = pytest.mark.quick(50, "sqlite", "postgresql")


@pytest.mark.quick(1, "sqlite", "postgresql")
class TestEveryDatabase(DatabaseTests):
    @pytest.fixture(params=["sqlite", "postgresql", "mariadb", "duckdb"])
    def database_url(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        if request.param == "duckdb":
            return f"duckdb:///{tmp_path}/things.duckdb"
        url: str = request.getfixturevalue(f"{request.param}_url")
        return url
