"""The recorder: what a test adds is written with --record-exchanges, and otherwise compared with what was written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from tests import engines
from tests.exchanges import recording
from tests.exchanges.recording import Exchanges
from tests.schools import fill

RECORDINGS = Path(__file__).parent / "recordings"
MOST_SHOWN = 30


def recording_of(node: pytest.Item) -> Path:
    """Where the exchanges of a test are kept."""
    name = re.sub(r"[^\w-]+", "_", node.name.removeprefix("test_")).strip("_")
    return RECORDINGS / node.path.stem.removeprefix("test_") / f"{name}.jsonl"


@pytest.fixture(autouse=True)
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses are written when a server stops: while some are written, they are missing in metadata."""
    monkeypatch.setattr("dualsql.store.housekeeping.FLUSH_INTERVAL", timedelta(hours=1))


@pytest.fixture
def exchanges(request: pytest.FixtureRequest) -> Iterator[Exchanges]:
    """Where a test puts what it asked and what was answered; at its end that is recorded, or compared."""
    had = Exchanges()
    yield had
    file = recording_of(request.node)
    if request.config.getoption("--record-exchanges"):
        recording.write(file, had.had)
        return
    if not file.exists():
        pytest.fail(f"nothing was recorded: pytest {file.parent.name} --record-exchanges")
    any_wording = bool(request.config.getoption("--exchanges-any-wording"))
    actual = recording.differences(recording.read(file), had.had, any_wording=any_wording)
    if actual:
        more = [f"... and {len(actual) - MOST_SHOWN} more"] if len(actual) > MOST_SHOWN else []
        pytest.fail("\n".join(["Not as recorded:", *actual[:MOST_SHOWN], *more]), pytrace=False)


def _filled(url: str) -> str:
    async def write() -> None:
        engine = create_async_engine(url)
        await fill(engine)
        await engine.dispose()

    asyncio.run(write())
    return url


@pytest.fixture(scope="session")
def sqlite_schools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a SQLite file with the school database; nobody writes to it."""
    return _filled(engines.sqlite_url_in(tmp_path_factory.mktemp("schools")))


@pytest.fixture(scope="session")
def postgresql_schools(postgresql_server: engines.PostgreSQL) -> Iterator[str]:
    """The same on PostgreSQL."""
    with postgresql_server.database() as url:
        yield _filled(url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def schools(request: pytest.FixtureRequest) -> str:
    """The URL of the school database, once for every engine that exchanges are recorded on."""
    url: str = request.getfixturevalue(f"{request.param}_schools")
    return url
