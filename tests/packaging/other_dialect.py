"""What dualsql asks of a database, of a dialect that no package describes. Run where chdb-sqlalchemy is installed."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, func, select

from dualsql import ConfigurationError, DualResponseServer, Settings
from dualsql.testing import DatabaseTests
from dualsql.testing.databases import METADATA, THINGS

_copies: list[Any] = [THINGS.alias(f"slow_{number}") for number in range(4)]
_first, *_others = _copies
_sines: list[Any] = [func.sin(copy.c.id) for copy in _copies]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests: a statement that was given up goes on, and a process of chDB reads one folder."""
    return tmp_path_factory.mktemp("data")


class TestOtherDialect(DatabaseTests):
    settings = Settings(unproved_read_only=True)
    # Seven seconds here: nothing stops it.
    slow = select(func.sum(reduce(lambda left, right: left + right, _sines))).select_from(
        reduce(lambda joined, copy: joined.join(copy, copy.c.id + _first.c.id > 0), _others, _first)
    )

    @pytest.fixture
    def database_url(self, folder: Path) -> str:
        url = f"chdb:///{folder}/things"
        engine = create_engine(url)
        METADATA.drop_all(engine)
        engine.dispose()
        return url

    async def test_it_is_refused_unless_the_operator_allows_it(self, filled_url: str) -> None:
        with pytest.raises(ConfigurationError, match="no read-only sessions of chdb"):
            self.serve(filled_url, settings=Settings())

    async def test_its_cursors_are_written_with_or_and_follow_no_rounded_value(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        statements: list[str] = []
        source = server.parts.sources["default"]
        url = await self._store_result(server)
        first = (await http.get(url, params={"limit": 10, "sort": "kind,id"})).json()
        compiled = source.compiled._small  # no statement here is large
        compiled.clear()
        await http.get(url, params={"limit": 10, "sort": "kind,id", "cursor": first["next_cursor"]})
        statements += [str(each) for each in compiled.values()]
        assert any(" OR " in text and "CASE WHEN" in text for text in statements)
        assert not any("NULLS" in text or "(kind, id)" in text for text in statements)
        by_double = (await http.get(url, params={"limit": 10, "sort": "ratio"})).json()
        assert by_double["has_next"] and by_double["next_cursor"] is None
