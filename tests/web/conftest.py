"""An application with pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from tests.engines import sqlite_url_in
from tests.http.application import Application, by_header, fill, running


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Application]:
    """A server with pages and signed links, whose callers are told by a header."""
    engine = create_async_engine(sqlite_url_in(tmp_path))
    await fill(engine)
    async with running(engine, pages=True, signed_links=True, authenticate=by_header) as application:
        yield application
    await engine.dispose()
