"""A small shop, and `dualsql serve` as a process. What a person would type, and what they would see."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.waiting import PATIENCE

TOKEN = "a-token-of-more-than-sixteen-characters"
PROGRAM = [sys.executable, "-c", "from dualsql.cli import main; main()"]

SHOP = """
CREATE TABLE makers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE parts (id INTEGER PRIMARY KEY, maker_id INTEGER NOT NULL REFERENCES makers (id), price REAL);
CREATE VIEW dear_parts AS SELECT * FROM parts WHERE price > 90;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
    INSERT INTO makers SELECT i, 'Maker ' || i FROM n;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO parts SELECT i, 1 + i % 40, i % 100 + 0.5 FROM n;
"""


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """The URL of a SQLite file with 40 makers and 1,000 parts."""
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SHOP)
    return f"sqlite:///{path}"


@dataclass(frozen=True)
class Serving:
    """The process, and what it said before it served."""

    process: asyncio.subprocess.Process
    said: str

    @property
    def origin(self) -> str:
        return self._origin_of("/mcp")

    @property
    def admin(self) -> str:
        """The origin for operators."""
        return self._origin_of("/ready")

    def _origin_of(self, path: str) -> str:
        match = re.search(rf"(http://127\.0\.0\.1:\d+){path}", self.said)
        assert match
        return match[1]

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> str:
        """What else it said until it ended."""
        self.process.send_signal(how)
        rest, _ = await self.process.communicate()
        return rest.decode()


def environment(**variables: str) -> dict[str, str]:
    """The environment without what would configure the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUALSQL_")}
    return {**kept, "COLUMNS": "80", **variables}


def _heed_interrupts() -> None:
    """Undo what a shell does to its background jobs: the tests may be one, and their children inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def serving_process(*arguments: str, **variables: str) -> AsyncIterator[Serving]:
    """`dualsql serve` once it serves, on a free port; killed at the end of the block if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "serve",
        "--port",
        "0",
        *arguments,
        env=environment(**variables),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=_heed_interrupts,
    )
    try:
        assert process.stdout is not None
        yield Serving(process, (await process.stdout.readuntil(b"Press Ctrl-C to stop.\n")).decode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def calling(
    origin: str, headers: Mapping[str, str], *, mode: Literal["auto", "legacy"] = "auto"
) -> AsyncIterator[Client]:
    """A client of the MCP endpoint there whose every request has `headers`."""
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{origin}/mcp", http_client=http), mode=mode) as model,
    ):
        yield model


def text_of(result: CallToolResult) -> str:
    """The text of a result, which is its first block."""
    block = result.content[0]
    assert block.type == "text"
    return block.text
