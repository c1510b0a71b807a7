"""Two servers that show one caller the same, and what the caller can tell of them.

The second has more hidden tables, other rows of the other tenant, other values under the mask, and results of others.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from sqlalchemy import Column, Integer, MetaData, String, Table, false, insert, select

from dualsql import DualResponseServer, LocalResultStorage, RowFilter, SavedQuery, Shared
from dualsql.query.mcp import add_data_manager
from dualsql.resource import Principal
from dualsql.serve import build_mcp, serve_app
from dualsql.sql.mcp import add_query
from dualsql_client.identifiers import ID_RANDOM, with_checksum
from tests.engines import opened
from tests.http.application import by_header
from tests.query.readings import ALL, HOOKS, METADATA, READINGS, ROWS, reading
from tests.servers import create_server

ORIGIN = "http://127.0.0.1:8000"
SECRETS = ["a secret of more than thirty-two characters"]
ADA, BEN = Principal(id="ada", tenant="north"), Principal(id="ben", tenant="north")
EVE = Principal(id="eve", tenant="south")
HEADERS = {"X-User": "ada", "X-Tenant": "north"}
HIDDEN = ("wages", "audits", "reading", "readings_1", "data_1", "result", "salaries", "station", "derived_1")
"""Tables that only the second server has; no caller sees them."""

STATIONS = Table("stations", MetaData(), Column("id", Integer, primary_key=True), Column("place", String(20)))
"""A table that everybody sees."""

GROUPED = select(READINGS.c.word, READINGS.c.small).order_by(READINGS.c.id)
SAVED = SavedQuery(
    "of_a_word", select(READINGS.c.id, READINGS.c.text).order_by(READINGS.c.id), description="Readings."
)


class Asked(NamedTuple):
    """A request, whose texts may name `{id0}`, `{other}`, `{cursor}` and `{link}` as the twin has them."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}


@dataclass
class Twin:
    """One of the servers. Names and tokens that it makes are numbered in the order in which the caller meets them."""

    server: DualResponseServer
    http: httpx.AsyncClient
    own: list[str]
    """Ids of the results of the caller."""

    others: list[str]
    """Ids of results of others; on the first twin, of nothing."""

    cursor: str = "none"
    resume: str = "none"
    numbers: dict[str, str] = field(default_factory=dict)

    async def ask(self, asked: Asked) -> tuple[httpx.Response, bytes]:
        """The answer, and all that it says besides what every answer has of its own."""
        content = self._filled(asked.body) if asked.body is not None else b""
        path = self._filled(asked.path).decode()
        response = await self.http.request(
            asked.method, path, content=content, headers={**HEADERS, **asked.headers}
        )
        match = _CURSOR.search(response.content)
        self.cursor = match[1].decode() if match else self.cursor
        return response, self.scrubbed(response)

    def _filled(self, text: str) -> bytes:
        for number, name in enumerate(self.own):
            text = text.replace(f"{{id{number}}}", name)
        for number, name in enumerate(self.others):
            text = text.replace(f"{{other{number}}}", name)
        return text.replace("{cursor}", self.cursor).encode()

    def scrubbed(self, response: httpx.Response) -> bytes:
        """Status, headers and body, with ids, times, signatures and tokens replaced by numbers."""
        headers = [
            (name.lower(), value)
            for name, value in response.headers.raw
            if name.lower() not in _OF_THE_CONNECTION
        ]
        body = response.content
        if response.headers.get("content-type", "").endswith("spreadsheetml.sheet") and body:
            with zipfile.ZipFile(io.BytesIO(body)) as book:
                body = b"".join([name.encode() + book.read(name) for name in book.namelist()])
        said = b"\n".join(
            [str(response.status_code).encode(), *(b": ".join(header) for header in headers), body]
        )
        for pattern in _TOKENS:
            said = pattern.sub(self._number, said)
        return _TIME.sub(b"TIME", said)

    def _number(self, found: re.Match[bytes]) -> bytes:
        before, token = found[1], found[2]
        name = self.numbers.setdefault(token.decode("latin-1"), f"TOKEN{len(self.numbers)}")
        return before + name.encode()


_OF_THE_CONNECTION = {b"x-request-id", b"date", b"content-length"}
_CURSOR = re.compile(rb'"next_cursor":"([^"]+)"')
_TIME = re.compile(
    rb"20(?:2[5-9]|[3-9]\d)-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00| UTC)?)?"
    rb"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} [\d:]{8} GMT"
    rb'|timestamp"?: ?\d{13}|executionTime"?: ?[\d.]+|(?<="incident":")[0-9a-f]{16}|expires in \d+ \w+'
)
_TOKENS = (
    re.compile(rb'("(?:next_cursor|previous_cursor|cursor)\\?": ?\\?")([A-Za-z0-9_.=-]+)'),
    re.compile(rb"((?:next|previous)_cursor: )([A-Za-z0-9_-]{20,})"),
    re.compile(rb"((?:[?&;]|^)(?:cursor|signature|expires|resume)=)([A-Za-z0-9_.%-]+)"),
    re.compile(rb'(etag: (?:W/)?")([^"]+)'),
    # Ids of links have 27 characters, those of results 33, digests 43.
    re.compile(
        rb"(?<![A-Za-z0-9_-])()([A-Za-z0-9_-]{27}|[A-Za-z0-9]{33}|[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])"
    ),
)


@asynccontextmanager
async def twin_at(url: str, folder: Path, *, is_second: bool, is_kept: bool) -> AsyncIterator[Twin]:
    """A twin on the empty database at `url`."""
    hidden = MetaData()
    tables = [Table(name, hidden, Column("id", Integer, primary_key=True)) for name in HIDDEN if is_second]
    async with opened(url) as engine, engine.begin() as connection:
        for metadata in (METADATA, STATIONS.metadata, hidden):
            await connection.run_sync(metadata.create_all)
        await connection.execute(insert(READINGS), rows_of_second() if is_second else ROWS)
        await connection.execute(insert(STATIONS), [{"id": n, "place": f"place {n}"} for n in range(1, 8)])
        for table in tables:
            await connection.execute(insert(table), [{"id": n} for n in range(50)])
        # The statistics of planners are of all rows.
        await connection.exec_driver_sql("ANALYZE")
    dual = create_server(
        url,
        base_url=f"{ORIGIN}/resources",
        tables=[METADATA, STATIONS.metadata, hidden],
        hooks=[*HOOKS, Shared(STATIONS), *(RowFilter(table, lambda _: false()) for table in tables)],
        authenticate=by_header,
        pages=True,
        signed_links=True,
        secrets=SECRETS,
        saved_queries=[SAVED],
        storage=LocalResultStorage(folder / "kept") if is_kept else None,
        # No answer is one of a moment.
        keep=is_kept,
        keep_after=timedelta(minutes=10),
        query_timeout=timedelta(minutes=10),
    )
    mcp = build_mcp(dual, notes="Readings of two stations.")
    add_query(dual, mcp)
    add_data_manager(dual, mcp)
    app = serve_app(dual, mcp)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http,
    ):
        twin = Twin(dual, http, [], [])
        if is_second:
            await others_work(twin)
        else:
            twin.others = [name_of_nothing(number) for number in range(OTHERS)]
        yield twin


def rows_of_second() -> list[dict[str, Any]]:
    """What the caller sees of the rows is as on the first; what is masked is not, nor are rows of the other tenant."""
    mine = [row | {"secret": f"other {row['id']}"[:10]} for row in ROWS if row["tenant"] == "north"]
    theirs = [
        reading(number)
        | {"id": 10_000 + number, "tenant": "south", "text": f"south {number}", "small": 900 + number}
        for number in range(1, 400)
    ]
    mixed = [row for pair in zip(mine, theirs, strict=False) for row in pair]
    return [*theirs[len(mine) :], *mixed]


OTHERS = 8


def name_of_nothing(number: int) -> str:
    """An id as the server makes them, of no result."""
    return with_checksum(f"{number}ThingOfThisNameEver".ljust(ID_RANDOM, "x"))


async def others_work(twin: Twin) -> None:
    """Results of others, the same statements among them, pinned and shared ones, too."""
    statements: list[Callable[[], Any]] = [lambda: ALL, lambda: GROUPED]
    for number in range(OTHERS):
        who = (BEN, EVE)[number % 2]
        response = await twin.server.create_response(
            statements[number // 2 % 2](), name=f"Of {who.id}", principal=who
        )
        twin.others.append(response.resource_id)
        if number % 3 == 0:
            await twin.server.pin_resource(response.resource_id, who)
