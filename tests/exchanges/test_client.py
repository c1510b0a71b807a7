"""The application's half: what is found in tool results, and every way to get rows, async and sync."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import mcp
import pytest
from mcp.server import MCPServer
from sqlalchemy import func, literal, select

from dualsql.features import DualResponseServer
from dualsql.identity.authenticate import static_tokens
from dualsql.query.mcp import add_data_manager
from dualsql.response import DualResponse
from dualsql.settings import ALL_ACTIONS
from dualsql_client.budget import Retry
from dualsql_client.client import DualResponseClient
from dualsql_client.codemode import CodeMode
from dualsql_client.detect import KeptResults
from dualsql_client.errors import DualResponseClientError
from dualsql_client.markdown import parse_markdown
from dualsql_client.ndjson import decode_rows
from dualsql_client.query import where
from dualsql_client.sync_client import SyncDualResponseClient
from tests.client.recorded import recordings
from tests.exchanges.asking import error_of, table_of
from tests.exchanges.recording import Exchanges
from tests.exchanges.subject import ANA, TOKENS, serving, serving_on_loopback
from tests.schools import School

PLAIN: Any = select(
    School.id, School.name, School.state, School.enrollment, School.tuition, School.founded
).order_by(School.id)
EVERY_TYPE = select(School).order_by(School.id)
ONCE = Retry(times=0, budget=timedelta(seconds=1))

_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count().label("n")).select_from(_forever.union_all(select(_forever.c.n)))


def seen(parsed: Any) -> dict[str, Any]:
    """What a dual response says of itself."""
    return {
        "name": parsed.name, "uri": parsed.resource_uri, "url": parsed.resource_url, "sample": parsed.sample[:3],
        "rows": len(parsed.sample), "total_count": parsed.total_count, "kind": parsed.total_count_kind,
        "columns": parsed.columns, "status": parsed.status, "executed_at": isodate(parsed.executed_at),
        "expires_at": isodate(parsed.expires_at), "is_expired": parsed.is_expired(),
    }  # fmt: skip


def isodate(instant: Any) -> str | None:
    """An instant as the server writes it."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def plain_page(page: Any) -> Any:
    """A page as its fields."""
    return {name: getattr(page, name) for name in sorted(type(page).__dataclass_fields__)}


async def tell(exchanges: Exchanges, asked: str, work: Awaitable[Any]) -> Any:
    """Take down what comes of the work, or the error it ends with."""
    try:
        actual = await work
    except Exception as error:  # noqa: BLE001 - what is raised is what is recorded
        exchanges.add(asked, error_of(error))
        return None
    exchanges.add(asked, plain_page(actual) if hasattr(type(actual), "__dataclass_fields__") else actual)
    return actual


@pytest.fixture
async def served(schools: str) -> AsyncIterator[tuple[DualResponseServer, httpx.AsyncClient]]:
    """A server whose anonymous callers may do everything."""
    options: dict[str, Any] = {"count_budget": timedelta(seconds=60)}
    async with serving(schools, anonymous_actions=ALL_ACTIONS, **options) as (dual, http):
        yield dual, http


async def parsed_of(served: Any, statement: Any = PLAIN, **options: Any) -> Any:
    """A stored result in the application's hands."""
    dual, http = served
    response: DualResponse = await dual.create_response(statement, name="Schools", sample_size=2, **options)
    client = DualResponseClient("http://127.0.0.1:8000/resources", http=http, retry=ONCE)
    return client.parse(response.to_mcp_tool_result(), strict=True)


def test_recorded_tool_results(exchanges: Exchanges) -> None:
    client = DualResponseClient()
    for name, result in recordings():
        exchanges.add(f"find in {name}", [seen(parsed) for parsed in client.find(result)])


def test_what_is_no_dual_response(exchanges: Exchanges) -> None:
    client = DualResponseClient()
    result = dict(recordings())["mcp: plain/wire"]
    for name, thing in {
        "nothing": None,
        "a text": "no rows",
        "a URI in a text": "The rows are at resource://q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki.",
        "a list": [1, 2, {"results": []}],
        "two": [result, {"structuredContent": {**result["structuredContent"]}}],
    }.items():
        try:
            response: Any = client.parse(thing, strict=True)
            exchanges.add(f"parse {name}", response and seen(response))
        except DualResponseClientError as error:
            exchanges.add(f"parse {name}", error_of(error))
        exchanges.add(f"find in {name}", [seen(parsed) for parsed in client.find(thing)])
    for text in (
        "# Found 3\n\n|id|name|\n|-|-|\n|1|a|\n|2|b|\n",
        "**Status:** failed\n\n**Error:** no such table\n",
        'Here it is:\n\n```json\n{"a": 1}\n```\n\n**data_access_id:** abc\n',
        "Nothing to see.",
    ):
        answer = parse_markdown(text)
        exchanges.add(
            f"parse_markdown {text!r}",
            plain_page(answer) | {"data": answer.data, "is_empty": answer.is_empty},
        )


async def test_pages(served: Any, exchanges: Exchanges) -> None:
    parsed = await parsed_of(served)
    exchanges.add("parsed", seen(parsed))
    for options in (
        {},
        {"limit": 2},
        {"offset": 21, "limit": 5},
        {"limit": 2, "typed": True},
        {"limit": 2, "sort": {"field": "enrollment", "order": "desc"}},
        {"limit": 2, "sort": [{"field": "state"}, {"field": "id", "order": "desc"}]},
        {"limit": -1},
        {"sort": {"field": "nonsense"}},
        {"cursor": "nonsense"},
        {"cursor": "nonsense", "offset": 1},
    ):
        await tell(exchanges, f"fetch {options}", parsed.fetch(**options))
    page = await parsed.fetch(limit=20)
    await tell(exchanges, "fetch beside a page", parsed.fetch(limit=20, cursor=page.next_cursor))


async def test_every_row(served: Any, exchanges: Exchanges, tmp_path: Path) -> None:
    parsed = await parsed_of(served, EVERY_TYPE)
    for options in (
        {"limit": 2},
        {"columns": ["id", "name"], "sort": {"field": "id", "order": "desc"}},
        {"columns": ["id", "tuition", "term", "code", "crest", "updated"], "limit": 2, "typed": True},
        {"columns": ["nonsense"]},
        {"columnz": ["id"]},
    ):
        await tell(exchanges, f"fetch_all {options}", parsed.fetch_all(**options))
    batches = [len(batch) async for batch in parsed.fetch_stream(batch_size=5, columns=["id"])]
    exchanges.add("fetch_stream in batches of 5", batches)
    await tell(exchanges, "to_dicts", parsed.to_dicts(columns=["id", "founded"], limit=2))
    exchanges.add("to_arrow", table_of(await parsed.to_arrow(limit=2)))
    exchanges.add(
        "to_arrow, as texts",
        table_of(await parsed.to_arrow(limit=1, columns=["tuition"], text_columns=["tuition"])),
    )
    frame = await parsed.to_polars(limit=3, columns=["id", "name", "tuition"])
    exchanges.add("to_polars", {"schema": {k: str(v) for k, v in frame.schema.items()}, "rows": frame.rows()})
    pandas = await parsed.to_pandas(limit=3, columns=["id", "enrollment"])
    exchanges.add(
        "to_pandas", {"types": [str(kind) for kind in pandas.dtypes], "rows": pandas.to_dict("records")}
    )
    for name in (
        "rows.csv",
        "rows.ndjson",
        "rows.jsonl",
        "rows.parquet",
        "rows.arrow",
        "rows.xlsx",
        "rows.xml",
        "rows",
    ):
        saved = await tell(exchanges, f"save {name}", parsed.save(tmp_path / name, columns=["id", "name"]))
        if saved is not None and name.endswith(("csv", "ndjson")):
            exchanges.add(name, hashlib.sha256(saved.read_bytes()).hexdigest())


async def test_questions(served: Any, exchanges: Exchanges) -> None:
    parsed = await parsed_of(served)
    condition = (where("state").one_of(["NJ", "NY"]) & ~where("founded").lt(date(1810, 1, 1))) | where(
        "tuition"
    ).ge(Decimal("22.1"))
    exchanges.add("a condition", condition.to_json())
    for method, options in (
        ("query", {"aggregates": ["count"]}),
        ("query", {"filters": condition, "columns": ["id"]}),
        ("query", {"filters": [where("id").eq(3)], "typed": True}),
        ("query_all", {"group_by": ["state"], "aggregates": ["count"], "page_size": 2}),
        ("query", {"filters": [where("nonsense").is_null()]}),
        ("query", {"nonsense": 1}),
        ("sql", {"sql": "SELECT id FROM data ORDER BY id", "limit": 2}),
        ("sql_all", {"sql": "SELECT id FROM data WHERE id > :least", "parameters": {"least": 21}}),
        ("sql", {"sql": "SELECT id FROM nonsense"}),
        ("profile", {"kind": "full", "columns": ["enrollment", "state"]}),
        ("profile", {"kind": "deep"}),
    ):
        await tell(exchanges, f"{method} {options!r}", getattr(parsed, method)(**options))
    refined = await parsed.refine(name="In NJ", filters=[where("state").eq("NJ")])
    exchanges.add("refine", seen(refined))
    await tell(exchanges, "refine, fetch_all", refined.fetch_all())
    await tell(exchanges, "refine nothing", parsed.refine(columns=["nonsense"]))


async def test_a_life(served: Any, exchanges: Exchanges) -> None:
    parsed = await parsed_of(served, metadata={"a": 1}, count="none")
    names = (
        "get_metadata pin get_metadata unpin wait_until_ready delete delete get_metadata pin fetch fetch_all"
    )
    for name in names.split():
        await tell(exchanges, name, getattr(parsed, name)())
        exchanges.add("seen", {"status": parsed.status, "expires_at": isodate(parsed.expires_at)})
        if name == "get_metadata":
            await tell(exchanges, "get_metadata, counted", parsed.get_metadata(count="exact"))


async def test_pending(served: Any, exchanges: Exchanges) -> None:
    parsed = await parsed_of(served, FOREVER, wait=timedelta(milliseconds=10))
    exchanges.add("parsed", seen(parsed))
    await tell(exchanges, "fetch", parsed.fetch())
    await tell(exchanges, "fetch_all", parsed.fetch_all())
    await tell(exchanges, "wait_until_ready", parsed.wait_until_ready(0.01))
    await tell(exchanges, "delete", parsed.delete())


async def test_addresses(served: Any, exchanges: Exchanges) -> None:
    dual, http = served
    result = (await dual.create_response(PLAIN, name="Schools", sample_size=1)).to_mcp_tool_result()
    for base_url, options in (
        (None, {}),
        ("ftp://x", {}),
        ("http://user:password@x", {}),
        (None, {"origins": ["https://other.example/resources"]}),
        (None, {"origins": ["http://127.0.0.1:8000/resources"]}),
        ("http://127.0.0.1:8000/nowhere", {}),
    ):
        try:
            client = DualResponseClient(base_url, http=http, retry=ONCE, **options)  # type: ignore[arg-type]
        except DualResponseClientError as error:
            exchanges.add(f"client of {base_url} {options}", error_of(error))
            continue
        parsed = client.parse(result, strict=True)
        await tell(exchanges, f"client of {base_url} {options}: fetch", parsed.fetch(limit=1))


async def test_people(schools: str, exchanges: Exchanges) -> None:
    async with serving(schools, authenticate=static_tokens(TOKENS)) as (dual, http):
        for number in range(3):
            response = await dual.create_response(
                PLAIN, name=f"Schools {number}", sample_size=1, principal=ANA
            )
        for name, headers in (
            ("ana", {"Authorization": "Bearer token-of-ana"}),
            ("bob", {"Authorization": "Bearer token-of-bob"}),
            ("nobody", {}),
            ("a stranger", {"Authorization": "Bearer x"}),
        ):
            client = DualResponseClient(
                "http://127.0.0.1:8000/resources", http=http, headers=headers, retry=ONCE
            )

            async def listed(client: DualResponseClient = client) -> Any:
                return [seen(parsed) async for parsed in client.list_resources(page_size=2)]

            await tell(exchanges, f"list_resources as {name}", listed())
            parsed = client.parse(response.to_mcp_tool_result(), strict=True)
            await tell(exchanges, f"fetch as {name}", parsed.fetch(limit=1))
            staged = client.query_staged_data(response.resource_id, "SELECT count(*) AS n FROM data")
            await tell(exchanges, f"query_staged_data as {name}", staged)
        await tell(exchanges, "query_staged_data of nothing", client.query_staged_data("x y", "SELECT 1"))


async def test_code_mode(sqlite_schools: str, exchanges: Exchanges) -> None:
    async with serving(sqlite_schools) as (dual, http):
        server: MCPServer[Any] = MCPServer("schools")
        add_data_manager(dual, server)

        @dual.tool(server, sample_size=2)
        def search_schools(state: str) -> Any:
            """Schools of a state."""
            return PLAIN.where(School.state == state)

        async with mcp.Client(server) as model:
            code = CodeMode(
                model, DualResponseClient("http://127.0.0.1:8000/resources", http=http, retry=ONCE)
            )
            kept = KeptResults()
            await tell(exchanges, "list_tools", code.list_tools())
            await tell(exchanges, "search_tools", code.search_tools("schools"))
            await tell(exchanges, "describe_tool", code.describe_tool("search_schools"))
            await tell(exchanges, "describe_tool nonsense", code.describe_tool("nonsense"))
            await tell(exchanges, "get_data", code.get_data("search_schools", {"state": "NJ"}))
            await tell(exchanges, "get_data of nothing", code.get_data("search_schools", {}))
            answer = await code.invoke("search_schools", {"state": "NY"}, return_format="parsed")
            exchanges.add(
                "invoke",
                {
                    "source": answer.source,
                    "success": answer.success,
                    "rows": answer.rows,
                    "has_more": answer.has_more,
                },
            )
            await tell(exchanges, "invoke, query", answer.query("SELECT count(*) AS n FROM data"))
            kept.watch(model)
            await model.call_tool("search_schools", {"state": "PA"})
            exchanges.add("kept", len(kept.take()))


def test_decoding(exchanges: Exchanges) -> None:
    rows = [{"a": "1.50", "b": "2026-01-01", "c": "P1DT2S", "d": "/w==", "e": None}]
    columns: Any = [
        {"name": "a", "type": "number", "encoding": "decimal"},
        {"name": "b", "type": "date", "encoding": "date"},
        {"name": "c", "type": "string", "encoding": "interval"},
        {"name": "d", "type": "string", "encoding": "base64"},
        {"name": "e", "type": "string", "encoding": "uuid"},
    ]
    decode_rows(rows, columns)
    exchanges.add("decode_rows", {name: repr(value) for name, value in rows[0].items()})


async def test_the_synchronous_client(sqlite_schools: str, exchanges: Exchanges, tmp_path: Path) -> None:
    async with serving_on_loopback(sqlite_schools, anonymous_actions=ALL_ACTIONS) as (dual, base_url):
        response = await dual.create_response(PLAIN, name="Schools", sample_size=2)

        def work() -> None:
            def tell(asked: str, do: Callable[[], Any]) -> None:
                try:
                    actual = do()
                except Exception as error:  # noqa: BLE001 - what is raised is what is recorded
                    actual = error_of(error)
                exchanges.add(
                    asked, plain_page(actual) if hasattr(type(actual), "__dataclass_fields__") else actual
                )

            with SyncDualResponseClient(base_url, retry=ONCE) as client:
                parsed: Any = client.parse(response.to_mcp_tool_result(), strict=True)
                exchanges.add("parsed", seen(parsed))
                tell("parse nothing", lambda: client.parse("x", strict=True))
                tell("find", lambda: [seen(one) for one in client.find([response.to_mcp_tool_result()])])
                tell("fetch", lambda: parsed.fetch(limit=2, typed=True))
                tell("fetch_all", lambda: parsed.fetch_all(columns=["id"], limit=3))
                tell("fetch_stream", lambda: [len(rows) for rows in parsed.fetch_stream(batch_size=10)])
                tell("to_arrow", lambda: table_of(parsed.to_arrow(limit=1)))
                tell("save", lambda: parsed.save(tmp_path / "rows.csv").read_text())
                tell("query", lambda: parsed.query(aggregates=["count"]))
                tell("sql_all", lambda: parsed.sql_all("SELECT max(id) AS n FROM data"))
                tell("refine", lambda: seen(parsed.refine(limit=2)))
                tell("profile", lambda: parsed.profile(columns=["id"]))
                tell("list_resources", lambda: list(client.list_resources()))
                for name in ("get_metadata", "pin", "unpin", "delete", "fetch"):
                    tell(name, getattr(parsed, name))

        await asyncio.to_thread(work)
