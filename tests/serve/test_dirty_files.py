"""Files as they are found: each is read right, or named with its reason, and no one stops the others."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from dualsql.databases.file_selection import find_files
from dualsql.databases.files import FileLoader
from tests.proxies.running import free_port
from tests.quiet_core import on_a_quiet_core
from tests.serve.conftest import PROGRAM
from tests.serve.dirty import DIRTY, ONE_OF_EACH, write_dirty_files
from tests.serve.test_files import table_of
from tests.serve.test_startup import Host, started


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> FileLoader:
    """All of them, and a workbook, in one folder."""
    folder = tmp_path_factory.mktemp("dirty")
    write_dirty_files(folder)
    loader = FileLoader(find_files([folder]).paths, tmp_path_factory.mktemp("loaded") / "files.duckdb")
    loader.run()
    return loader


@pytest.mark.quick(20)
@pytest.mark.parametrize("name", DIRTY)
def test_each_is_right_or_named(loader: FileLoader, name: str) -> None:
    expected = DIRTY[name][1]
    tables = [table for table in loader.tables if table.file == name]
    reasons = [unread.reason for unread in loader.unread if unread.file == name]
    if isinstance(expected, str):
        assert not tables and len(reasons) == 1
        assert re.search(expected, reasons[0]), reasons[0]
        return
    assert not reasons
    [table] = tables
    types, rows = table_of(loader.database, table.name)
    assert (types, rows) == (expected.types, expected.rows)
    assert expected.note in " ".join(table.notes)
    assert bool(table.notes) == bool(expected.note), table.notes
    is_in_place = name.endswith((".parquet", ".duckdb"))
    nulls = {
        column: None if is_in_place else sum(row[n] is None for row in rows) for n, column in enumerate(types)
    }
    assert (table.rows, [tuple(each) for each in table.columns]) == (
        len(rows),
        [(column, kind, nulls[column]) for column, kind in types.items()],
    )


def test_a_workbook_says_what_is_missing(loader: FileLoader) -> None:
    tables = {table.name: table for table in loader.tables if table.file == "budget.xlsx"}
    assert set(tables) == {"budget_Sheet", "budget_costs"}
    notes = " ".join(tables["budget_Sheet"].notes)
    assert "1 cell with #N/A is NULL" in notes and "1 formula without a value is NULL" in notes
    assert "1 column without a name" in notes
    assert "no table for sheets without cells: 'later', 'picture'" in notes
    assert tables["budget_costs"].notes == ["is hidden"]
    assert table_of(loader.database, "budget_Sheet")[1] == [(1, 2, None), (None, 3, None)]


@pytest.mark.parametrize(("encoding", "text"), [("cp1250", "załącznik"), ("shift_jis", "日本語")])
def test_an_encoding_that_is_named_is_taken(tmp_path: Path, encoding: str, text: str) -> None:
    (tmp_path / "other.csv").write_bytes(f"id,note\n1,{text}\n".encode(encoding))
    (tmp_path / "plain.csv").write_text(f"id,note\n1,{text}\n", encoding="utf-8")
    loader = FileLoader(find_files([tmp_path]).paths, tmp_path / "files.duckdb", encoding=encoding)
    loader.run()
    for name in ("other", "plain"):
        assert table_of(loader.database, name)[1] == [(1, text)]
    assert [table.notes for table in loader.tables] == [[f"read as {encoding}"], []]


@pytest.mark.long
def test_a_folder_with_a_small_file_of_each_kind_and_fault_answers_in_three_seconds(tmp_path: Path) -> None:
    """From the start of the command to the first answer; once in six times, because other tests run beside it."""
    folder = tmp_path / "files"
    folder.mkdir()
    write_dirty_files(folder, names=ONE_OF_EACH)
    assert len(list(folder.iterdir())) == 23
    seconds: list[float] = []
    while not seconds or (min(seconds) > 3 and len(seconds) < 6):
        port = free_port()
        begin = time.perf_counter()
        with started(*PROGRAM, "serve", str(folder), "--port", str(port), PYTHONDONTWRITEBYTECODE="") as host:
            until_served(f"http://127.0.0.1:{port}/", host)
            seconds.append(on_a_quiet_core(time.perf_counter() - begin))
    assert min(seconds) <= 3, seconds


def until_served(url: str, host: Host) -> None:
    """Wait for an answer other than 503, which the server gives while it starts."""
    while host.process.poll() is None:
        with suppress(httpx.TransportError):
            answer = httpx.get(url)
            if answer.status_code != 503:
                assert answer.status_code == 200
                return
        time.sleep(0.02)
    raise AssertionError(host.errors())
