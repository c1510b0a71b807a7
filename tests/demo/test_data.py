"""The data that ships with the demo."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql.demo.database import FieldOfStudy, Institution, Program, build, demo_database


def test_it_is_small_and_says_where_it_is_from() -> None:
    folder = files("dualsql.demo") / "data"
    assert sum(len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".gz")) < 1_000_000
    source = (folder / "SOURCE.md").read_text()
    assert "CC-BY-4.0" in source
    assert "College Scorecard" in source


@pytest.mark.long
async def test_a_notebook_may_ask_for_it() -> None:
    """Its cells run in an event loop."""
    assert demo_database().startswith("sqlite:///")


@pytest.mark.long
async def test_it_loads_whole_and_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'demo.db'}"
    await build(url)
    await build(url)
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'demo.db'}")
    async with engine.connect() as connection:
        counts = [
            (await connection.execute(select(func.count()).select_from(entity))).scalar_one()
            for entity in (Institution, FieldOfStudy, Program)
        ]
        nulls = await connection.execute(select(func.count()).where(Program.earnings.is_(None)))
        accents = await connection.execute(
            select(Institution.name).where(Institution.name.contains("í")).limit(1)
        )
        assert counts == [6_127, 421, 106_145]
        assert nulls.scalar_one() > 10_000
        assert accents.scalar_one_or_none() is not None
    await engine.dispose()
