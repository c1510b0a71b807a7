"""Rows to read, in a file of their own, and the stores to keep resources in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.store import SQLResourceStore
from tests.engines import sqlite_url_in
from tests.http.application import fill

SECRETS = ["a secret of more than thirty-two characters"]


@pytest.fixture
async def institutions_url(tmp_path: Path, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a database that holds sixty institutions."""
    folder = tmp_path / "rows"
    folder.mkdir()
    url = sqlite_url_in(folder)
    await fill(make_engine(url))
    return url


@pytest.fixture
def make_store(store_url: str) -> Callable[[], SQLResourceStore]:
    """Stores on one table, as several processes have them; once for every engine."""
    return lambda: SQLResourceStore(store_url)
