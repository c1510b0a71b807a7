"""Options of pytest, and the fixtures that every test may ask for. A database that does not start fails its tests.

`async def test_...` functions and fixtures need no mark: anyio's plugin runs them, on asyncio. Every folder
of tests is a package, so that files in two folders may bear one name.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.databases.sqlite import BACKEND as SQLITE
from dualsql.store import upgrade
from tests import engines
from tests.quick import (
    LONG,
    THIRDS,
    beyond_their_number,
    is_long_as_a_whole,
    leave_out_long_cases,
    third_of,
)

if TYPE_CHECKING:
    from tests import mariadb


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--third", type=int, choices=THIRDS, help="of the long tests, run this third")
    parser.addoption("--rewrite-types", action="store_true", help="write the table of docs/types.md anew")
    parser.addoption("--record-exchanges", action="store_true", help="write tests/exchanges/recordings anew")
    parser.addoption(
        "--exchanges-any-wording", action="store_true", help="compare all but the wording with the recordings"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, because tests wait for databases: 139 s in place of 168 for `make test`, on two."""
    return (os.cpu_count() or 1) + 1


# Of `dualsql serve --stdio`: its files are none of the user's who runs the tests.
_FOLDERS = TemporaryDirectory(prefix="dualsql-user-")


def pytest_configure(config: pytest.Config) -> None:
    config.option.anyio_mode = "auto"
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_RUNTIME_DIR"] = _FOLDERS.name
    # Workers of pytest-xdist inherit that of the process that starts them.
    if not hasattr(config, "workerinput"):
        os.environ[engines.FOLDER_OF_RUN] = _FOLDERS.name
    # How long one case takes says how busy the machine is; `timeout` ends what hangs.
    examples = 30 if _is_quick_run(config) else 100
    settings.register_profile(
        "on any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples
    )
    settings.load_profile("on any machine")
    # A shell starts what runs in the background, or under nohup, with SIGINT ignored, and so would our children be.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without garbage collection, and leave them out of it afterwards: they all stay.

    17,000 tests and what they import are 1.5 million objects: each full collection of garbage would take half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Objects of one test seldom live into the next: 700, the default, costs 8 % of the run.
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


def _is_quick_run(config: pytest.Config) -> bool:
    return config.getoption("-m") == "not long" and not config.getoption("--record-exchanges")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run does not import files without quick tests."""
    is_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if is_file and _is_quick_run(config) and is_long_as_a_whole(collection_path.read_text(encoding="utf-8")):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """A quick run makes nothing of tests that are long as a whole."""
    marks = getattr(obj, "pytestmark", None) if name.startswith(("test_", "Test")) else None
    is_long = isinstance(marks, list) and not LONG.isdisjoint(mark.name for mark in marks)
    return [] if is_long and _is_quick_run(collector.config) else None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """A quick run makes no tests of long cases."""
    result = yield
    if _is_quick_run(metafunc.config):
        leave_out_long_cases(metafunc)
    return result


@pytest.hookimpl(tryfirst=True)  # before pytest's own `-m` deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is long: exhaustive tests, and cases beyond a test's quick ones. `--third` leaves out other thirds.

    With `--record-exchanges` no exchange is long: recordings of the quick cases alone would leave the others behind.
    """
    for item in items:
        if item.get_closest_marker("exhaustive"):
            item.add_marker("long")
    for item in list(beyond_their_number(items)):
        item.add_marker("long")
    if config.getoption("--record-exchanges"):
        for item in items:
            if "exchanges" in getattr(item, "fixturenames", ()):
                item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "long"]
    third = config.getoption("--third")
    if third is None:
        return
    others = [item for item in items if item.get_closest_marker("long") and third_of(item.nodeid) != third]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _check_each_schema_once() -> Iterator[None]:
    """JSON Schemas of tools are checked once in a run, and not for each client: that took a sixth of tests/mcp."""
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError:  # no part of the kernel's tests
        yield
        return

    check = Draft202012Validator.check_schema

    @cache
    def check_text(text: str) -> None:
        check(json.loads(text))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Draft202012Validator,
            "check_schema",
            lambda schema: check_text(json.dumps(schema)),
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _end_servers_soon() -> Iterator[None]:
    """uvicorn looks every 0.1 s whether it is to end, and then gives connections 0.1 s; here both are 0.01 s."""
    try:
        import uvicorn.server
    except ModuleNotFoundError:  # no part of the kernel's tests
        yield
        return
    hasty = SimpleNamespace(**vars(asyncio))
    hasty.sleep = lambda seconds: asyncio.sleep(min(seconds, 0.01))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", hasty)
        yield


@pytest.fixture(scope="session", autouse=True)
def _trust_one_certificate(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """HTTP clients read the certificates of all authorities when they are made: 16 ms each. Here they read one.

    Exhaustive tests install packages of an index, and need those of the machine.
    """
    if any(item.get_closest_marker("exhaustive") for item in request.session.items):
        yield
        return
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    file.write_text(first + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[engines.PostgreSQL]:
    """The session's PostgreSQL; `.database()` makes a database for whatever scope asks."""
    with engines.postgresql_server() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: engines.PostgreSQL) -> Iterator[str]:
    """The async URL of an empty PostgreSQL database."""
    with postgresql_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDB]:
    """The session's MariaDB; `.database()` makes a database for whatever scope asks."""
    from tests import mariadb

    program = mariadb.find_server()
    if program is None:
        pytest.skip("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    with mariadb.mariadb_server(program) as server:
        yield server


@pytest.fixture
def mariadb_url(mariadb_server: mariadb.MariaDB) -> Iterator[str]:
    """The async URL of an empty MariaDB database."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The async URL of an empty SQLite file."""
    return engines.sqlite_url_in(tmp_path)


@pytest.fixture(params=engines.ENGINES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The async URL of an empty database, once for every engine that can keep resources."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=engines.SOURCES)
def source_url(request: pytest.FixtureRequest) -> str:
    """The async URL of an empty database, once for every engine that queries run on."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with dualsql's tables, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "store.sqlite"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server: engines.PostgreSQL) -> Iterator[str]:
    """The async URL of a PostgreSQL database with dualsql's tables, to be emptied before each use."""
    with postgresql_server.database() as url:
        upgrade(url)
        yield url


@pytest.fixture
def sqlite_store_url(sqlite_url: str, migrated_sqlite: Path) -> str:
    """The async URL of a SQLite file that is ready for a SQLResourceStore."""
    shutil.copy(migrated_sqlite, str(make_url(sqlite_url).database))
    return sqlite_url


@pytest.fixture
def postgresql_store_url(postgresql_server: engines.PostgreSQL, migrated_postgresql: str) -> str:
    """The async URL of a PostgreSQL database that is ready for a SQLResourceStore.

    All tests share it, one after the other: a test that changes more than rows needs `postgresql_url`.
    """
    postgresql_server.execute(
        "TRUNCATE dualsql_resources, dualsql_links", str(make_url(migrated_postgresql).database)
    )
    return migrated_postgresql


@pytest.fixture(params=engines.ENGINES)
def store_url(request: pytest.FixtureRequest) -> str:
    """The async URL of a database that is ready for a SQLResourceStore, once for every engine."""
    url: str = request.getfixturevalue(f"{request.param}_store_url")
    return url


@pytest.fixture
async def make_engine(anyio_backend: str) -> AsyncIterator[Callable[[str], AsyncEngine]]:
    """A function from a URL to an AsyncEngine; all it made are disposed when the test ends."""
    engines_of_test: list[AsyncEngine] = []

    def make(url: str) -> AsyncEngine:
        # As on dualsql's own engines, a cancelled attempt to connect waits for aiosqlite's thread: it would report to
        # an event loop that has ended with its test, in the middle of another one.
        parsed = make_url(url)
        beyond = SQLITE.arguments_beyond(parsed) if parsed.get_backend_name() == "sqlite" else {}
        engines_of_test.append(create_async_engine(parsed, connect_args=dict(beyond)))
        return engines_of_test[-1]

    yield make
    for engine in engines_of_test:
        await engine.dispose()


@pytest.fixture
async def engine(database_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncEngine:
    """An AsyncEngine on an empty database, once for every engine."""
    return make_engine(database_url)
