"""KeptServer results in an object store: any host reads them, from bounded copies; failures are told."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import ObjectStore

from dualsql import (
    ConfigurationError,
    KeptSettings,
    ObjectResultStorage,
    SQLResourceStore,
    StorageError,
    TamperedError,
)
from dualsql.kept import storage_at
from dualsql.kept.service import ResultKeeper
from dualsql.kept.storage import StorageFullError
from dualsql.store import upgrade
from dualsql.testing import ResultStorageTests
from dualsql.testing.storages import put
from tests.kept.object_stores import SECRET, environment, local_store, new_bucket, s3_server, s3_store
from tests.kept.test_results import ANN, ROWS, change, kept_server
from tests.relay import Relay, relaying

MIB = 1024**2
AT_ONCE = timedelta(0)


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    with s3_server() as port:
        yield port


@pytest.fixture
def bucket(s3: int) -> str:
    return new_bucket(s3)


class TestObjectsInAFolder(ResultStorageTests):
    @pytest.fixture
    def make_storage(self, tmp_path: Path) -> Callable[[], ObjectResultStorage]:
        return lambda: ObjectResultStorage(
            local_store(tmp_path / "objects"), cache=tmp_path / "cache", recheck=AT_ONCE
        )


@pytest.mark.long
class TestObjectsOfS3(ResultStorageTests):
    @pytest.fixture
    def make_storage(self, s3: int, bucket: str, tmp_path: Path) -> Callable[[], ObjectResultStorage]:
        return lambda: ObjectResultStorage(s3_store(s3, bucket), cache=tmp_path / "cache", recheck=AT_ONCE)


@pytest.mark.long
class TestOtherMachines(ResultStorageTests):
    """Each storage has its own folder of copies."""

    @pytest.fixture
    def make_storage(self, s3: int, bucket: str, tmp_path: Path) -> Callable[[], ObjectResultStorage]:
        folders = iter(range(100))
        return lambda: ObjectResultStorage(
            s3_store(s3, bucket), cache=tmp_path / f"{next(folders)}", recheck=AT_ONCE
        )

    async def test_all_that_is_listed_can_be_deleted(self, storage: Any, other: Any) -> None:
        names = {await put(each) for each in (storage, other)}
        left = storage.new_folder().name
        theirs, mine = [{file.name for file in await each.list_files()} for each in (other, storage)]
        assert names <= theirs & mine and left in mine - theirs
        await storage.delete(*mine)
        await other.delete(*theirs)
        assert [*await storage.list_files(), *await other.list_files()] == []


async def opened(store: ObjectStore | str, cache: Path, **options: Any) -> ObjectResultStorage:
    storage = ObjectResultStorage(store, cache=cache, **options)
    await storage.open()
    return storage


def copies(cache: Path) -> dict[str, int]:
    """The bytes of all copies of a machine, and of what is not yet one."""
    actual = [
        path for path in cache.glob("*/*") if path.is_file() and path.name not in ("lock", "storage-id")
    ]
    return {path.name: path.stat().st_size for path in actual}


async def objects_of(store: ObjectStore) -> set[str]:
    return {each["path"] for page in obstore.list(store) for each in page} - {"storage-id"}


# Hosts ---------------------------------------------------------------------------------------------------------


async def test_a_host_reads_and_deletes_what_another_one_kept(s3: int, bucket: str, tmp_path: Path) -> None:
    store, url = s3_store(s3, bucket), f"sqlite:///{tmp_path / 'store.db'}"
    await asyncio.to_thread(upgrade, url)

    def host(name: str) -> Any:
        storage = ObjectResultStorage(store, cache=tmp_path / name, recheck=AT_ONCE)
        return kept_server(tmp_path, storage=storage, store=SQLResourceStore(url), secrets=["s" * 40])

    async with host("one") as one, host("two") as two:
        response, gone, forged = [await one.make(ANN) for _ in range(3)]
        change(one.data)
        assert len(await objects_of(store)) == 3 and copies(tmp_path / "two") == {}
        # Many readers at once, of a copy that is not there yet.
        lines = await asyncio.gather(*(two.lines(response, ANN) for _ in range(6)))
        assert [len(each) for each in lines] == [ROWS] * 6 and (await two.said(response, ANN))["kept"]
        files = {name.partition("@")[0]: name for name in await objects_of(store)}
        # A file that is gone is read from the database, and one that was changed is not read.
        await obstore.delete_async(store, files[gone.resource_id])
        for each in (one, two):
            assert len(await each.lines(gone, ANN)) == 21
            assert "is gone" in (await each.said(gone, ANN))["reason"]
        await obstore.put_async(store, files[forged.resource_id], b"rows of somebody else")
        with pytest.raises(TamperedError):
            await two.lines(forged, ANN)
        # Whoever deletes a result deletes its object. The other copies go with the next sweep.
        for result in (response, gone, forged):
            await two.dual.delete_resource(result.resource_id, ANN)
        assert await objects_of(store) == set() == set(copies(tmp_path / "two"))
        await one.dual.features.get(ResultKeeper).release()
        await one.dual.maintenance.sweep()
        assert copies(tmp_path / "one") == {}


async def test_a_sweep_of_any_host_deletes_objects_that_nobody_needs(
    s3: int, bucket: str, tmp_path: Path
) -> None:
    store = s3_store(s3, bucket)
    storage = ObjectResultStorage(store, cache=tmp_path / "one")
    async with kept_server(tmp_path, storage=storage, keep_for=timedelta(microseconds=1)) as kept:
        response = await kept.make(ANN)
        assert "too old" in (await kept.said(response, ANN))["reason"]
        await kept.dual.maintenance.sweep()
        assert await objects_of(store) == set()


# Copies --------------------------------------------------------------------------------------------------------


async def test_copies_are_in_the_folder_of_the_settings(tmp_path: Path) -> None:
    copied = tmp_path / "copies"
    storage = storage_at((tmp_path / "objects").as_uri(), KeptSettings(keep_cache=str(copied)))
    await storage.open()
    name = await put(storage)
    assert await storage.get(name) is not None
    assert set(copies(copied)) == {name}


async def test_copies_are_bounded_and_those_in_use_stay(tmp_path: Path) -> None:
    store, cache = local_store(tmp_path / "objects"), tmp_path / "cache"
    writer = await opened(store, tmp_path / "elsewhere")
    one, two = [await opened(store, cache, cache_bytes=5 * MIB // 2) for _ in range(2)]
    names = [await put(writer, bytes([n]) * MIB) for n in range(4)]
    paths = [await one.get(name) for name in names[:2]]
    assert set(copies(cache)) == set(names[:2])
    # The first was read the longest ago, and is in use; also for the other process.
    assert paths[0] is not None
    with paths[0].open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        for number in (2, 3, 1, 2):
            path = await two.get(names[number])
            assert path is not None and path.read_bytes() == bytes([number]) * MIB
            assert set(copies(cache)) == {names[0], names[number]}
        assert path is not None
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_SH)
            for storage in (one, two):
                with pytest.raises(StorageFullError):
                    await storage.get(names[3])
            # What is kept meanwhile has no copy here, and is kept.
            late = await put(one, b"late" * (MIB // 4))
            assert set(copies(cache)) == {names[0], names[2]} and late in await objects_of(store)
    assert await one.get(names[3]) is not None
    with pytest.raises(StorageError, match="larger than cache_bytes"):
        await put(one, b"rows" * MIB)


async def test_a_download_that_a_process_left_makes_room(tmp_path: Path) -> None:
    store, cache = local_store(tmp_path / "objects"), tmp_path / "cache"
    storage = await opened(store, cache, cache_bytes=2 * MIB)
    name = await put(await opened(store, tmp_path / "elsewhere"), b"r" * MIB)
    left = cache / storage.id / "part-of_a_process_that_died"
    await asyncio.to_thread(left.write_bytes, b"?" * 2 * MIB)
    assert await storage.get(name) is not None
    assert set(copies(cache)) == {name}


@pytest.mark.long
async def test_open_files_that_nobody_reads_are_closed_for_another_one(tmp_path: Path) -> None:
    store, cache = local_store(tmp_path / "objects"), tmp_path / "cache"
    storage = ObjectResultStorage(store, cache=cache, cache_bytes=MIB)
    async with kept_server(tmp_path, storage=storage) as kept:
        responses = [await kept.make(ANN) for _ in range(3)]
        size = max(copies(cache).values())
        assert size < MIB < 2 * size, "one file has room, two have not"
        for _ in range(2):
            for result in responses:
                page = await kept.page(result, ANN, limit=10)
                assert len(page.rows) == 10 and (await kept.said(result, ANN))["kept"]
                assert len(copies(cache)) == 1


async def test_a_copy_that_another_process_stops_reading_makes_room(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    storage = ObjectResultStorage(local_store(tmp_path / "objects"), cache=cache, cache_bytes=MIB)
    async with kept_server(tmp_path, storage=storage) as kept:
        first, second = [await kept.make(ANN) for _ in range(2)]
        (name,) = copies(cache)
        with (cache / storage.id / name).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            reading = asyncio.ensure_future(kept.page(first, ANN, limit=10))
            done, _ = await asyncio.wait({reading}, timeout=0.2)
            assert not done
        assert len((await reading).rows) == 10
        assert (await kept.said(first, ANN))["kept"] and (await kept.said(second, ANN))["kept"]


# Failures ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def relay(s3: int) -> AsyncIterator[Relay]:
    async with relaying(Relay(s3)) as found:
        yield found


async def test_readers_of_one_machine_download_once(
    relay: Relay, s3: int, bucket: str, tmp_path: Path
) -> None:
    data = os.urandom(3 * MIB)
    name = await put(await opened(s3_store(s3, bucket), tmp_path / "writer"), data)
    through = s3_store(relay.port, bucket)
    storages = [await opened(through, tmp_path / "cache") for _ in range(2)]
    paths = await asyncio.gather(*(storages[n % 2].get(name) for n in range(10)))
    assert {path and path.read_bytes() for path in paths} == {data}
    assert len(data) < relay.sent < len(data) + 100_000
    assert set(copies(tmp_path / "cache")) == {name}


@pytest.mark.quick(1)
@pytest.mark.parametrize("fault", ["cut", "silent"])
async def test_a_download_that_breaks_leaves_nothing(
    fault: str, relay: Relay, s3: int, bucket: str, tmp_path: Path
) -> None:
    data = os.urandom(20 * MIB)
    name = await put(await opened(s3_store(s3, bucket), tmp_path / "writer"), data)
    storage = await opened(
        s3_store(relay.port, bucket, seconds=1), tmp_path / "cache", timeout=timedelta(seconds=3)
    )
    reading = asyncio.ensure_future(storage.get(name))
    await relay.has_sent(2 * MIB)
    if fault == "silent":
        relay.fall_silent()
    else:
        relay.target = 1  # nobody listens there: the server has gone
        relay.cut()
    async with asyncio.timeout(10):
        with pytest.raises(StorageError) as error:
            await reading
    assert "object store" in str(error.value) and copies(tmp_path / "cache") == {}
    relay.target = s3
    relay.speak()
    path = await storage.get(name)
    assert path is not None and path.read_bytes() == data


@pytest.mark.quick(1)
@pytest.mark.parametrize("fault", ["cut", "silent"])
async def test_an_upload_that_breaks_leaves_nothing_and_the_rows_are_read_live(
    fault: str, relay: Relay, s3: int, bucket: str, tmp_path: Path
) -> None:
    class Breaking(ObjectResultStorage):
        async def put(self, name: str, file: Path) -> None:
            before = relay.sent
            if fault == "cut":
                # Larger than one part: the server goes between two of them.
                with file.open("ab") as more:
                    more.truncate(40 * MIB)
            else:
                relay.fall_silent()
            putting = asyncio.ensure_future(super().put(name, file))
            if fault == "cut":
                await relay.has_sent(before + 1)
                relay.target = 1
                relay.cut()
            await putting

    storage = Breaking(
        s3_store(relay.port, bucket, seconds=1), cache=tmp_path / "cache", timeout=timedelta(seconds=3)
    )
    async with kept_server(tmp_path, storage=storage) as kept:
        async with asyncio.timeout(15):
            response = await kept.make(ANN)
        assert len(await kept.lines(response, ANN)) == ROWS
        assert (await kept.said(response, ANN))["reason"] == "The rows could not be written."
        assert await objects_of(s3_store(s3, bucket)) == set() == set(copies(tmp_path / "cache"))


async def test_copies_outlive_the_store_and_nothing_tells_where_it_is(
    relay: Relay, s3: int, bucket: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = s3_store(relay.port, bucket, seconds=1)
    storage = ObjectResultStorage(store, cache=tmp_path / "cache", recheck=AT_ONCE)
    caplog.set_level(logging.DEBUG)
    texts = []
    async with kept_server(tmp_path, storage=storage) as kept:
        response, far = [await kept.make(ANN) for _ in range(2)]
        relay.target = 1
        await relay.end()
        assert len(await kept.lines(response, ANN)) == ROWS and (await kept.said(response, ANN))["kept"]
        for name in copies(tmp_path / "cache"):
            if name.startswith(far.resource_id):
                (tmp_path / "cache" / storage.id / name).unlink()
        assert len(await kept.lines(far, ANN)) == ROWS
        assert (await kept.said(far, ANN))["reason"] == "The kept rows could not be read."
        late = await kept.make(ANN)
        assert (await kept.said(late, ANN))["reason"] == "The rows could not be written."
    with pytest.raises(ConfigurationError) as refused:
        await opened(store, tmp_path / "cache")
    texts += ["".join(traceback.format_exception(refused.value)), repr(storage)]
    for text in (*texts, caplog.text):
        for secret in (SECRET, bucket, f":{relay.port}", "some/where"):
            assert secret not in text, text


@pytest.mark.parametrize(
    "url", ["memory:///", "http://example.com/x", "s3://", "/folder", "", "s3:bucket", "ftp://a/b"]
)
def test_other_urls_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="URL"):
        ObjectResultStorage(url, cache=tmp_path)


async def test_a_url_takes_its_credentials_from_the_environment(
    s3: int, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(s3).items():
        monkeypatch.setenv(name, value)
    storage = await opened(f"s3://{bucket}/some/where", tmp_path / "cache")
    name = await put(storage)
    assert await objects_of(s3_store(s3, bucket)) == {name}
    folder = await opened((tmp_path / "objects").as_uri(), tmp_path / "cache")
    assert await folder.get(await put(folder)) is not None


# Memory --------------------------------------------------------------------------------------------------------

MEASURED = """
import asyncio, resource, sys
from pathlib import Path
from dualsql import ObjectResultStorage
from dualsql.kept.storage import new_file_name
from tests.kept.object_stores import s3_store

port, bucket, folder, mib = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

async def moved(size):
    store, name = s3_store(port, bucket), new_file_name("one")
    writer, reader = [ObjectResultStorage(store, cache=folder / each) for each in ("a", "b")]
    await writer.open()
    await reader.open()
    file = writer.new_folder() / "rows"
    with file.open("wb") as out:
        for _ in range(size):
            out.write(b"r" * 1024**2)
    await writer.put(name, file)
    path = await reader.get(name)
    assert path.stat().st_size == size * 1024**2
    await writer.delete(name)

asyncio.run(moved(1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
asyncio.run(moved(mib))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.long
async def test_a_file_is_moved_in_parts(s3: int, bucket: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEASURED, str(s3), bucket, str(tmp_path), "200"),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert int(out) < 120, "MiB more than for a small file, of 200"
