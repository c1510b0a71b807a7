"""A database without read-only sessions: refused unless it is named, never tried, and told to its operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import event, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from typer.testing import CliRunner

from dualsql import ConfigurationError, DualResponseServer, Health, Registry, Settings
from dualsql.cli.commands import app
from dualsql.databases import backends
from dualsql.databases.health import SourceHealth
from dualsql.databases.source import open_source
from dualsql.databases.sqlite import BACKEND as SQLITE
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA, ROWS, fill
from tests.servers import create_server


@pytest.fixture(autouse=True)
def without_read_only_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite as a database whose sessions may write."""
    actual = replace(
        SQLITE, capabilities=replace(SQLITE.capabilities, name="Loose"), has_read_only_sessions=False
    )
    monkeypatch.setitem(backends._loaded, "sqlite", actual)


@pytest.fixture
async def institutions(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncEngine:
    """An engine on the filled database."""
    engine = make_engine(sqlite_url)
    await fill(engine)
    return engine


@pytest.fixture
def institutions_url(institutions: AsyncEngine) -> str:
    """Its URL."""
    return str(institutions.url)


def server_on(databases: Any, **options: Any) -> DualResponseServer:
    return create_server(databases, base_url=BASE_URL, tables=METADATA, **options)


@pytest.mark.parametrize(
    ("allowed", "told"),
    [
        (
            False,
            "dualsql knows no read-only sessions of Loose: nothing proves that the database 'a' is only read.",
        ),
        (
            {"b"},
            "dualsql knows no read-only sessions of Loose: nothing proves that the database 'a' is only read.",
        ),
        (True, "unproved_read_only=True is for a server with one database."),
        ({"a", "b", "c"}, "unproved_read_only: there is no source 'c'."),
        ("a", "unproved_read_only must be True, False or names of sources."),
        (1, "unproved_read_only must be True, False or names of sources."),
    ],
)
def test_it_is_refused_unless_it_is_named(institutions_url: str, allowed: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        server_on({"a": institutions_url, "b": institutions_url}, unproved_read_only=allowed)
    assert error.value.message == told and error.value.hint


def test_a_text_could_write(institutions_url: str) -> None:
    with pytest.raises(ConfigurationError, match="allow_text"):
        server_on(institutions_url, unproved_read_only=True, allow_text=True)


async def test_no_write_is_tried_and_the_operator_is_told(institutions: AsyncEngine) -> None:
    statements: list[str] = []
    event.listen(
        institutions.sync_engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    async with server_on({"data": institutions}, unproved_read_only=["data"]) as server:
        response = await server.create_response(select(INSTITUTIONS), name="All")
        assert response.total_count == len(ROWS)
        assert any(text.startswith("SELECT") for text in statements)
        assert not [text for text in statements if "CREATE" in text]
        [notice] = server.notices
        assert "'data'" in notice and "Loose" in notice and "unproved_read_only" in notice
        health = Starlette(routes=list(server.features.get(Health).process_routes()))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(health), base_url="http://x") as http:
            answer = await http.get("/ready")
        assert answer.status_code == 200
        assert answer.json()["parts"]["database data"] == "ok"
        assert answer.json()["unproved_read_only"] == ["data"]


async def test_nothing_is_tried_after_an_outage(institutions_url: str) -> None:
    source = open_source("default", institutions_url, Registry(METADATA), Settings(unproved_read_only=True))
    tried: list[str] = []
    event.listen(
        source.engine.sync_engine, "before_cursor_execute", lambda *arguments: tried.append(arguments[2])
    )
    health = SourceHealth(source, (), Settings(), timedelta(seconds=2))
    health._must_be_proved = True
    assert await health.state() == "ok"
    await source.close()
    assert tried and not [text for text in tried if "CREATE" in text]


def test_the_command_says_so(institutions_url: str) -> None:
    of_it = ["--database", institutions_url, "--all"]
    refused = CliRunner().invoke(app, ["serve", *of_it])
    assert refused.exit_code == 1 and "no read-only sessions of Loose" in refused.output
    faulty = CliRunner().invoke(app, ["doctor", *of_it])
    for each in (refused, faulty):
        # The words of a command, and not of Python.
        assert "Then add --unproved-read-only." in each.output
        assert "unproved_read_only" not in each.output
    result = CliRunner().invoke(app, ["doctor", *of_it, "--json", "--unproved-read-only"])
    actual = {each["check"]: each for each in json.loads(result.stdout)["checks"]}
    assert actual["read-only"]["state"] == "warning" and "nothing proves" in actual["read-only"]["message"]
