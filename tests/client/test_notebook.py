"""`%load_ext dualsql_client` in IPython itself and in a notebook with its kernel, over a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select

from dualsql_client import SyncParsedDualResponse
from tests.client.served import Served, serving_results

METADATA = MetaData()
TOWNS = Table("towns", METADATA, Column("id", Integer, primary_key=True), Column("name", String))


def run(shell: Any, *cells: str) -> list[Any]:
    """What each cell shows; an error fails the test."""
    actual = [shell.run_cell(cell, store_history=False) for cell in cells]
    return [cell.error_in_exec or cell.result for cell in actual]


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with a result of 100 towns, and an environment without a person's settings."""
    url = f"sqlite:///{tmp_path / 'towns.sqlite'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(TOWNS), [{"id": n, "name": f"Town <{n}>"} for n in range(1, 101)])
    engine.dispose()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("DUALSQL_TOKEN", raising=False)
    async with serving_results(url, METADATA, select(TOWNS).order_by(TOWNS.c.id)) as found:
        monkeypatch.setenv("DUALSQL_BASE_URL", found.url.rpartition("/")[0])
        yield found


async def test_the_magic_shows_a_result(served: Served) -> None:
    name = served.url.rpartition("/")[2]
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


@pytest.mark.long
async def test_a_notebook_shows_results_and_its_kernel_ends_quietly(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning")  # of the kernel
    cells = (
        f"%load_ext dualsql_client\n%dualsql {served.url}",
        f"""
from dualsql_client import DualResponseClient, SyncDualResponseClient
client = SyncDualResponseClient({served.base_url!r})
towns = client.parse({served.tool_result!r}, strict=True)
towns""",
        f"""
async with DualResponseClient({served.base_url!r}) as application:
    rows = await application.parse({served.tool_result!r}, strict=True).fetch_all()
print(len(rows), len(towns.fetch_all()))""",
        f"""
from pathlib import Path
from dualsql.databases.files import FileLoader
from dualsql.kept.files import KeptFileWriter, MemoryShares
import duckdb
folder = Path({str(tmp_path)!r})
towns.save(folder / "towns.duckdb")
(folder / "towns.csv").write_text("n\\n1\\n")
FileLoader([folder / "towns.csv"], folder / "files.duckdb").run()
KeptFileWriter(folder / "kept.duckdb", MemoryShares(1 << 28, 1 << 28))
print(duckdb.connect(folder / "towns.duckdb").execute("SELECT count(*) FROM schools").fetchone())""",
    )
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    with (tmp_path / "said").open("w") as said:
        await NotebookClient(notebook, timeout=60).async_execute(stdout=said, stderr=said)
    by_magic, by_client, rows, files = [cell.outputs for cell in notebook.cells]
    for (shown,), count in ((by_magic, 20), (by_client, 3)):
        text = shown.data["text/html"]
        assert f"{count} of 100 rows" in text and f'href="{served.url}?sort=name"' in text
    assert [output.text for output in rows] == ["100 100\n"]
    # Without ipywidgets, DuckDB refuses any change of its progress bar there.
    assert [output.text for output in files] == ["(100,)\n"]
    lines = (tmp_path / "said").read_text().splitlines()
    # The log of the kernel itself says that its connection is not encrypted.
    said_by_others = [line for line in lines if not line.startswith("[IPKernelApp]")]
    assert said_by_others == [], "clients that wait close themselves"
