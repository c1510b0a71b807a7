"""Compile every statement that a server sends, in each dialect of `URLS`, and print the results as JSON.

A program, run where the packages of these dialects are installed (`make test-dialects`). A server for each runs on
SQLite, with the capabilities of a database of that dialect without a file. What it sends is caught before it runs, and
compiled in the dialect under the same tenant rules. What SQLite does not understand fails after it was caught.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import tempfile
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import httpx
from sqlalchemy import (
    BigInteger,
    Date,
    DateTime,
    Integer,
    String,
    column,
    event,
    literal,
    make_url,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from dualsql import DualResponseServer, Principal, Shared, TenantFilter
from dualsql.databases import backends
from dualsql.databases.other import capabilities
from dualsql.databases.sqlite import BACKEND as SQLITE
from dualsql.errors import DualResponseError
from dualsql.tenancy.compiler import TableForms, dialect_with_rules
from dualsql_client.wire_requests import Bucket
from tests.schools import Base, Program, School, fill, visits
from tests.servers import create_server
from tests.statements import STATEMENTS

URLS = {
    "bigquery": "bigquery://project/dataset",
    "snowflake": "snowflake://user:word@account/database/schema",
    "databricks": "databricks://token:word@host?http_path=path&catalog=main&schema=default",
    "trino": "trino://user@host:8080/catalog",
    "clickhouse": "clickhousedb://user:word@host/database",
    "redshift": "redshift+psycopg2://user:word@host/database",
    "mssql": "mssql+pyodbc://user:word@source",
    "oracle": "oracle+oracledb://user:word@host/?service_name=name",
}
BASE_URL = "http://127.0.0.1:8000/resources"
CALLER = Principal(id="ana", tenant="NJ")
RULES = [TenantFilter(column="state", value=lambda person: person.tenant), Shared(Program, visits)]

_WORDS = {"column": "name", "op": "contains", "value": "a_%'"}
_BEGINNING = {"column": "name", "op": "starts_with", "value": "a_%'"}
QUESTIONS: Mapping[str, dict[str, Any]] = {
    "beginnings": {"filters": [_BEGINNING], "limit": 5},
    "words": {"filters": [_WORDS, {"column": "state", "op": "in", "value": ["NJ", "NY"]}], "limit": 5},
    "numbers": {
        "filters": [{"column": "enrollment", "op": "between", "value": [1, 9]}],
        "order_by": ["-name"],
    },
    "groups": {
        "group_by": ["state", {"column": "founded", "bucket": "year"}],
        "aggregates": ["count", "sum(enrollment)", "avg(rating)", "min(name)", "count(distinct state)"],
    },
    "distinct": {"group_by": ["state"]},
}

Caught = list[tuple[Any, Any, Any]]
"""Statements with the dialect and the values that they were sent with."""


async def asked(server: DualResponseServer, http: httpx.AsyncClient, name: str) -> AsyncIterator[str]:
    """Ask everything of a result, and name each step after it."""
    statement = STATEMENTS[name]
    response = await server.create_response(
        statement, name=name, count="exact", principal=CALLER, sample_size=1
    )
    yield "sample and count"
    for way in ("tail", "spread"):
        await server.create_response(statement, name=name, count="none", principal=CALLER, sample=way)
        yield f"sample {way}"
    url = response.resource_url
    first = await http.get(url, params={"limit": 2})
    yield "page"
    cursor = first.json().get("next_cursor")
    if cursor:
        await http.get(url, params={"limit": 2, "cursor": cursor})
        yield "page after a cursor"
    await http.get(f"{url}/rows", params={"format": "ndjson"})
    yield "stream"
    await http.get(f"{url}/profile")
    yield "profile"
    for title, question in QUESTIONS.items():
        await http.post(f"{url}/query", json=question)
        yield f"question of {title}"


def written(target: Any, own: Any, statement: Any, given: Any) -> str:
    """The statement in the dialect `target`, under the rules with which it was sent; or `!` and why there is none."""
    form = getattr(own.statement_compiler, "form", None)
    dialect = target if form is None else dialect_with_rules(target, form)
    try:
        return str(statement.compile(dialect=dialect, column_keys=sorted(given or {}) or None))
    except Exception as error:  # noqa: BLE001 - of any package: it is the result
        return f"!{type(error).__name__}: {str(error).splitlines()[0][:300]}"


def words(target: Any) -> list[str]:
    """What the dialect writes for each part of a question."""
    ask = capabilities(target.name).query
    texts, days, instants = column("a", String(9)), column("b", Date()), column("c", DateTime())
    part, number = literal("a", String()), column("n", BigInteger())
    cuts = [ask.bucket_start(days, bucket) for bucket in get_args(Bucket) if bucket != "hour"]
    cuts += [ask.bucket_start(instants, bucket) for bucket in get_args(Bucket)]
    parts = [
        ask.beginning(texts, 3), ask.position(texts, part), ask.text_length(texts), ask.double(number),
        ask.sum_of_integers[0](column("n", Integer())), ask.sum_of_integers[1](number), *cuts,
    ]  # fmt: skip
    ruled = dialect_with_rules(target, TableForms([], conditions={}, masks={}, is_open=True))
    return [written(target, ruled, select(each), {}) for each in parts]  # type: ignore[arg-type]


async def statements(target: Any, engine: AsyncEngine, caught: Caught) -> dict[str, list[str]]:
    """By step, what a server sends that takes its database for one of the dialect."""
    found = {}

    async def caller(_: Request) -> Principal:
        return CALLER

    backends._loaded["sqlite"] = replace(SQLITE, capabilities=capabilities(target.name))
    # Rows are counted where the sample is not all of them, and not because it is late.
    options: Any = {
        "base_url": BASE_URL,
        "tables": Base,
        "hooks": RULES,
        "authenticate": caller,
        "count_head_start": timedelta(minutes=1),
    }
    async with create_server(engine, **options) as server:
        app = Starlette(routes=[Mount("/resources", server.router())])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            for name in STATEMENTS:
                caught.clear()
                with suppress(DualResponseError):
                    async for step in asked(server, http, name):
                        found[f"{name}: {step}"] = [
                            written(target, *each) for each in caught if hasattr(each[1], "compile")
                        ]
                        caught.clear()
    return found


async def main() -> None:
    found: dict[str, dict[str, list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        engine = create_async_engine(f"sqlite+aiosqlite:///{folder}/schools.db")
        await fill(engine)
        # A type that Databricks' dialect cannot compile would hide all else: each table stands in with all its columns.
        enum, School.__table__.c.control.type = School.__table__.c.control.type, String(10)
        caught: Caught = []

        @event.listens_for(engine.sync_engine, "before_execute")
        def catch(connection: Any, statement: Any, _: Any, given: Any, __: Any) -> None:
            caught.append((connection.dialect, statement, given))

        @event.listens_for(engine.sync_engine, "before_cursor_execute", retval=True)
        def translate(_: Any, __: Any, sql: str, given: Any, *___: Any) -> tuple[str, Any]:
            """In SQLite's words, or the first statement of a profile fails and no other is sent."""
            plain = re.sub(r"\b(substring|substringUTF8)\(", "substr(", sql)
            return re.sub(r"\blen\(", "length(", plain), given

        for name, url in URLS.items():
            target = make_url(url).get_dialect()()
            found[name] = {
                "a column of an Enum": [written(target, target, select(column("control", enum)), {})],
                "words": words(target),
                **await statements(target, engine, caught),
            }
        await engine.dispose()
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
