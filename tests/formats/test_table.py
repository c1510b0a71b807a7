"""The table of formats: a new row adds a format everywhere, in routes, tools, the client and the docs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.columns.result import ResultColumn
from dualsql.errors import DualResponseError
from dualsql.formats.ndjson import first_line
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, Format, Resuming, Rows, StreamEnd, WriterOptions
from dualsql_client import formats as client_formats
from dualsql_client.formats import FileFormat
from dualsql_client.framing import WholeFileFramer
from dualsql_client.wire import NO_RESUME_HEADER, RESUME_HEADER, StreamFormat, row_digest
from tests.http.application import Application, problem_of, running

METADATA = MetaData()
TOWNS = Table("towns", METADATA, Column("id", Integer, primary_key=True), Column("name", String(20)))
DOCS = Path(__file__).parents[2] / "docs"


class TSVWriter:
    """Values between tabs, as str() writes them."""

    def __init__(self, columns: Sequence[ResultColumn], dialect: Dialect, options: WriterOptions) -> None:
        self._names = [column.name for column in columns]

    def head(self) -> bytes:
        return "\t".join(self._names).encode() + b"\n"

    def rows(self, rows: Rows) -> Chunk:
        return Chunk("".join("\t".join(map(str, row)) + "\n" for row in rows).encode(), len(rows))

    def end(self, summary: StreamEnd) -> bytes:
        return b""

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        return None


TSV = Format(
    name="tsv",
    media_type="text/tab-separated-values",
    suffix="tsv",
    writer=TSVWriter,
    title="TSV",
    parameters="; charset=utf-8",
    resuming=Resuming(first_row=first_line),
    has_end=False,
    is_compressed=True,
    end_keys=frozenset({"name"}),
)
WHOLE = b"id\tname\n1\tUlm\n2\tBern\n3\tGraz\n"


@pytest.fixture
async def towns(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Application]:
    """A server that has one more format."""
    async with make_engine(sqlite_url).begin() as connection:
        await connection.run_sync(METADATA.create_all)
        rows = [{"id": number, "name": name} for number, name in enumerate(("Ulm", "Bern", "Graz"), 1)]
        await connection.execute(insert(TOWNS), rows)
    monkeypatch.setitem(FORMATS, TSV.name, TSV)
    async with running(sqlite_url, tables=METADATA, signed_links=True, secrets=["s" * 32]) as application:
        yield application


async def test_a_format_is_added_by_one_row(towns: Application) -> None:
    path = await towns.create(select(TOWNS))
    for query, accepted in (({"format": "tsv"}, "*/*"), ({}, TSV.media_type)):
        got = await towns.http.get(f"{path}/rows", params=query, headers={"accept": accepted})
        assert got.content == WHOLE
        assert got.headers["content-type"] == "text/tab-separated-values; charset=utf-8"
        assert got.headers["content-disposition"].endswith(".tsv")
        assert "content-encoding" not in got.headers
    token = got.headers[RESUME_HEADER]
    asked_again: dict[str, Any] = {
        "format": "tsv",
        "resume": token,
        "after": 2,
        "last": row_digest(b"2\tBern"),
    }
    rest = await towns.http.get(f"{path}/rows", params=asked_again)
    assert rest.content == b"3\tGraz\n"
    named = await towns.http.get(f"{path}/rows", params={"format": "ods"})
    assert "tsv" in problem_of(named, 400)["hint"]
    unacceptable = await towns.http.get(f"{path}/rows", headers={"accept": "image/png"})
    assert problem_of(unacceptable, 406)["details"]["formats"]["tsv"] == TSV.media_type
    alone = await towns.http.get(f"{path}/rows", params={"format": "tsv", "columns": "name"})
    assert problem_of(alone, 400)["details"] == {"name": "format"}


async def test_the_answer_to_a_question_has_the_added_format(towns: Application) -> None:
    path = await towns.create(select(TOWNS))
    filters = [{"column": "id", "op": "le", "value": 1}]
    got = await towns.http.post(f"{path}/query", json={"filters": filters, "format": "tsv"})
    assert got.content == b"id\tname\n1\tUlm\n"


async def test_a_link_is_good_for_the_added_format_alone(towns: Application) -> None:
    created = await towns.server.create_response(select(TOWNS), name="Towns")
    link = await towns.server.links.create(
        created.resource_id, formats=["tsv"], expires_in=timedelta(minutes=1), principal=None
    )
    got = await towns.http.get(link)
    assert got.content == WHOLE
    assert problem_of(await towns.http.get(link.replace("format=tsv", "format=csv")), 404)


async def test_what_cannot_be_resumed_says_so(towns: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await towns.create(select(TOWNS))
    first = await towns.http.get(f"{path}/rows", params={"format": "tsv"})
    monkeypatch.setitem(FORMATS, TSV.name, TSV._replace(resuming=None))
    second = await towns.http.get(f"{path}/rows", params={"format": "tsv"})
    assert second.headers[NO_RESUME_HEADER] == "FORMAT"
    parameters: dict[str, Any] = {"format": "tsv", "resume": first.headers[RESUME_HEADER], "after": 1}
    assert problem_of(await towns.http.get(f"{path}/rows", params=parameters), 400)["details"] == {
        "name": "resume"
    }


def test_the_client_s_table_is_the_mirror_of_the_server_s() -> None:
    assert get_args(StreamFormat) == tuple(FORMATS), "write the new name in dualsql_client.wire.StreamFormat"
    assert set(get_args(FileFormat)) == {*client_formats.BY_NAME, *client_formats.DATABASES}
    for name, found in client_formats.BY_NAME.items():
        written = FORMATS[name]
        assert found.media_type == written.media_type
        assert f".{written.suffix}" in found.suffixes
        assert isinstance(found.framer(1), WholeFileFramer) is (written.resuming is None)
        assert found.is_resumable is (written.resuming is not None)


def test_the_documents_list_every_format_with_its_media_type() -> None:
    text = (DOCS / "streams.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| `([\w/.-]+)` \|", text, re.MULTILINE)
    assert listed == [(each.name, each.media_type) for each in FORMATS.values()]
