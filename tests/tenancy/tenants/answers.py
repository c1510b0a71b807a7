"""What a server answers, read to the last page. Rows are compared as the bytes of the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, PageRequest, Principal, plan
from dualsql.capabilities import capabilities_of
from dualsql.columns.meanings import Meanings
from dualsql.formats import cells, json
from dualsql.freeze.document import Statement
from dualsql.resource import Resource
from dualsql_client.wire import SortKey

Lines = list[bytes]


@dataclass(frozen=True)
class Answer:
    """A statement's rows as JSON lines.

    Attributes:
        rows: all pages, in the result's own order.
        by_first, by_last: all pages again, sorted by the first column, and downwards by the last.
    """

    total: int | None
    sample: Lines
    rows: Lines
    by_first: Lines
    by_last: Lines


async def answer(server: DualResponseServer, statement: Statement, caller: Principal | None) -> Answer:
    """Create a response of the statement and read all of it, three times over."""
    response = await server.create_response(statement, name="x", principal=caller)
    resource = await server.open_resource(response.resource_id, caller, "read")
    first, last = response.columns[0]["name"], response.columns[-1]["name"]
    return Answer(
        response.total_count,
        [json.dumps(row) for row in response.sample],
        await pages(server, resource, caller),
        await pages(server, resource, caller, [{"field": first, "order": "asc"}]),
        await pages(server, resource, caller, [{"field": last, "order": "desc"}]),
    )


async def pages(
    server: DualResponseServer, resource: Resource, caller: Principal | None, sort: Sequence[SortKey] = ()
) -> Lines:
    """The rows of three pages or so, joined."""
    limit = (resource.total_count or 0) // 3 + 2
    lines: Lines = []
    while True:
        page = await server.unchecked.read_page(
            resource, caller, PageRequest(offset=len(lines), limit=limit, sort=sort)
        )
        lines += [json.dumps(row) for row in page.rows]
        if not page.has_next:
            return lines


async def truth(engine: AsyncEngine, statement: Statement) -> Lines:
    """The rows of the statement under no rule, each value with the type that this database gives it."""
    capabilities = capabilities_of(engine.dialect)
    meanings = Meanings(
        engine.dialect, keeps_zones=capabilities.keeps_zones, computation=capabilities.computation
    )
    shape = plan.shape(statement, meanings)
    select = shape.select.limit(shape.limit).offset(shape.offset or None)
    async with engine.connect() as connection:
        rows = (await connection.execute(select)).all()
    return [json.dumps(row) for row in cells.RecordMaker(shape.columns, engine.dialect).records(rows)]
