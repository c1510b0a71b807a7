"""A process that is killed while it keeps a result leaves no row without its file, and no file for ever."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dualsql import LocalResultStorage, SQLResourceStore
from dualsql.store import upgrade
from tests.kept.test_results import ANN, ROWS, fill, kept_server

STEPS = ("folder", "begun", "written", "named", "stored")
"""Where the process dies: with an empty folder, while it writes, before the name, before the row, and after it."""

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from dualsql import LocalResultStorage, SQLResourceStore
from dualsql.kept import files
from tests.kept.test_results import ANN, kept_server

step, folder = sys.argv[1], Path(sys.argv[2])

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dies_after(method):
    def call(*arguments):
        method(*arguments)
        killed()
    return call

class Storage(LocalResultStorage):
    def new_folder(self):
        found = super().new_folder()
        return killed() if step == "folder" else found

    async def put(self, name, file):
        if step == "written":
            killed()
        await super().put(name, file)
        if step == "named":
            killed()

if step == "begun":
    files.KeptFileWriter.add = dies_after(files.KeptFileWriter.add)

async def main():
    store = SQLResourceStore(f"sqlite:///{folder / 'store.db'}")
    async with kept_server(folder, storage=Storage(folder / "kept"), store=store, secrets=["s" * 40]) as kept:
        await kept.make(ANN)
        killed()

asyncio.run(main())
"""


async def killed_at(step: str, folder: Path) -> None:
    await asyncio.to_thread(folder.mkdir)
    fill(folder / "data.db")
    await asyncio.to_thread(upgrade, f"sqlite:///{folder / 'store.db'}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, step, str(folder), cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -9, step


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_process_leaves_no_row_without_its_file_and_no_file_for_ever(
    step: str, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    await killed_at(step, folder)
    store = SQLResourceStore(f"sqlite:///{folder / 'store.db'}")
    storage = LocalResultStorage(folder / "kept")
    async with kept_server(
        folder, storage=storage, store=store, secrets=["s" * 40], keep_for=timedelta(days=50_000)
    ) as kept:
        made = (await kept.dual.list_resources(ANN)).resources
        assert len(made) == (step == "stored")
        assert kept.files() != []
        for path in kept.files():
            os.utime(path, (0, 0))  # long ago: nobody writes to it any more
        await kept.dual.sweep()
        assert len(kept.files()) == len(made)
        for resource in made:
            stream = await kept.dual.stream(resource.id, ANN)
            assert sum([chunk.rows async for chunk in stream.chunks]) == ROWS
            assert (await kept.dual.describe(resource.id, ANN))["kept"]["kept"]
