"""`%load_ext dualsql_client` in IPython itself, over a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select

from dualsql_client import SyncParsedDualResponse
from tests.client.served import serving_results

METADATA = MetaData()
TOWNS = Table("towns", METADATA, Column("id", Integer, primary_key=True), Column("name", String))


def run(shell: Any, *cells: str) -> list[Any]:
    """What each cell shows; an error fails the test."""
    found = [shell.run_cell(cell, store_history=False) for cell in cells]
    return [cell.error_in_exec or cell.result for cell in found]


async def test_the_magic_shows_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'towns.sqlite'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(TOWNS), [{"id": n, "name": f"Town <{n}>"} for n in range(1, 101)])
    engine.dispose()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    async with serving_results(url, METADATA, select(TOWNS).order_by(TOWNS.c.id)) as served:
        base_url, name = served.url.rsplit("/", 1)
        monkeypatch.setenv("DUALSQL_BASE_URL", base_url)
        monkeypatch.delenv("DUALSQL_TOKEN", raising=False)
        shell = InteractiveShell()
        _, by_url, by_id, rows, wrong = await asyncio.to_thread(
            run, shell, "%load_ext dualsql_client", f"%dualsql {served.url}",
            f"towns = %dualsql {name}\ntowns", "len(towns.fetch_all())", "%dualsql what is this?x=/",
        )  # fmt: skip
    for shown in (by_url, by_id):
        assert isinstance(shown, SyncParsedDualResponse), shown
        text = shown._repr_html_()
        assert "Schools" in text and "Town &lt;20&gt;" in text and "20 of 100 rows" in text
        assert f'href="{served.url}?sort=name"' in text
    assert rows == 100
    assert "Give the URL of a result" in str(wrong)
