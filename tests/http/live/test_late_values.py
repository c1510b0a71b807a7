"""A value deep in a stream that does not fit the type of its column: no file looks whole, over real sockets.

The answer, or its last record, names the column to be sent as text; with it, the file has every row.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import Column, Integer, MetaData, Select, Table, func, select, text

from dualsql_client import DualResponseClient, ParsedDualResponse
from dualsql_client.errors import FetchError
from tests.engines import opened
from tests.http.live.serving import LiveServer, listening

LATE = Table("late", MetaData(), Column("id", Integer, primary_key=True), Column("n", Integer))
ROWS, ODD = 60_000, 50_000
SMALL = select(LATE).order_by(LATE.c.id)
WIDE = select(LATE, func.printf("%0600d", LATE.c.id).label("padding")).order_by(LATE.c.id)
"""More than a row group of Parquet before the value."""


@pytest.fixture
async def late_url(sqlite_url: str) -> str:
    """A database in which one of many integers is a text."""
    async with opened(sqlite_url) as engine, engine.begin() as connection:
        await connection.run_sync(LATE.metadata.create_all)
        await connection.execute(
            text(
                f"WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {ROWS})"
                f" INSERT INTO late SELECT i, CASE i WHEN {ODD} THEN 'abc' ELSE i END FROM r"
            )
        )
    return sqlite_url


def result_of(client: DualResponseClient, live: LiveServer) -> ParsedDualResponse:
    """The result of the server, for a client."""
    return client.parse(f"resource://{live.path.rpartition('/')[2]}", strict=True)


def files_in(folder: Path) -> list[Path]:
    """The files that were saved, whole or in part."""
    return [*folder.glob("*late*")]


async def read_into(content: bytearray, http: httpx.AsyncClient, path: str) -> None:
    """Read a stream; what came before it breaks stays in `content`."""
    async with http.stream("GET", path) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_bytes():
            content += piece


async def test_arrow_ends_with_the_column_to_be_sent_as_text(late_url: str) -> None:
    async with listening(late_url, statement=SMALL, tables=LATE.metadata) as live:
        answer = await live.http.get(f"{live.path}/rows", params={"format": "arrow"})
        assert answer.status_code == 200
        with pytest.raises(pa.ArrowInvalid), pa.ipc.open_stream(io.BytesIO(answer.content)) as stream:
            stream.read_all()
        assert b'"text_columns":["n"]' in answer.content[-2_000:]


async def test_a_small_parquet_file_is_refused_before_it_begins(late_url: str) -> None:
    async with listening(late_url, statement=SMALL, tables=LATE.metadata) as live:
        answer = await live.http.get(f"{live.path}/rows", params={"format": "parquet"})
        assert answer.status_code == 422
        assert answer.json()["details"]["text_columns"] == ["n"]
        texts = {"format": "parquet", "text_columns": "n"}
        answer = await live.http.get(f"{live.path}/rows", params=texts)
        numbers = parquet.read_table(io.BytesIO(answer.content)).column("n").to_pylist()
        assert len(numbers) == ROWS and numbers[ODD - 1] == "abc"


@pytest.mark.long
async def test_a_large_parquet_file_is_cut_off(late_url: str) -> None:
    async with listening(late_url, statement=WIDE, tables=LATE.metadata) as live:
        content = bytearray()
        with pytest.raises(httpx.RemoteProtocolError):
            await read_into(content, live.http, f"{live.path}/rows?format=parquet")
        assert content.startswith(b"PAR1")
        with pytest.raises(pa.ArrowInvalid):
            parquet.read_table(io.BytesIO(content))


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize("statement", [SMALL, WIDE], ids=["small", "wide"])
async def test_a_client_leaves_no_file_and_saves_it_with_a_text(
    late_url: str, tmp_path: Path, suffix: str, statement: Select[Any]
) -> None:
    path = tmp_path / f"late.{suffix}"
    async with (
        listening(late_url, statement=statement, tables=LATE.metadata) as live,
        DualResponseClient(f"{live.http.base_url}/resources") as client,
    ):
        result = result_of(client, live)
        with pytest.raises(FetchError) as error:
            await result.save(path)
        assert not files_in(tmp_path)
        if suffix == "arrow" or statement is SMALL:
            assert error.value.details["text_columns"] == ["n"]
        else:
            assert "arrow" in str(error.value.hint), "the format that says why"
        await result.save(path, text_columns=["n"])
    read = parquet.read_table if suffix == "parquet" else lambda name: pa.ipc.open_stream(name).read_all()
    assert read(path).num_rows == ROWS
