"""A process that is killed while it keeps a result leaves no row without its file, and no file for ever."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest

from dualsql import LocalResultStorage, ObjectResultStorage, SQLResourceStore
from dualsql.kept.service import ResultKeeper
from dualsql.store import upgrade
from tests.kept.object_stores import environment, new_bucket, s3_server
from tests.kept.test_results import ANN, ROWS, change, fill, kept_server

STEPS = ("folder", "begun", "written", "uploading", "named", "stored")
"""Where the process dies: with an empty folder, while it writes, before the name, before the row, and after it."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from dualsql import SQLResourceStore
from dualsql.kept import files
from dualsql.kept.storage import LocalResultStorage
from dualsql.kept.service import ResultKeeper
from tests.kept.test_killed import storage_of
from tests.kept.test_results import ANN, kept_server

step, work, folder, place = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_after(method):
    def call(*arguments):
        method(*arguments)
        killed()
    return call

def dying(storage):
    new_folder, put = storage.new_folder, storage.put

    def folder_of():
        found = new_folder()
        return killed() if step == "folder" else found

    async def putting(name, file):
        if step == "written":
            killed()
        if step == "uploading":
            with file.open("ab") as more:
                more.truncate(64 * 1024**2)
            # In a folder, it is a change of a name.
            asyncio.get_running_loop().call_later(0 if place == "folder" else 0.02, killed)
        await put(name, file)
        if step == "named":
            killed()

    storage.new_folder, storage.put = folder_of, putting

async def main():
    store, storage = SQLResourceStore(f"sqlite:///{folder / 'store.db'}"), storage_of(place, folder)
    if work == "create":
        dying(storage)
    async with kept_server(folder, storage=storage, store=store, secrets=["s" * 40]) as kept:
        if step == "begun" and work == "create":
            files.KeptFileWriter.add = dies_after(files.KeptFileWriter.add)
        made = await kept.make(ANN)
        if work == "refresh":
            dying(storage)
            if step == "begun":
                files.KeptFileWriter.add = dies_after(files.KeptFileWriter.add)
            if step == "stored":
                kept.dual.features.get(ResultKeeper).delete_file = killed
            await kept.dual.kept.refresh(made.resource_id, ANN)
        killed()

asyncio.run(main())
"""


def storage_of(place: str, folder: Path) -> Any:
    """The storage of a process: in a folder, in objects of a folder, or at a URL."""
    if place == "folder":
        return LocalResultStorage(folder / "kept")
    url = (folder / "objects").as_uri() if place == "objects" else place
    return ObjectResultStorage(url, cache=folder / "cache")


def files_of(storage: Any, folder: Path) -> set[str]:
    """All that is left in the storage, and in the folders of this machine."""
    kept = [each for part in ("kept", "cache/*", "objects") for each in folder.glob(f"{part}/*")]
    actual = {path.name for path in kept}
    if isinstance(storage, ObjectResultStorage):
        actual |= {each["path"] for page in obstore.list(storage._remote._store) for each in page}
    return actual - {"storage-id", "lock"}


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    with s3_server() as port:
        yield port


@pytest.fixture(params=["folder", "objects", "s3"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "s3":
        return str(request.param)
    port = request.getfixturevalue("s3")
    for name, value in environment(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{new_bucket(port)}/some/where"


async def killed_at(step: str, work: str, folder: Path, place: str) -> None:
    await asyncio.to_thread(folder.mkdir)
    fill(folder / "data.db")
    await asyncio.to_thread(upgrade, f"sqlite:///{folder / 'store.db'}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, step, work, str(folder), place), cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -9, step


def server(folder: Path, storage: Any, **options: Any) -> Any:
    store = SQLResourceStore(f"sqlite:///{folder / 'store.db'}")
    return kept_server(folder, storage=storage, store=store, secrets=["s" * 40], **options)


def make_old(folder: Path) -> None:
    for path in [*folder.glob("kept/*"), *folder.glob("cache/*/*"), *folder.glob("objects/*")]:
        os.utime(path, (0, 0))


async def swept(folder: Path, place: str) -> set[str]:
    """What is left when, long after, a process has deleted what nobody needs."""
    make_old(folder)
    storage = storage_of(place, folder)
    async with server(folder, storage, keep_for=timedelta(days=50_000)) as kept:
        if place.startswith("s3:"):
            # The times of these objects cannot be set: as if files were left alone for no time at all.
            object.__setattr__(
                kept.dual.features.get(ResultKeeper)._settings, "pending_timeout", timedelta(hours=-1)
            )
        await kept.dual.maintenance.sweep()
    return files_of(storage, folder)


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_process_leaves_no_row_without_its_file_and_no_file_for_ever(
    step: str, place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    await killed_at(step, "create", folder, place)
    assert files_of(storage_of(place, folder), folder) != set()
    left = await swept(folder, place)
    async with server(folder, storage_of(place, folder), keep_for=timedelta(days=50_000)) as kept:
        resources = (await kept.dual.list_resources(ANN)).resources
        assert len(resources) == len(left) == (step == "stored")
        for resource in resources:
            stream = await kept.dual.stream(resource.id, ANN)
            assert sum([chunk.rows async for chunk in stream.chunks]) == ROWS
            assert (await kept.dual.describe(resource.id, ANN))["kept"]["kept"]


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("place", ["folder", "s3"], indirect=True)
async def test_a_killed_refresh_leaves_the_old_rows_or_the_new_ones_and_one_file(
    step: str, place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    await killed_at(step, "refresh", folder, place)
    change(folder / "data.db")
    (name,) = await swept(folder, place)
    async with server(folder, storage_of(place, folder), keep_for=timedelta(days=50_000)) as kept:
        (resource,) = (await kept.dual.list_resources(ANN)).resources
        assert resource.kept is not None and resource.kept["file"] == name
        stream = await kept.dual.stream(resource.id, ANN)
        assert sum([chunk.rows async for chunk in stream.chunks]) == ROWS
        said = (await kept.dual.describe(resource.id, ANN))["kept"]
        assert said["kept"], said
        # The process that died is believed for a while; then the result can be refreshed again.
        assert ("running" in resource.kept) == (step != "stored")
