"""The folder of kept results is what every storage has to be."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import LocalResultStorage
from dualsql.errors import ConfigurationError
from dualsql.kept.storage import lock_file
from dualsql.testing import ResultStorageTests
from tests.servers import create_server


class TestLocalResultStorage(ResultStorageTests):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> Callable[[], LocalResultStorage]:
        return lambda: LocalResultStorage(tmp_path / "kept")


ID = "0" * 32
OF_SOMETHING_ELSE: dict[str, dict[str, str]] = {
    "an id": {"storage-id": "the office in Berlin"},
    "a short id": {"storage-id": "0" * 31},
    "parts": {"part-1": "rows", "part-of-my-thesis": "text"},
    "a name with a number": {"backup@0123456789abcdef": "rows"},
    "a spilled file": {"backup@0123456789abcdef.tmp/one": "rows"},
    "a hidden file": {".bashrc": ""},
    "a folder": {"folder/file": ""},
    "files beside lost+found": {"lost+found/file": "", "file": ""},
}


def filled(folder: Path, files: dict[str, str]) -> dict[Path, str]:
    """Files that are older than what a sweep leaves."""
    folder.mkdir(mode=0o700)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        os.utime(folder / name, (0, 0))
    return contents(folder)


def contents(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", OF_SOMETHING_ELSE)
async def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    before = filled(tmp_path / "kept", OF_SOMETHING_ELSE[name])
    storage = LocalResultStorage(tmp_path / "kept")
    for refused in (storage.check, storage.open):
        with pytest.raises(ConfigurationError, match="files of something else") as error:
            await refused()
        assert "is empty or does not exist yet" in error.value.hint
    assert contents(tmp_path / "kept") == before


@pytest.mark.parametrize(
    "files", [{}, {"lost+found/x": ""}, {"storage-id.new": "half"}, {"storage-id": ID, "file": ""}]
)
async def test_an_empty_folder_and_our_own_are_taken(tmp_path: Path, files: dict[str, str]) -> None:
    """Also one in which a process died while it made the mark."""
    filled(tmp_path / "kept", files)
    first, second = (LocalResultStorage(tmp_path / "kept") for _ in range(2))
    await first.check()
    await asyncio.gather(first.open(), second.open())
    assert first.id == second.id == (tmp_path / "kept" / "storage-id").read_text()
    assert not files.get("storage-id") or first.id == ID


async def test_what_was_put_into_our_folder_stays_there(tmp_path: Path) -> None:
    """Only what has a name and a kind that this class writes is listed, and so removed by a sweep."""
    folder, name = tmp_path / "kept", "backup@0123456789abcdef"
    files = {"part-00000": "", "part-abcdefgh": "", "part-reports/x": "", f"{name}/x": "", f"{name}.tmp": ""}
    before = filled(folder, {"storage-id": ID, **files})
    (folder / "link@0123456789abcdef").symlink_to(folder / "part-00000")
    (folder / "part-linked00").symlink_to(folder / "part-reports")
    storage = LocalResultStorage(folder)
    await storage.open()
    assert await storage.list_files() == []
    left = storage.new_folder()
    assert [one.name for one in await storage.list_files()] == [left.name]
    await storage.delete(left.name)
    assert before.items() <= contents(folder).items()


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o704, 0o770, 0o777])
async def test_a_folder_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(mode)
    storage = LocalResultStorage(folder)
    for refused in (storage.check, storage.open):
        with pytest.raises(ConfigurationError, match="not safe"):
            await refused()
    assert contents(folder) == {}


async def test_a_folder_in_which_a_process_writes_stays_there(tmp_path: Path) -> None:
    storage = LocalResultStorage(tmp_path / "kept")
    await storage.open()
    folder = storage.new_folder()
    opened = os.open(folder, os.O_RDONLY)
    lock_file(opened)
    assert await storage.list_files() == []
    os.close(opened)
    assert [one.name for one in await storage.list_files()] == [folder.name]


@pytest.mark.parametrize("name", ["storage-id", "storage-id.new"])
async def test_a_pipe_and_a_link_are_no_mark(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("text")
    for number, make in enumerate((os.mkfifo, lambda path: path.symlink_to(precious))):
        folder = tmp_path / str(number)
        folder.mkdir(mode=0o700)
        make(folder / name)
        with suppress(ConfigurationError):
            await LocalResultStorage(folder).open()
    assert precious.read_text() == "text"


async def test_a_server_deletes_nothing_in_a_folder_of_something_else(tmp_path: Path) -> None:
    names = {"part-1": "rows", "backup@0123456789abcdef": "rows"}
    before = filled(tmp_path / "kept", names)
    engine = create_async_engine("sqlite+aiosqlite://")
    server = create_server(
        engine,
        base_url="http://localhost/resources",
        tables=MetaData(),
        storage=LocalResultStorage(tmp_path / "kept"),
    )
    with pytest.raises(ConfigurationError, match="files of something else"):
        await server.start()
    await engine.dispose()
    assert contents(tmp_path / "kept") == before
