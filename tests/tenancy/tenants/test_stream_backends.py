"""On every stream backend, a tenant gets the bytes that its own database would give, and no others."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from dualsql import DualResponseServer, Principal
from dualsql.freeze.document import Statement
from dualsql.results.streams import StreamRequest
from tests.databases.streams.everything import backends_taken
from tests.tenancy.tenants.answers import answer
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.rules import HOOKS
from tests.tenancy.tenants.shapes import PORTABLE
from tests.tenancy.tenants.sites import BASE_URL, ON_POSTGRESQL, ON_SQLITE, REGISTRY, Site
from tests.tenancy.tenants.tpch_rows import TENANTS

SOME = list(PORTABLE)[::6]
TENANT = TENANTS[1]

FORMATS = ("ndjson", "csv", "arrow")


async def stream(
    server: DualResponseServer, statement: Statement, caller: Principal | None, format_name: str
) -> bytes:
    response = await server.create_response(statement, name="x", principal=caller, count="none")
    resource = await server.open_resource(response.resource_id, caller, "read")
    opened = await server.unchecked.stream(resource, caller, StreamRequest(format=format_name))
    async with aclosing(opened.chunks) as chunks:
        return b"".join([chunk.data async for chunk in chunks])


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", SOME)
async def test_a_stream_is_that_of_the_tenant_s_own_database(site: Site, name: str) -> None:
    for format_name in FORMATS:
        with backends_taken() as taken:
            actual = await stream(site.narrowed, PORTABLE[name], principal_of(TENANT), format_name)
            expected = await stream(site.plain[TENANT], PORTABLE[name], None, format_name)
        assert actual == expected
        assert taken[0] == taken[1] != "by_sqlalchemy"


@pytest.mark.quick(4)
@ON_SQLITE
@pytest.mark.parametrize("name", SOME)
async def test_columns_that_are_left_out_change_nothing_else(site: Site, name: str) -> None:
    """The database leaves them out where that is safe; the cells are those of the whole stream."""
    await check_columns(site, PORTABLE[name])


@pytest.mark.long
@ON_SQLITE
@pytest.mark.parametrize("name", PORTABLE)
async def test_columns_that_are_left_out_of_any_statement(site: Site, name: str) -> None:
    await check_columns(site, PORTABLE[name])


async def check_columns(site: Site, statement: Statement) -> None:
    server = site.plain[TENANT]
    response = await server.create_response(statement, name="x", sample_size=1, count="none")
    names = [column["name"] for column in response.columns]
    whole = await lines(server, response.resource_id, None)
    for chosen in {tuple(names[:1]), tuple(names[-1:]), (names[-1], names[0]), tuple(names[1::2])} - {()}:
        if len(set(chosen)) == len(chosen):
            rows = await lines(server, response.resource_id, chosen)
            assert rows == [[row[names.index(name)] for name in chosen] for row in whole], chosen


async def lines(
    server: DualResponseServer, resource_id: str, columns: tuple[str, ...] | None
) -> list[list[Any]]:
    resource = await server.open_resource(resource_id, None, "read")
    opened = await server.unchecked.stream(resource, None, StreamRequest(format="ndjson", columns=columns))
    async with aclosing(opened.chunks) as chunks:
        data = b"".join([chunk.data async for chunk in chunks])
    return [list(json.loads(line).values()) for line in data.splitlines()[:-1]]


@pytest.mark.long
@ON_POSTGRESQL
async def test_the_tenants_go_by_copy(site: Site) -> None:
    """The comparison above means that backend, too."""
    taken: set[str] = set()
    for name in SOME:
        for format_name in ("csv", "arrow"):
            with backends_taken() as backends:
                await stream(site.narrowed, PORTABLE[name], principal_of(TENANT), format_name)
            taken.update(backends)
    assert {"by_csv_copy", "by_arrow_copy"} <= taken


@pytest.mark.quick(3)
@ON_SQLITE
@pytest.mark.parametrize("name", SOME)
async def test_pages_of_the_short_way_are_the_tenant_s_own(site: Site, name: str) -> None:
    url = site.shared.url
    async with DualResponseServer(url, base_url=BASE_URL, tables=REGISTRY, hooks=HOOKS) as server:
        assert server.parts.sources["default"].fast is not None
        actual = await answer(server, PORTABLE[name], principal_of(TENANT))
    assert actual == await answer(site.plain[TENANT], PORTABLE[name], None)
