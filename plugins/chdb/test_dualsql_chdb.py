"""What dualsql asks of every database, of chDB, and what is chDB's own: pip install '.[test]', then pytest."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from dualsql import ConfigurationError, DualResponseServer
from dualsql.databases.session import read_only
from dualsql.testing import DatabaseTests


class TestChDB(DatabaseTests):
    @pytest.fixture
    def database_url(self, tmp_path: Path) -> str:
        return f"chdb:///{tmp_path}/things"

    async def test_an_engine_that_can_write_is_refused(self, filled_url: str) -> None:
        engine = create_engine(filled_url)
        with pytest.raises(ConfigurationError, match="can write"):
            async with self.serve(engine):
                pass
        engine.dispose()

    @pytest.mark.parametrize(
        "statement",
        [
            "SET readonly = 0",
            "SELECT 1 SETTINGS readonly = 0",
            "CREATE TABLE written (id Int64) ENGINE = Memory",
            "INSERT INTO FUNCTION file('written.csv') SELECT 1",
        ],
    )
    async def test_a_session_refuses_what_writes(self, server: DualResponseServer, statement: str) -> None:
        async with read_only(server.parts.sources["default"], None) as connection:
            with pytest.raises(DBAPIError):
                await connection.exec_driver_sql(statement)
