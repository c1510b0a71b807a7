"""The requirements on a database, as tests: of a plug-in, or of a database that is used in another way than here."""

from __future__ import annotations

import asyncio
import csv
import io
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any, ClassVar, get_args
from urllib.parse import urlsplit

import httpx
import orjson
import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    cast,
    create_engine,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.schema import CreateTable, DropTable
from sqlalchemy.types import TypeEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.databases.engines import async_url, new_engine
from dualsql.databases.session import read_only
from dualsql.databases.source import Database
from dualsql.errors import ConfigurationError, DualResponseError, QueryTimeoutError
from dualsql.features import DualResponseServer
from dualsql.resource import Principal
from dualsql.results.pages import PageRequest
from dualsql.results.streams import StreamRequest
from dualsql.settings import Settings
from dualsql.tenancy import TenantFilter
from dualsql_client.wire import ProfileKind
from dualsql_client.wire_requests import Bucket

BASE_URL = "http://127.0.0.1:8000/resources"

METADATA = MetaData()
THINGS = Table(
    "dualsql_testing_things",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(20)),
    Column("big", BigInteger, nullable=False),
    Column("price", Numeric(12, 2)),
    Column("ratio", Double),
    Column("made", Date),
    Column("seen", DateTime),
    Column("sold", Boolean, nullable=False),
    Column("note", String(100), nullable=False),
)

HOSTILE = [
    "'", "''", '"', "\\", "\\'", "%", "%s", "%(x)s", "%%", ":x", "$1", "?", "{x}", "--", "/* */", ";", "\n", "\t",
    "é", "日本", "😀", "a\u0301", "' OR 1=1 --", "NULL", "0", " ", "  x", "x  ", "`", "[x]", "_", "x\u2028y",
]  # fmt: skip
"""Texts that a driver or a dialect could take for something else."""


LOOKALIKES = ["KIND 1", "kind 1 ", " kind 1", "k\u00efnd 1", "\uff4bind 1", "kind 1\u200b"]
"""Tenants that a loose comparison takes for `kind 1`: case, blanks, accents, width."""


def thing(number: int) -> dict[str, Any]:
    """Row `number`: kinds repeat and are missing at times, no `big` fits a double."""
    return {
        "id": number,
        "kind": None if number % 11 == 0 else f"kind {number % 4}",
        "big": 2**53 + 1 + 2 * number,
        "price": None if number % 7 == 0 else Decimal(number) + Decimal("0.10"),
        "ratio": number / 8,
        "made": date(2000, 1, 1) + timedelta(days=number),
        "seen": datetime(2026, 1, 1, 12) + timedelta(hours=number),  # noqa: DTZ001 - it has no zone
        "sold": number % 3 == 0,
        "note": HOSTILE[number % len(HOSTILE)],
    }


ROWS = [thing(number) for number in range(1, 98)]

_copies = [THINGS.alias(f"slow_{number}") for number in range(8)]
_first, *_others = _copies
_sum = reduce(lambda left, right: left + right, (copy.c.id % 7 for copy in _others), _first.c.id % 7)
SLOW = select(func.sum(_sum)).select_from(
    # Always true, which no planner can prove: no join can be skipped.
    reduce(lambda joined, copy: joined.join(copy, copy.c.id != _first.c.id + 1000), _others, _first)  # type: ignore[arg-type, return-value]
)
"""Every way to choose eight things: years of work."""


_other = THINGS.alias("other")
PAIRS = select(THINGS.c.id, _other.c.id.label("other_id"), _other.c.note).join(_other, _other.c.id > 0)
"""Each thing with each: 9,409 rows."""


KINDS: Mapping[str, str] = {
    "id": "integer", "kind": "text", "big": "integer", "price": "decimal", "ratio": "float", "made": "date",
    "seen": "datetime", "sold": "boolean", "note": "text",
}  # fmt: skip
"""By column of THINGS, its encoding, by which questions know what may be asked of it."""

MAY_BE_ABSENT = {"median", "percentile"}
"""Aggregates that a database need not have."""

LONGEST = 60.0
"""Seconds in which a server has answered, and given up what it cannot stop."""

GIVEN_UP = "its connection is given up"
"""What the log says of a session that was stopped and goes on."""

WRITES: list[Any] = [
    insert(THINGS).values(thing(1_000)),
    update(THINGS).values(note="changed"),
    delete(THINGS),
    CreateTable(Table("dualsql_testing_made", MetaData(), Column("id", Integer, primary_key=True))),
    DropTable(THINGS),
]

_twin = THINGS.alias("twin")
NARROWED: dict[str, Any] = {
    "table": select(THINGS.c.id, THINGS.c.kind).where(THINGS.c.id > 0),
    "alias": select(_twin.c.id).where(_twin.c.kind.is_not(None)),
    "join": select(THINGS.c.id, _twin.c.id.label("twin")).join(_twin, _twin.c.id < 13),
    "union": union_all(select(THINGS.c.id, THINGS.c.note), select(THINGS.c.id, THINGS.c.note)),
    "subquery": select(THINGS.c.id).where(THINGS.c.id.in_(select(_twin.c.id))),
}
"""Statements that name no tenant."""


class DatabaseTests:
    """Tests of a database. A subclass has the fixture `database_url`: an empty database that may be written to.

    class TestKiosk(DatabaseTests):
        @pytest.fixture
        def database_url(self, tmp_path: Path) -> str:
            return f"kiosk:///{tmp_path}/kiosk.db"

    The tests make a table there, fill it with SQLAlchemy, and then use the database as a server does. They run on
    asyncio, with anyio's plugin for pytest.

    Attributes:
        settings: of each server, such as `unproved_read_only` for a database without read-only sessions.
        slow: a statement that runs for at least three seconds. It takes years unless a subclass has another one, for a
            driver that cannot stop a statement.
        query_timeout: after which it is stopped, and in which small statements end.
        types: by column of THINGS, the type that CREATE TABLE declares where the dialect has another one, such as
            DOUBLE_PRECISION for `ratio`.
        is_exact: texts compare by code point; without it, filters may find more, and a server with a TenantFilter must
            not start.
        writes: statements of the database's own that a session must refuse besides those of every database, such as
            one that moves a sequence.
    """

    pytestmark = pytest.mark.anyio
    settings: ClassVar[Settings] = Settings()
    slow: ClassVar[Any] = SLOW
    query_timeout: ClassVar[timedelta] = timedelta(seconds=0.5)
    types: ClassVar[Mapping[str, TypeEngine[Any]]] = {}
    is_exact: ClassVar[bool] = True
    writes: ClassVar[Sequence[str]] = ()

    def serve(self, database: Database, **options: Any) -> DualResponseServer:
        """A server of the things."""
        all_options: dict[str, Any] = {
            "base_url": BASE_URL,
            "tables": METADATA,
            "settings": self.settings,
            **options,
        }
        return DualResponseServer(database, **all_options)

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def filled_url(self, database_url: str, anyio_backend: str) -> str:
        """The URL of the database, which has the rows."""
        try:
            engine = new_engine(async_url(database_url))
        except ConfigurationError:  # it has no asynchronous driver
            await asyncio.to_thread(self._fill_and_close, create_engine(database_url))
            return database_url
        # Some databases show a table to the transaction after the one that makes it.
        for step in (self._create, _fill):
            async with engine.begin() as connection:
                await connection.run_sync(step)
        await engine.dispose()
        return database_url

    def _create(self, connection: Connection) -> None:
        columns = (
            Column(
                column.name,
                self.types.get(column.name, column.type),
                primary_key=column.primary_key,
                autoincrement=False,
                nullable=column.nullable,
            )
            for column in THINGS.columns
        )
        Table(THINGS.name, MetaData(), *columns).create(connection)

    def _fill_and_close(self, engine: Engine) -> None:
        for step in (self._create, _fill):
            with engine.begin() as connection:
                step(connection)
        engine.dispose()

    @pytest.fixture
    async def server(self, filled_url: str) -> AsyncIterator[DualResponseServer]:
        """A server that has started: it has proved that the database cannot be written to."""
        async with self.serve(filled_url) as server:
            yield server

    @pytest.fixture
    async def http(self, server: DualResponseServer) -> AsyncIterator[httpx.AsyncClient]:
        """A client of its resources."""
        app = Starlette(routes=[Mount(urlsplit(BASE_URL).path, server.router())])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            yield client

    async def _store_result(self, server: DualResponseServer, statement: Any = None) -> str:
        """The URL of a new result; of all rows unless a statement is given."""
        if statement is None:
            statement = select(THINGS)
        return (await server.create_response(statement, name="Things")).resource_url

    # Rows

    async def test_each_value_is_read_as_it_was_written(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        url = await self._store_result(server, select(THINGS).order_by(THINGS.c.id))
        rows = (await _answer(http, url, {"limit": 100})).json()["data"]
        assert [row["note"] for row in rows] == [row["note"] for row in ROWS]
        for row, original in zip(rows, ROWS, strict=True):
            price = None if row["price"] is None else Decimal(row["price"])
            assert (row["id"], row["kind"], row["big"]) == (original["id"], original["kind"], original["big"])
            assert (price, row["ratio"], row["sold"]) == (
                original["price"],
                original["ratio"],
                original["sold"],
            )
            assert row["made"] == original["made"].isoformat()
            assert datetime.fromisoformat(row["seen"]).replace(tzinfo=None) == original["seen"]

    @pytest.mark.parametrize(
        "sort", ["id", "-big", "kind,id", "-kind", "-price,kind", "ratio", "-made", "-seen", "sold", "note"]
    )
    @pytest.mark.parametrize("way", ["offset", "cursor"])
    async def test_pages_joined_are_the_result(
        self, server: DualResponseServer, http: httpx.AsyncClient, sort: str, way: str
    ) -> None:
        url = await self._store_result(server)
        ids: list[int] = []
        cursor: str | None = None
        while True:
            start: dict[str, Any] = {"offset": len(ids)} if cursor is None else {"cursor": cursor}
            page = (await http.get(url, params={"limit": 13, "sort": sort, **start})).json()
            ids += [row["id"] for row in page["data"]]
            if not page["has_next"]:
                break
            cursor = page["next_cursor"] if way == "cursor" else None
        whole = (await http.get(url, params={"limit": 100, "sort": sort})).json()["data"]
        assert ids == [row["id"] for row in whole]
        assert sorted(ids) == [row["id"] for row in ROWS]

    async def test_pages_of_rows_that_tie_are_the_result(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        """The rows of one kind have no key."""
        url = await self._store_result(server, select(THINGS.c.kind, THINGS.c.sold))
        pairs: list[Any] = []
        cursor: str | None = None
        while len(pairs) < 2 * len(ROWS):
            start: dict[str, Any] = {"offset": len(pairs)} if cursor is None else {"cursor": cursor}
            page = (await http.get(url, params={"limit": 9, **start})).json()
            pairs += [(row["kind"], row["sold"]) for row in page["data"]]
            cursor = page["next_cursor"]
            if not page["has_next"]:
                break
        assert Counter(pairs) == Counter((row["kind"], row["sold"]) for row in ROWS)

    async def test_a_page_backwards_is_the_page_before(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        url = await self._store_result(server)
        first = (await http.get(url, params={"limit": 20, "sort": "kind"})).json()
        second = (
            await http.get(url, params={"cursor": first["next_cursor"], "limit": 20, "sort": "kind"})
        ).json()
        back = {"cursor": second["previous_cursor"], "limit": 20, "sort": "kind"}
        assert (await http.get(url, params=back)).json()["data"] == first["data"]

    async def test_nulls_stand_together(self, server: DualResponseServer, http: httpx.AsyncClient) -> None:
        url = await self._store_result(server)
        rows = (await http.get(url, params={"limit": 100, "sort": "kind"})).json()["data"]
        kinds = [row["kind"] for row in rows]
        texts = [kind for kind in kinds if kind is not None]
        assert texts == sorted(texts)
        missing = [None] * (len(kinds) - len(texts))
        assert kinds in (texts + missing, missing + texts)

    @pytest.mark.parametrize("form", ["ndjson", "json", "csv"])
    async def test_a_stream_has_the_rows_of_the_pages(
        self, server: DualResponseServer, http: httpx.AsyncClient, form: str
    ) -> None:
        url = await self._store_result(server, select(THINGS).order_by(THINGS.c.id))
        stream = (await http.get(f"{url}/rows", params={"format": form})).content
        rows = (await http.get(url, params={"limit": 100})).json()["data"]
        if form == "json":
            assert orjson.loads(stream) == rows
        elif form == "ndjson":
            assert [orjson.loads(line) for line in stream.splitlines()[:-1]] == rows
        else:
            records = list(csv.DictReader(io.StringIO(stream.decode("utf-8-sig"), newline="")))
            assert [(int(row["id"]), int(row["big"])) for row in records] == [
                (row["id"], row["big"]) for row in rows
            ]

    async def test_a_stream_may_be_abandoned(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        for _ in range(3):
            response = await server.create_response(PAIRS, name="Pairs", count="none")
            stream = await server.stream(response.resource_id, None, StreamRequest())
            assert await anext(stream.chunks)
            await stream.chunks.aclose()
        assert (await http.get(await self._store_result(server))).json()["total_count"] == len(ROWS)

    # Totals and questions

    async def test_totals(self, server: DualResponseServer) -> None:
        exact = await server.create_response(PAIRS, name="Pairs", count="exact")
        assert (exact.total_count, exact.total_count_kind) == (len(ROWS) ** 2, "exact")
        capped = await server.create_response(PAIRS, name="Pairs", count="capped:500")
        assert capped.total_count_kind == "capped"
        assert 500 <= (capped.total_count or 0) < 600
        estimated = await server.create_response(PAIRS, name="Pairs", count="estimated")
        assert estimated.total_count_kind in {"exact", "estimated", "none", "capped"}

    async def test_any_text_is_found_by_a_filter(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        url = await self._store_result(server)
        for note in HOSTILE:
            question = {"filters": [{"column": "note", "op": "eq", "value": note}], "limit": 100}
            ids = {row["id"] for row in (await _answer(http, f"{url}/query", question)).json()["data"]}
            assert {row["id"] for row in ROWS if row["note"] == note} <= ids, note
            assert len(ids) < len(ROWS) / 2, note

    async def test_nul_does_not_end_a_text(self, server: DualResponseServer, http: httpx.AsyncClient) -> None:
        """A value with NUL equals no text that ends before it. Many databases refuse it."""
        url = await self._store_result(server)
        question = {"filters": [{"column": "kind", "op": "eq", "value": "kind 1\0"}]}
        answer = await http.post(f"{url}/query", json=question)
        assert answer.status_code >= 400 or answer.json()["data"] == []

    @pytest.mark.parametrize("operator", ["contains", "starts_with"])
    async def test_a_part_of_a_text_is_found(
        self, server: DualResponseServer, http: httpx.AsyncClient, operator: str
    ) -> None:
        """By characters, of which some have several bytes."""
        url = await self._store_result(server)
        for part in ("kind", "kind 1", *(note for note in HOSTILE if note.strip())):
            column = "kind" if part.startswith("kind") else "note"
            question = {"filters": [{"column": column, "op": operator, "value": part}], "limit": 100}
            ids = {row["id"] for row in (await _answer(http, f"{url}/query", question)).json()["data"]}
            has = str.__contains__ if operator == "contains" else str.startswith
            assert {row["id"] for row in ROWS if has(row[column] or "", part)} <= ids, part
            if self.is_exact:
                assert len(ids) == sum(has(row[column] or "", part) for row in ROWS), part

    async def test_aggregates(self, server: DualResponseServer, http: httpx.AsyncClient) -> None:
        """Exact sums, averages as doubles, in one question."""
        url = await self._store_result(server)
        aggregates = [
            "sum(id)",
            "sum(big)",
            "sum(price)",
            "avg(id)",
            "min(made)",
            "max(note)",
            "count(distinct kind)",
        ]
        question = {"aggregates": aggregates, "limit": 1}
        [row] = (await _answer(http, f"{url}/query", question)).json()["data"]
        values = list(row.values())
        prices = [row["price"] for row in ROWS if row["price"] is not None]
        assert [int(values[0]), int(values[1]), Decimal(values[2])] == [
            sum(row["id"] for row in ROWS),
            sum(row["big"] for row in ROWS),
            sum(prices),
        ]
        assert values[3] == pytest.approx(sum(row["id"] for row in ROWS) / len(ROWS))
        assert (values[4][:10], values[6]) == (min(row["made"] for row in ROWS).isoformat(), 4)

    async def test_each_aggregate_of_each_column(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        """As Python computes it; or, where the database or the column has none, refused in words."""
        from dualsql.query.aggregates import AGGREGATES  # tests of stores need no feature

        url = await self._store_result(server)
        for (aggregate, function), column in product(AGGREGATES.items(), KINDS):
            specification = {"function": aggregate, "column": column, "as": "answer"}
            fraction = 0.9 if function.takes_fraction else None
            question = {
                "aggregates": [specification if fraction is None else {**specification, "fraction": fraction}]
            }
            answer = await http.post(f"{url}/query", json=question)
            if answer.status_code != 200:
                assert (answer.status_code, answer.json()["code"]) == (400, "BAD_PARAMETER"), answer.text
                fits = function.of is None or KINDS[column] in function.of
                assert aggregate in MAY_BE_ABSENT or not fits, answer.text
                continue
            values = [row[column] for row in ROWS if row[column] is not None]
            [row] = answer.json()["data"]
            assert _is_aggregate(row["answer"], aggregate, values, fraction), (aggregate, column, row)

    @pytest.mark.parametrize("bucket", get_args(Bucket))
    async def test_buckets_of_dates(
        self, server: DualResponseServer, http: httpx.AsyncClient, bucket: Bucket
    ) -> None:
        """A week begins on Monday. A database that has no function for a bucket says so."""
        url = await self._store_result(server)
        for column in ("seen",) if bucket == "hour" else ("made", "seen"):
            question = {
                "group_by": [{"column": column, "bucket": bucket}], "aggregates": ["count"], "limit": 200,
            }  # fmt: skip
            answer = await http.post(f"{url}/query", json=question)
            if answer.status_code != 200:
                assert (answer.status_code, answer.json()["code"]) == (400, "BAD_PARAMETER"), answer.text
                assert bucket in answer.json()["message"]
                return
            counts = Counter(_beginning(row[column], bucket) for row in ROWS)
            groups = {tuple(row.values()) for row in answer.json()["data"]}
            assert {(datetime.fromisoformat(at).replace(tzinfo=None), n) for at, n in groups} == set(
                counts.items()
            )

    @pytest.mark.parametrize("kind", get_args(ProfileKind))
    async def test_a_profile(self, server: DualResponseServer, http: httpx.AsyncClient, kind: str) -> None:
        """Of every column: ranges, lengths and frequent values."""
        url = await self._store_result(server)
        answer = await http.get(f"{url}/profile", params={"kind": kind})
        assert answer.status_code == 200, answer.text
        columns = {column["name"]: column for column in answer.json()["columns"]}
        assert list(columns) == THINGS.columns.keys()
        assert columns["kind"]["nulls"] == sum(row["kind"] is None for row in ROWS)
        assert columns["note"]["longest"] == max(len(note) for note in HOSTILE)
        assert (columns["id"]["minimum"], columns["id"]["maximum"]) == (1, 97)

    async def test_groups(self, server: DualResponseServer, http: httpx.AsyncClient) -> None:
        url = await self._store_result(server)
        question = {"group_by": ["kind"], "aggregates": ["count"], "limit": 100}
        groups = (await _answer(http, f"{url}/query", question)).json()["data"]
        counts: dict[str | None, int] = {}
        for row in ROWS:
            counts[row["kind"]] = counts.get(row["kind"], 0) + 1
        assert {row["kind"]: row["count"] for row in groups} == counts

    async def test_statements_of_several_kinds(
        self, server: DualResponseServer, http: httpx.AsyncClient
    ) -> None:
        few = select(THINGS.c.id, THINGS.c.kind).where(THINGS.c.id <= 10)
        counts = select(THINGS.c.kind, func.count().label("n")).group_by(THINGS.c.kind).cte("counted")
        statements = {
            "union": (union_all(few, few), 20),
            "distinct": (select(THINGS.c.kind).distinct(), 5),
            "limit": (select(THINGS.c.id).order_by(THINGS.c.note, THINGS.c.id).limit(7).offset(3), 7),
            "cte": (select(THINGS.c.id, counts.c.n).join(counts, counts.c.kind == THINGS.c.kind), 89),
            "in": (
                select(THINGS).where(THINGS.c.note.in_(HOSTILE[:5])),
                sum(row["note"] in HOSTILE[:5] for row in ROWS),
            ),
        }
        for name, (statement, number) in statements.items():
            page = (await http.get(await self._store_result(server, statement), params={"limit": 100})).json()
            assert (len(page["data"]), page["total_count"]) == (number, number), name

    # Safety

    async def test_a_read_only_session_writes_nothing(self, server: DualResponseServer) -> None:
        source = server.parts.sources["default"]
        if not source.backend.has_read_only_sessions:
            pytest.skip("The database has no read-only sessions: see unproved_read_only.")
        for write in (*WRITES, *map(text, self.writes)):
            with pytest.raises(Exception):  # noqa: B017, PT011 - each driver has errors of its own
                async with read_only(source, None) as connection:
                    await connection.execute(write)
            response = await server.create_response(select(THINGS), name="Things", sample_size=len(ROWS))
            assert response.total_count == len(ROWS), write
            assert Counter(row["note"] for row in response.sample) == Counter(row["note"] for row in ROWS), (
                write
            )

    async def test_a_slow_query_ends_in_time(self, filled_url: str, caplog: pytest.LogCaptureFixture) -> None:
        settings = replace(self.settings, query_timeout=self.query_timeout)
        longest = LONGEST + self.query_timeout.total_seconds()
        async with asyncio.timeout(longest), self.serve(filled_url, settings=settings) as server:
            start = datetime.now(UTC)
            with pytest.raises(QueryTimeoutError):
                await server.create_response(self.slow, name="Slow")
            assert datetime.now(UTC) - start < self.query_timeout + timedelta(seconds=10)
            response = await server.create_response(select(THINGS), name="Things")
            assert response.total_count == len(ROWS)
        assert GIVEN_UP not in caplog.text

    async def test_a_caller_who_leaves_stops_the_query(
        self, filled_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with asyncio.timeout(LONGEST), self.serve(filled_url) as server:
            asking = asyncio.create_task(server.create_response(self.slow, name="Slow"))
            await asyncio.wait({asking}, timeout=0.3)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            response = await server.create_response(select(THINGS), name="Things")
            assert response.total_count == len(ROWS)
        # The server has waited for the session of the one who left.
        assert GIVEN_UP not in caplog.text

    @pytest.mark.parametrize("tenant", ["kind 1", "kind 2", *LOOKALIKES, "' OR 1=1 --", "%"])
    async def test_tenants_see_their_rows_alone(self, filled_url: str, tenant: str) -> None:
        """In samples, totals, pages, streams and aggregates, whatever the collation of the column."""
        rule = TenantFilter(column="kind", value=lambda principal: principal.tenant)
        mine = [row["id"] for row in ROWS if row["kind"] == tenant]
        caller = Principal(id="ana", tenant=tenant)
        if not self.is_exact:
            with pytest.raises(ConfigurationError, match="tenant"):
                async with self.serve(filled_url, hooks=[rule]):
                    pass
            return
        async with self.serve(filled_url, hooks=[rule]) as server:
            for name, statement in NARROWED.items():
                response = await server.create_response(
                    statement, name=name, principal=caller, sample_size=len(ROWS)
                )
                resource = await server.open_resource(response.resource_id, caller, "read")
                page = await server.unchecked.read_page(resource, caller, PageRequest(limit=1000))
                stream = await server.unchecked.stream(resource, caller, StreamRequest(format="ndjson"))
                lines = b"".join([bytes(chunk.data) async for chunk in stream.chunks]).splitlines()
                assert response.sample == page.rows == [orjson.loads(line) for line in lines[:-1]], name
                assert {row["id"] for row in page.rows} == set(mine), name
                copies = {"join": sum(number < 13 for number in mine), "union": 2}.get(name, 1)
                assert response.total_count == len(page.rows) == len(mine) * copies, name
            grouped = select(func.count().label("n")).select_from(THINGS)
            response = await server.create_response(grouped, name="counted", principal=caller)
            assert response.sample == [{"n": len(mine)}]

    async def test_what_the_database_says_reaches_no_caller(self, filled_url: str) -> None:
        absent = Table("dualsql_testing_absent", MetaData(), Column("id", Integer, primary_key=True))
        async with self.serve(filled_url, tables=[absent]) as server:
            with pytest.raises(DualResponseError) as failure:
                await server.create_response(select(absent), name="Absent")
        message, hint = failure.value.for_caller
        assert "absent" not in f"{message}{hint}".lower()

    async def test_a_value_that_is_converted_in_vain_reaches_no_caller(
        self, server: DualResponseServer
    ) -> None:
        """Most databases fail, and quote the value; some make a number of any text."""
        secret = select(cast(literal("a secret of somebody") + THINGS.c.note, Integer).label("number"))
        text = ""
        try:
            await server.create_response(secret, name="Secret")
        except DualResponseError as error:
            text = f"{error}{error.for_caller}{error.details}"
        assert "secret" not in text


def _is_aggregate(answer: Any, aggregate: str, values: Sequence[Any], fraction: float | None) -> bool:
    """Whether an answer, as JSON has it, is that of an aggregate of the values."""
    if aggregate.startswith("count"):
        return int(answer) == len(values if aggregate == "count" else set(values))
    if aggregate == "sum":
        # As many digits as the type of the column has.
        return Decimal(str(answer)) == sum(map(Decimal, map(str, values)))
    if aggregate in {"min", "max"}:
        if isinstance(values[0], str):  # their order is that of the database
            return answer in values
        value = min(values) if aggregate == "min" else max(values)
        if isinstance(value, date):
            return datetime.fromisoformat(answer).replace(tzinfo=None) == _beginning_of(value)
        return Decimal(str(answer)) == Decimal(str(value))
    numbers = [float(value) for value in values]
    if aggregate == "avg":
        return bool(answer == pytest.approx(sum(numbers) / len(numbers)))
    return bool(answer == pytest.approx(_percentile(numbers, 0.5 if fraction is None else fraction)))


def _percentile(numbers: Sequence[float], fraction: float) -> float:
    """Interpolated between two numbers, as percentile_cont of the SQL standard."""
    ordered, place = sorted(numbers), fraction * (len(numbers) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _beginning_of(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)  # noqa: DTZ001


def _fill(connection: Connection) -> None:
    connection.execute(insert(THINGS), ROWS)


def _beginning(value: date, bucket: Bucket) -> datetime:
    """The beginning of the bucket of a date or an instant."""
    at = _beginning_of(value)
    if bucket == "hour":
        return at.replace(minute=0)
    day = at.replace(hour=0, minute=0)
    if bucket == "week":
        return day - timedelta(days=day.weekday())
    month = {"year": 1, "quarter": day.month - (day.month - 1) % 3}.get(bucket, day.month)
    return day if bucket == "day" else day.replace(month=month, day=1)


async def _answer(http: httpx.AsyncClient, url: str, body: dict[str, Any]) -> httpx.Response:
    answer = await http.post(url, json=body)
    assert answer.status_code == 200, answer.text
    return answer
