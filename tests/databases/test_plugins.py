"""Another package adds a database by an entry point of the group `dualsql.databases`."""

from __future__ import annotations

import asyncio
import importlib
import re
import sqlite3
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, literal, make_url, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql import ConfigurationError, DualResponseServer, Registry
from dualsql.capabilities import capabilities_named
from dualsql.databases import backends, session
from dualsql.databases.backends import OWN
from dualsql.databases.engines import async_url
from dualsql.databases.guard import FailureKind, SessionTerms
from dualsql.databases.other import OtherGuard
from dualsql.databases.plugins import ENTRY_POINTS, NamedGuard
from dualsql.databases.source import open_source
from dualsql.databases.sqlite.connection import SQLiteGuard
from dualsql.databases.threads import ThreadedConnection
from dualsql.errors import QueryTimeoutError
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA, fill, running
from tests.schools import Base
from tests.servers import create_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "databases" / "adding.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## A dialect of one's own") :]


def block_of(language: str) -> str:
    """The first block of code in that language in the section of docs/databases/adding.md."""
    return SECTION.partition(f"```{language}\n")[2].partition("```")[0]


def entry_points() -> str:
    """The entry points of the page as an installer writes them, and some that are faulty."""
    groups = tomllib.loads(block_of("toml"))["project"]["entry-points"]
    groups["dualsql.databases"] |= {
        "kiosk_of_nothing": "kiosk_database:SQLITE.driver",
        "kiosk_that_is_gone": "kiosk_database.gone:BACKEND",
        "sqlite": "kiosk_database:BACKEND",
    }
    lines = [
        [f"[{group}]", *(f"{name} = {value}" for name, value in named.items())]
        for group, named in groups.items()
    ]
    return "\n".join(line for group in lines for line in group)


@pytest.fixture
def kiosk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution `kiosk-database`, installed beside dualsql for one test."""
    site, metadata = tmp_path / "site", tmp_path / "site" / "kiosk_database-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "kiosk_database.py").write_text(block_of("python"))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kiosk-database\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points())
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(backends, "_loaded", {})
    importlib.invalidate_caches()
    yield
    sys.modules.pop("kiosk_database", None)


@pytest.mark.usefixtures("kiosk")
async def test_pages_and_streams_are_served_from_it(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    await fill(make_engine(sqlite_url))
    url = sqlite_url.replace(sqlite_url.partition(":")[0], "kiosk", 1)
    assert async_url(url).drivername == "kiosk+aiosqlite"
    async with running(url) as application:
        [source] = application.server.parts.sources.values()
        assert (source.engine.dialect.name, source.capabilities.name) == ("kiosk", "Kiosk")
        path = await application.create()
        page = await application.http.get(path, params={"limit": 7, "sort": "-id"})
        assert [row["id"] for row in page.json()["data"]] == list(range(60, 53, -1))
        stream = await application.http.get(f"{path}/rows", params={"format": "ndjson"})
        assert len(stream.text.splitlines()) == 60 + 1  # and a summary


def test_the_databases_of_dualsql_are_entry_points_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][ENTRY_POINTS] == OWN


@pytest.mark.usefixtures("kiosk")
def test_none_takes_the_place_of_a_built_in_database() -> None:
    capabilities = capabilities_named("sqlite")
    assert capabilities is not None
    assert capabilities.name == "SQLite"


@pytest.mark.usefixtures("kiosk")
@pytest.mark.parametrize("name", ["kiosk_of_nothing", "kiosk_that_is_gone"])
def test_an_entry_point_that_is_no_database_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="kiosk_") as error:
        capabilities_named(name)
    assert error.value.hint


@pytest.mark.usefixtures("kiosk")
def test_the_error_for_an_unknown_database_names_those_that_are_added() -> None:
    with pytest.raises(ConfigurationError) as error:
        async_url("nosuch://host/database")
    assert "Kiosk" in str(error.value.hint)


def test_without_it_the_database_is_unknown(tmp_path: Path) -> None:
    assert capabilities_named("kiosk") is None
    with pytest.raises(ConfigurationError):
        open_source("default", f"kiosk:///{tmp_path}/a.db", Registry(Base))


class Faulty(SQLiteGuard):
    """A guard whose method `faulty` fails, as code does that somebody wrote for another version of a driver."""

    def __init__(self, faulty: str) -> None:
        self.faulty = faulty

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        self.fail("failure_kind")
        return super().failure_kind(error)

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        self.fail("read_only")
        async with super().read_only(connection, terms):
            yield
        self.fail("read_only at its end")
        if self.faulty == "an end that hangs":
            await asyncio.Event().wait()

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        if self.faulty == "a stop that hangs":
            await asyncio.Event().wait()
        await super().stop(connection, working)

    def fail(self, name: str) -> None:
        if self.faulty == name:
            raise AttributeError("'Cursor' object has no attribute 'messages'")


@pytest.mark.usefixtures("kiosk")
@pytest.mark.parametrize("faulty", ["read_only", "read_only at its end"])
async def test_a_faulty_guard_is_named_at_the_start(
    sqlite_url: str,
    make_engine: Callable[[str], AsyncEngine],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    faulty: str,
) -> None:
    await fill(make_engine(sqlite_url))
    serve_with_guard(monkeypatch, faulty)
    url = sqlite_url.replace("sqlite", "kiosk", 1)
    server = DualResponseServer(url, base_url=BASE_URL, tables=METADATA)
    with pytest.raises(ConfigurationError, match=r"\.Faulty\.read_only failed") as error:
        await server.start()
    await server.shutdown()
    assert "package" in error.value.hint
    assert "has no attribute 'messages'" in caplog.text  # with its traceback


@pytest.mark.usefixtures("kiosk")
@pytest.mark.parametrize("faulty", ["a stop that hangs", "an end that hangs"])
async def test_a_guard_that_hangs_keeps_no_caller(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine], monkeypatch: pytest.MonkeyPatch, faulty: str
) -> None:
    await fill(make_engine(sqlite_url))
    guard = serve_with_guard(monkeypatch, "")
    monkeypatch.setattr(session, "_UNWINDING", 0.3)
    numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
    endless = select(func.count()).select_from(numbers.union_all(select(numbers.c.n + 1)))
    url = sqlite_url.replace("sqlite", "kiosk", 1)
    async with create_server(
        url, base_url=BASE_URL, tables=METADATA, query_timeout=timedelta(seconds=0.3)
    ) as server:
        await server.create_response(select(INSTITUTIONS), name="before")
        guard.faulty = faulty
        async with asyncio.timeout(20):
            with pytest.raises(QueryTimeoutError):
                await server.create_response(endless, name="slow")
            guard.faulty = ""
            await server.create_response(select(INSTITUTIONS), name="after")


@pytest.mark.usefixtures("kiosk")
async def test_a_guard_that_fails_later_is_named_in_the_log(
    sqlite_url: str,
    make_engine: Callable[[str], AsyncEngine],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(make_engine(sqlite_url))
    guard = serve_with_guard(monkeypatch, "")
    async with running(sqlite_url.replace("sqlite", "kiosk", 1)) as application:
        path = await application.create()
        with closing(sqlite3.connect(str(make_url(sqlite_url).database))) as database:
            database.execute("DROP TABLE institutions")
        guard.faulty = "failure_kind"
        answer = await application.http.get(path, params={"limit": 7})
    assert answer.status_code == 500
    assert answer.json()["code"] == "BAD_CONFIGURATION"
    assert "Faulty.failure_kind failed with AttributeError" in caplog.text


def test_the_blocks_of_a_guard_that_has_none_of_its_own_can_be_entered() -> None:
    guard, connection = NamedGuard(OtherGuard()), None
    for block in (
        guard.tolerant_reading(connection),
        guard.without_read_ahead(connection),
        guard.limited_bytes(connection, 1),
    ):
        with block:
            pass


def test_the_connection_of_a_guard_has_what_the_page_says() -> None:
    sentence = PAGE.partition("**The connection of a guard**")[2].partition(":")[0]
    names = re.findall(r"`(\w+)`", sentence)
    assert len(names) == 6
    for connection in (AsyncConnection, ThreadedConnection):
        instance = set(vars(connection)) | {"sync_connection"}
        assert set(names) <= instance | set(dir(connection)), connection


def serve_with_guard(monkeypatch: pytest.MonkeyPatch, faulty: str) -> Faulty:
    """Let the package of `kiosk` have this guard."""
    module = importlib.import_module("kiosk_database")
    guard = Faulty(faulty)
    monkeypatch.setattr(module, "BACKEND", replace(module.BACKEND, guard=guard))
    return guard
