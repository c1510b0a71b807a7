"""The promises of any ResultStorage, as tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select

from dualsql.errors import StorageError
from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer
from dualsql.resource import new_resource_id

if TYPE_CHECKING:
    from dualsql.kept import ResultStorage

_ROWS = b"rows of a result\x00" * 10_000


class ResultStorageTests:
    """Tests of a ResultStorage. A subclass has the fixture `make_storage`, which is called for storages of one place.

    class TestMyStorage(ResultStorageTests):
        @pytest.fixture
        def make_storage(self, tmp_path: Path) -> Callable[[], MyStorage]:
            return lambda: MyStorage(tmp_path / "kept")

    Each call stands for another process; the place is new and empty in each test. They run as ResourceStoreTests do.
    """

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def storage(self, make_storage: Callable[[], ResultStorage], anyio_backend: str) -> ResultStorage:
        """The storage that a test uses."""
        storage = make_storage()
        await storage.open()
        return storage

    @pytest.fixture
    async def other(
        self, storage: ResultStorage, make_storage: Callable[[], ResultStorage], anyio_backend: str
    ) -> ResultStorage:
        """The same place in another process."""
        opened_storage = make_storage()
        await opened_storage.open()
        return opened_storage

    async def test_all_processes_have_the_same_id(self, storage: ResultStorage, other: ResultStorage) -> None:
        before = storage.id
        await storage.open()
        assert before and storage.id == other.id == before

    async def test_folders_are_new_and_belong_to_this_user(self, storage: ResultStorage) -> None:
        folders = [storage.new_folder() for _ in range(3)]
        assert len(set(folders)) == 3
        for folder in folders:
            assert list(folder.iterdir()) == []
            assert folder.stat().st_mode & 0o077 == 0

    async def test_what_was_put_is_there_for_all(self, storage: ResultStorage, other: ResultStorage) -> None:
        name = await put(storage)
        for path in (await storage.get(name), await other.get(name)):
            assert path is not None and path.read_bytes() == _ROWS
            assert path.stat().st_mode & 0o077 == 0 and not path.is_symlink()

    async def test_files_put_at_once_are_all_there(
        self, storage: ResultStorage, other: ResultStorage
    ) -> None:
        names = await asyncio.gather(
            *(put(each, f"{n}".encode()) for each in (storage, other) for n in range(10))
        )
        paths = [await storage.get(name) for name in names]
        assert [path and path.read_bytes() for path in paths] == [f"{n}".encode() for n in range(10)] * 2
        assert {file.name for file in await other.list_files()} >= set(names)

    async def test_what_is_listed_says_how_large_it_is_and_when_it_was_written(
        self, storage: ResultStorage
    ) -> None:
        name = await put(storage)
        (file,) = [file for file in await storage.list_files() if file.name == name]
        assert file.size == len(_ROWS)
        assert abs(file.written_at - datetime.now(UTC)) < timedelta(minutes=2)

    async def test_what_was_deleted_is_gone_for_all(
        self, storage: ResultStorage, other: ResultStorage
    ) -> None:
        remaining, *names = [await put(storage) for _ in range(3)]
        assert await other.get(names[0]) is not None
        await storage.delete(*names, new_file_name("never"))
        assert [await each.get(name) for each in (storage, other) for name in names] == [None] * 4
        assert await other.get(remaining) is not None
        await storage.delete(*names)
        assert not {file.name for file in await other.list_files()} & set(names)

    async def test_who_reads_a_file_reads_it_to_its_end(
        self, storage: ResultStorage, other: ResultStorage
    ) -> None:
        name = await put(storage)
        path = await storage.get(name)
        assert path is not None
        with path.open("rb") as file:
            first = file.read(10)
            await other.delete(name)
            await storage.delete(name)
            assert first + file.read() == _ROWS

    async def test_an_unknown_file_is_none(self, storage: ResultStorage) -> None:
        assert await storage.get(new_file_name("nobody")) is None

    async def test_a_file_that_could_not_be_kept_is_not_listed(self, storage: ResultStorage) -> None:
        name = new_file_name("lost")
        with pytest.raises(StorageError):
            await storage.put(name, storage.new_folder() / "rows")
        assert await storage.get(name) is None
        assert name not in {file.name for file in await storage.list_files()}

    @pytest.mark.parametrize(
        "name",
        ["", ".", "../rows", "/etc/passwd", "a/b@0123456789abcdef", "id@0123\x00", "id@../../0123456789ab"],
    )
    async def test_no_name_leads_elsewhere(self, storage: ResultStorage, name: str) -> None:
        file = storage.new_folder() / "rows"
        file.write_bytes(_ROWS)
        with pytest.raises(StorageError):
            await storage.get(name)
        with pytest.raises(StorageError):
            await storage.put(name, file)
        with pytest.raises(StorageError):
            await storage.delete(name)

    async def test_all_that_is_listed_can_be_deleted(
        self, storage: ResultStorage, other: ResultStorage
    ) -> None:
        """Also what a process that was stopped had begun to write."""
        await put(storage)
        left = storage.new_folder() / "rows"
        left.write_bytes(_ROWS)
        files = await other.list_files()
        await other.delete(*(file.name for file in files))
        assert list(await storage.list_files()) == []

    async def test_a_server_keeps_results_in_it(
        self, make_storage: Callable[[], ResultStorage], tmp_path: Path
    ) -> None:
        path = tmp_path / "data.sqlite"
        numbers = Table(
            "numbers", MetaData(), Column("id", Integer, primary_key=True), Column("text", String)
        )
        engine = create_engine(f"sqlite:///{path}")
        numbers.metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(numbers.insert(), [{"id": n, "text": f"text {n}"} for n in range(500)])
        async with self._server(path, numbers, make_storage()) as server:
            response = await server.create_response(select(numbers), name="numbers", keep=True)
            with engine.begin() as connection:
                connection.execute(numbers.delete())
            engine.dispose()
            page = await server.read_page(response.resource_id, None)
            assert [row["id"] for row in page.rows] == list(range(100))
            assert (await server.describe(response.resource_id, None))["kept"]["kept"] is True
            assert await server.delete_resource(response.resource_id, None)
        storage = make_storage()
        await storage.open()
        assert list(await storage.list_files()) == []

    def _server(self, path: Path, table: Table, storage: ResultStorage) -> DualResponseServer:
        from dualsql.kept.feature import Kept

        return DualResponseServer(
            f"sqlite:///{path}",
            base_url="http://127.0.0.1/r",
            tables=table.metadata,
            features=default_features(Kept(storage)),
        )


def new_file_name(resource_id: str) -> str:
    """A name for a file of a resource that no other file has."""
    # Stores are tested without the feature Kept.
    from dualsql.kept.storage import new_file_name

    return new_file_name(resource_id)


async def put(storage: ResultStorage, data: bytes = _ROWS) -> str:
    """The name of a new file of these bytes."""
    name = new_file_name(new_resource_id())
    file = storage.new_folder() / "rows"
    await asyncio.to_thread(file.write_bytes, data)
    await storage.put(name, file)
    return name
