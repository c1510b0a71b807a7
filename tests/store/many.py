"""A store with many resources, and everything that a server asks of one. For tests and benchmarks.

Rows are made of one in SQL, with ids in no order, as real ones are. One in a hundred has expired. Each owner has 50,
and each that lives has a link.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql.resource import Principal
from dualsql.store import SQLResourceStore
from dualsql.store.protocol import Access, Requester, ResourceChanges
from dualsql.store.tables import UTCTimestamp, resources
from dualsql.testing.stores import NOW, link, minutes, of, pending
from dualsql_client.wire import ToolProblem

OWNED = 50
LONG_AGO = minutes(-1_000_000)
OWNER = Principal(id="owner 7", tenant="acme")

_CHANGED: Mapping[str, Mapping[str, str]] = {
    "postgresql": {
        "id": "md5(n::text || 'm')",
        "owner": f"'owner ' || n / {OWNED}",
        "created_at": "t.created_at - n * interval '1 millisecond'",
        "expires_at": "t.expires_at + (CASE WHEN n % 100 = 0 THEN -1 ELSE 1 END) * n * interval '1 second'",
    },
    "sqlite": {
        "id": "hex(randomblob(16))",
        "owner": f"'owner ' || (n / {OWNED})",
        "created_at": "strftime('%Y-%m-%d %H:%M:%f000', t.created_at, (-n * 0.001) || ' seconds')",
        "expires_at": "strftime('%Y-%m-%d %H:%M:%f000', t.expires_at, "
        "(CASE WHEN n % 100 = 0 THEN -n ELSE n END) || ' seconds')",
    },
}
_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {number})"


async def fill(url: str, number: int) -> None:
    """Put so many resources into an empty store, and let the database count them."""
    store = SQLResourceStore(url, timeout=timedelta(minutes=5))
    first = await store.save(of(OWNER))
    await store.close()
    engine = create_async_engine(url)
    dialect = engine.dialect.name
    names = [column.name for column in resources.columns]
    values = [_CHANGED[dialect].get(name, f"t.{name}") for name in names]
    async with engine.begin() as connection:
        await connection.execute(
            text(
                f"INSERT INTO dualsql_resources ({', '.join(names)}) {_NUMBERS.format(number=number)} "
                f"SELECT {', '.join(values)} FROM numbers, dualsql_resources AS t WHERE t.id = :first"
            ),
            {"first": first},
        )
        copied = "INSERT INTO dualsql_links (id, resource_id, expires_at) SELECT id, id, expires_at"
        await connection.execute(
            text(f"{copied} FROM dualsql_resources WHERE expires_at > :now").bindparams(
                bindparam("now", NOW, UTCTimestamp())
            )
        )
    async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        await connection.execute(text("VACUUM ANALYZE" if dialect == "postgresql" else "ANALYZE"))
    await engine.dispose()


Operation = Callable[[], Awaitable[object]]


async def operations(store: SQLResourceStore) -> dict[str, Operation]:
    """What a server asks of its store, each to be called as often as wanted."""
    mine = [resource.id for resource in (await store.find(OWNER, now=NOW, limit=OWNED)).resources]
    one, after = mine[0], (await store.find(OWNER, now=NOW, limit=20)).next
    viewer = Requester(principal=OWNER, since=NOW)

    async def settle() -> None:
        await store.settle(await store.get(await store.save(pending())) or pending())

    async def links() -> None:
        signed_link = link(one)
        await store.save_link(signed_link)
        await store.has_link(signed_link)
        await store.has_link(signed_link, take=True)

    async def sweep() -> None:
        await store.save(of(OWNER, expires_at=LONG_AGO))
        expired = await store.find_expired(before=NOW, limit=1)
        await store.delete(*expired, expired_before=NOW)
        await store.delete_links(expired_before=NOW)

    return {
        "creation": lambda: store.save(of(OWNER)),
        "creation of a pending one": settle,
        "look-up": lambda: store.get(one, viewer),
        "prolonging": lambda: store.update(one, ResourceChanges(extend_to=minutes(20), now=NOW)),
        "counting accesses": lambda: store.add_accesses({name: Access(1, NOW) for name in mine}),
        "watching": lambda: store.standings(mine),
        "listing": lambda: store.find(OWNER, now=NOW, limit=20),
        "listing on": lambda: store.find(OWNER, now=NOW, limit=20, after=after),
        "quota": lambda: store.usage(OWNER, now=NOW),
        "quota, oldest": lambda: store.find_unpinned(OWNER, now=NOW, limit=5),
        "links": links,
        "leases": lambda: store.prolong(mine[:3], until=minutes(2)),
        "overdue": lambda: store.fail_overdue(
            ToolProblem(message="x", code="X", hint="", details={}), now=NOW
        ),
        "sweep": sweep,
    }
