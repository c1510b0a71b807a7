"""A tenant is answered on Spark what a database of its own holds, on SQLite, whatever the statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from dualsql.freeze.document import Statement
from dualsql.results.streams import StreamRequest
from tests import engines
from tests.servers import create_server
from tests.spark.cluster import Cluster
from tests.spark.tables import created
from tests.tenancy.tenants.answers import truth
from tests.tenancy.tenants.databases import fill, principal_of
from tests.tenancy.tenants.queries import QUERIES
from tests.tenancy.tenants.rules import HOOKS
from tests.tenancy.tenants.shapes_core import JOINS
from tests.tenancy.tenants.sites import BASE_URL, REGISTRY
from tests.tenancy.tenants.tpch_rows import TENANTS, Generator, Rows, shared_rows

pytestmark = pytest.mark.exhaustive

WHO = TENANTS[1]
_ELSEWHERE = ("visits", "calendar", "oddities", "ledger", "urgent_orders", "author_pages", "odd ")
STATEMENTS: dict[str, Statement] = {
    name: statement
    for name, statement in {**QUERIES, **JOINS}.items()
    if not any(word in str(statement) for word in _ELSEWHERE)
}
"""What reads the tables of TPC-H alone."""
CUSTOMERS = 30


class Tenanted(NamedTuple):
    """A server over the rows of all tenants on Spark, and the SQLite database of one."""

    server: DualResponseServer
    own: AsyncEngine


@pytest.fixture(scope="module")
def shared_url(spark: Cluster) -> Iterator[str]:
    """A schema with the tables of TPC-H, and all tenants' rows in them."""
    rows: dict[Any, Rows] = dict(shared_rows())
    for tenant in TENANTS:
        for table, lines in Generator(tenant, CUSTOMERS).rows().items():
            rows[table] = [*rows.get(table, ()), *lines]
    url = f"{spark.url.rpartition('/')[0]}/tenanted"
    spark.run("CREATE SCHEMA tenanted")
    for table, lines in rows.items():
        spark.run(*created(table, lines), url=url)
    yield url
    spark.run("DROP SCHEMA tenanted CASCADE")


@pytest.fixture(scope="module")
async def tenanted(shared_url: str, tmp_path_factory: Any, anyio_backend: str) -> AsyncIterator[Tenanted]:
    options: Any = {"base_url": BASE_URL, "tables": REGISTRY, "hooks": HOOKS, "unproved_read_only": True}
    folder: Path = tmp_path_factory.mktemp("own")
    async with (
        engines.opened(engines.sqlite_url_in(folder)) as own,
        create_server(shared_url, query_timeout=timedelta(minutes=5), **options) as server,
    ):
        await fill(own, [WHO])
        yield Tenanted(server, own)


def comparable(rows: Iterable[Any]) -> Counter[str]:
    """Rows without the spelling of numbers: 1, 1.0 and "1.00" are one."""
    return Counter(orjson.dumps([_plain(cell) for cell in row.values()]).decode() for row in rows)


def _plain(cell: Any) -> Any:
    try:
        number = Decimal(str(cell))
        return f"{number:.6e}" if number else "0"
    except ArithmeticError:
        return cell


@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_tenant_is_answered_from_its_own_rows(tenanted: Tenanted, name: str) -> None:
    caller = principal_of(WHO)
    expected = [orjson.loads(line) for line in await truth(tenanted.own, STATEMENTS[name])]
    response = await tenanted.server.create_response(
        STATEMENTS[name], name="x", count="none", sample_size=1, principal=caller
    )
    resource = await tenanted.server.open_resource(response.resource_id, caller, "read")
    stream = await tenanted.server.unchecked.stream(resource, caller, StreamRequest())
    lines = b"".join([chunk.data async for chunk in stream.chunks]).splitlines()[:-1]
    assert comparable(map(orjson.loads, lines)) == comparable(expected)
