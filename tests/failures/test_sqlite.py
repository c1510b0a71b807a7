"""A store on SQLite whose disk is full, whose file is gone or held by another: 503, and no restart afterwards."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.failures.requests import (
    all_requests,
    assert_all_are_unavailable,
    assert_all_work,
    assert_unavailable,
    create,
    serving,
)
from tests.http.live.serving import LiveServer
from tests.quick import one_in

Fill = Callable[[], None]


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Fill, Fill]]:
    """A file system of 4 MB at `folder`; functions that fill it to the last byte, and empty it."""
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounting.returncode != 0:
        pytest.skip("a small file system cannot be mounted here; the limit on a file's size stands in for it")
    filler = folder / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    try:
        yield fill, filler.unlink
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def limited_files(folder: Path) -> Iterator[tuple[Fill, Fill]]:
    """Functions that keep every file of this process from growing, and lift that again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield (
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard)),
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("disk", one_in(2, [limited_files, small_disk]))
async def test_the_disk_is_full(
    data_url: str,
    migrated_sqlite: Path,
    tmp_path: Path,
    disk: Callable[[Path], AbstractContextManager[tuple[Fill, Fill]]],
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk(folder) as (fill, empty):
        shutil.copy(migrated_sqlite, folder / "store.sqlite")
        async with serving(data_url, f"sqlite:///{folder}/store.sqlite") as live:
            path = await create(live)
            fill()
            await _create_until_unavailable(live)
            done = await all_requests(live, path)
            assert_unavailable(done["create"])
            # What needs no room may still be done: reading does not, the others may find a page that is free.
            for answer in done.values():
                if answer.status_code not in (200, 204, 404):
                    assert_unavailable(answer)
            empty()
            await assert_all_work(live)


async def _create_until_unavailable(live: LiveServer) -> None:
    """The log of the database has room for a few."""
    for _ in range(10_000):
        answer = await live.http.post("/resources/tool")
        if answer.status_code != 201:
            assert_unavailable(answer)
            return
    raise AssertionError("the disk is never full")


@pytest.mark.long
async def test_the_file_is_removed_and_put_back(data_url: str, sqlite_store_url: str, tmp_path: Path) -> None:
    name = str(make_url(sqlite_store_url).database)
    away = tmp_path / "away"
    away.mkdir()
    async with serving(data_url, sqlite_store_url) as live:
        path = await create(live)
        _move(name, away)
        for _ in range(2):
            await assert_all_are_unavailable(live, path)
        assert not _files(name), "no empty file was put in its place"
        _move(str(away / Path(name).name), Path(name).parent)
        assert (await live.http.get(path)).status_code == 200
        await assert_all_work(live)


def _move(name: str, folder: Path) -> None:
    for file in _files(name):
        shutil.move(file, folder)


def _files(name: str) -> list[Path]:
    """The database's file, its log and the log's index, as far as they are there."""
    return [file for file in map(Path, (name, f"{name}-wal", f"{name}-shm")) if file.exists()]


async def test_another_holds_the_file_for_too_long(data_url: str, sqlite_store_url: str) -> None:
    async with serving(data_url, sqlite_store_url, timeout=0.05) as live:
        path = await create(live)
        with closing(sqlite3.connect(str(make_url(sqlite_store_url).database))) as other:
            other.execute("BEGIN IMMEDIATE")
            done = await all_requests(live, path)
            other.rollback()
        for name in ("create", "pin", "delete"):
            assert_unavailable(done.pop(name))
        assert {answer.status_code for answer in done.values()} == {200}, "readers do not wait for a writer"
        await assert_all_work(live)
