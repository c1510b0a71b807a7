"""Attacks on a server: writing through it, changing its rows, reading what is someone else's, never ending."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import column, func, insert, literal, select, text, update
from sqlalchemy.event import listen
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from dualsql import (
    ConfigurationError,
    DualResponseServer,
    ForbiddenError,
    HookContext,
    Principal,
    QueryExecutionError,
    QueryTimeoutError,
    ResourceExpiredError,
    ResourceNotFoundError,
    Shared,
    SQLResourceStore,
    TamperedError,
)
from dualsql.databases.guard import SessionTerms
from dualsql.databases.proof import prove_read_only
from dualsql.databases.session import read_only
from dualsql.databases.source import open_source
from dualsql.databases.sqlite.connection import SQLiteGuard
from dualsql.store import upgrade
from dualsql.store.tables import resources
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL, MakeServer
from tests.waiting import PATIENCE

pytestmark = pytest.mark.quick(50, "sqlite")

SECRET = "a secret of at least thirty-two characters"
ANA = Principal(id="ana", tenant="one")
EVERYTHING_SHARED = Shared(*Base.metadata.tables.values())


async def count_schools(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return (await connection.execute(select(func.count()).select_from(School))).scalar_one()


# Writing ----------------------------------------------------------------------------------------------------


async def test_a_session_refuses_every_write(dual: DualResponseServer, schools: AsyncEngine) -> None:
    source = dual.parts.sources["default"]
    for sql in (
        "DELETE FROM schools",
        "UPDATE schools SET name = ''",
        "CREATE TABLE x (y INTEGER)",
        "DROP TABLE visits",
    ):
        async with read_only(source, None) as connection:
            with pytest.raises(Exception, match="read"):
                await connection.execute(text(sql))
    assert await count_schools(schools) == len(SCHOOLS)


async def test_a_write_inside_allowed_text_fails(make_server: MakeServer, schools: AsyncEngine) -> None:
    sneaky = text("WITH gone AS (DELETE FROM schools RETURNING id) SELECT id FROM gone").columns(column("id"))
    with pytest.raises(QueryExecutionError):
        await make_server(allow_text=True).create_response(sneaky, name="sneaky")
    assert await count_schools(schools) == len(SCHOOLS)


async def test_the_application_s_engine_still_writes(dual: DualResponseServer, schools: AsyncEngine) -> None:
    for _ in range(20):
        await dual.create_response(select(School), name="x")
    async with schools.begin() as connection:
        await connection.execute(update(School).values(name="renamed"))
    page = await dual.create_response(select(School.name), name="x")
    assert page.sample[0] == {"name": "renamed"}


async def test_an_engine_that_was_read_only_before_stays_so(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url)
    await fill(engine)
    await engine.dispose()
    listen(engine.sync_engine, "connect", lambda raw, _: raw.execute("PRAGMA query_only = ON"))
    async with DualResponseServer(engine, base_url=BASE_URL, tables=Base) as server:
        await server.create_response(select(School), name="x")
    async with engine.connect() as connection:
        with pytest.raises(OperationalError, match="readonly"):
            await connection.execute(update(School).values(name="x"))
    await engine.dispose()


class Unguarded(SQLiteGuard):
    """Lets everything through."""

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        yield


async def test_a_database_that_lets_it_write_is_refused(dual: DualResponseServer) -> None:
    source = dual.parts.sources["default"]
    open_to_writes = replace(source, backend=replace(source.backend, guard=Unguarded()))
    with pytest.raises(ConfigurationError, match="read-only session could create a table"):
        await prove_read_only(open_to_writes)


async def test_the_name_of_the_probe_is_short_enough_for_every_database(dual: DualResponseServer) -> None:
    """Oracle 12.1 and Firebird 3 take 30 characters (docs/databases/adding.md)."""
    source = dual.parts.sources["default"]
    statements: list[str] = []
    listen(source.engine.sync_engine, "before_cursor_execute", lambda *sent: statements.append(sent[2]))
    await prove_read_only(source)
    [name] = [match[1] for each in statements if (match := re.match(r"CREATE TABLE (\w+)", each))]
    assert len(name) <= 30


def test_an_engine_that_cannot_be_kept_read_only_is_refused() -> None:
    from sqlalchemy import create_engine

    with pytest.raises(ConfigurationError):
        open_source("x", create_engine("sqlite://"), None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no SQLite database"):
        open_source("x", "sqlite:///no/such/file.db", None)  # type: ignore[arg-type]


# Never ending -----------------------------------------------------------------------------------------------

_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count()).select_from(_forever.union_all(select(_forever.c.n)))


async def test_a_query_that_never_ends_is_stopped(
    make_server: MakeServer, schools: AsyncEngine, database_url: str
) -> None:
    server = make_server(query_timeout=timedelta(milliseconds=200))
    with pytest.raises(QueryTimeoutError, match=r"0\.2 seconds"):
        await server.create_response(FOREVER, name="forever")
    # The database is free again: the next statement is answered, on as many connections as there are.
    patient = make_server()
    responses = await asyncio.gather(*(patient.create_response(select(School), name="x") for _ in range(10)))
    assert {response.total_count for response in responses} == {len(SCHOOLS)}
    if database_url.startswith("postgresql"):
        await _no_query_runs(schools)


async def test_a_caller_who_goes_away_stops_the_query(
    make_server: MakeServer, schools: AsyncEngine, database_url: str
) -> None:
    server = make_server()
    await server.start()
    waiting = asyncio.ensure_future(server.create_response(FOREVER, name="forever"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, timeout=0.3)
    assert (await server.create_response(select(School), name="x")).total_count == len(SCHOOLS)
    if database_url.startswith("postgresql"):
        await _no_query_runs(schools)


async def _no_query_runs(engine: AsyncEngine) -> None:
    running = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE state = 'active' AND query LIKE '%forever%' AND pid <> pg_backend_pid()"
    )
    async with engine.connect() as connection:
        async with asyncio.timeout(PATIENCE):
            while (await connection.execute(running)).scalar_one():
                await connection.rollback()


# Changing stored rows ---------------------------------------------------------------------------------------


@pytest.fixture
async def stored(make_server: MakeServer, database_url: str) -> DualResponseServer:
    upgrade(database_url)
    return make_server(store=SQLResourceStore(database_url), secrets=[SECRET])


CHANGES: dict[str, dict[str, Any]] = {
    "document": {"document": b"anything"},
    "owner": {"owner": None, "tenant": None},
    "tenant": {"tenant": "two"},
    "source": {"source": "elsewhere"},
    "created_at": {"created_at": datetime(2020, 1, 1, tzinfo=UTC)},
    "signature": {"signature": b"0" * 32},
}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_row_is_refused(stored: DualResponseServer, schools: AsyncEngine, what: str) -> None:
    response = await stored.create_response(select(School), name="x", principal=ANA)
    async with schools.begin() as connection:
        await connection.execute(
            update(resources).where(resources.c.id == response.resource_id).values(**CHANGES[what])
        )
    # As whoever it seems to belong to now: nobody else gets to see the row.
    taker = Principal(id="ana", tenant=CHANGES[what].get("tenant", ANA.tenant))
    with pytest.raises(TamperedError):
        await stored.open_resource(response.resource_id, taker, "read")


async def test_a_document_of_another_resource_is_refused(
    stored: DualResponseServer, schools: AsyncEngine
) -> None:
    mine = await stored.create_response(select(School.id), name="x")
    theirs = await stored.create_response(select(School.name), name="y")
    async with schools.begin() as connection:
        other = (
            await connection.execute(
                select(resources.c.document, resources.c.signature).where(
                    resources.c.id == theirs.resource_id
                )
            )
        ).one()
        await connection.execute(
            update(resources).where(resources.c.id == mine.resource_id).values(other._asdict())
        )
    with pytest.raises(TamperedError):
        await stored.open_resource(mine.resource_id, None, "read")


async def test_secrets_rotate(make_server: MakeServer, database_url: str) -> None:
    upgrade(database_url)
    old = make_server(store=SQLResourceStore(database_url), secrets=[SECRET])
    response = await old.create_response(select(School), name="x")
    both = make_server(store=SQLResourceStore(database_url), secrets=["another " + SECRET, SECRET])
    assert await both.open_resource(response.resource_id, None, "read")
    neither = make_server(store=SQLResourceStore(database_url), secrets=["another " + SECRET])
    with pytest.raises(TamperedError):
        await neither.open_resource(response.resource_id, None, "read")


def test_a_store_that_lasts_wants_a_secret(database_url: str, schools: AsyncEngine) -> None:
    with pytest.raises(ConfigurationError, match="secrets") as refused:
        DualResponseServer(schools, base_url=BASE_URL, tables=Base, store=SQLResourceStore(database_url))
    assert "token_urlsafe(32)" in refused.value.hint


# What is someone else's -------------------------------------------------------------------------------------


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    "caller", [None, Principal(id="bob", tenant="one"), Principal(id="ana", tenant="two")]
)
async def test_a_stranger_sees_nothing(dual: DualResponseServer, caller: Principal | None) -> None:
    response = await dual.create_response(select(School), name="x", principal=ANA)
    unknown = await _refusal(dual, "no-such-id", caller)
    assert str(await _refusal(dual, response.resource_id, caller)) == str(unknown)
    assert await dual.open_resource(response.resource_id, ANA, "delete")


async def test_a_stranger_is_not_told_that_it_expired(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(School), name="x", principal=ANA, expiration=timedelta(0))
    assert isinstance(await _refusal(dual, response.resource_id, None), ResourceNotFoundError)
    assert isinstance(await _refusal(dual, response.resource_id, ANA), ResourceExpiredError)


async def test_an_id_alone_allows_what_the_operator_says(make_server: MakeServer) -> None:
    server = make_server(anonymous_actions=frozenset({"read"}))
    response = await server.create_response(select(School), name="x")
    assert await server.open_resource(response.resource_id, None, "read")
    for action in ("pin", "delete"):
        with pytest.raises(ForbiddenError):
            await server.open_resource(response.resource_id, None, action)


async def _refusal(server: DualResponseServer, resource_id: str, caller: Principal | None) -> Exception:
    with pytest.raises((ResourceNotFoundError, ResourceExpiredError)) as refused:
        await server.open_resource(resource_id, caller, "read")
    return refused.value


async def test_a_hook_narrows_sample_count_and_pages_to_who_asks_now(make_server: MakeServer) -> None:
    def own_state(statement: Any, context: HookContext) -> Any:
        return statement.where(School.state == context.principal.tenant) if context.principal else statement

    server = make_server(hooks=[own_state, EVERYTHING_SHARED])
    new_jersey = Principal(id="ana", tenant="NJ")
    response = await server.create_response(
        select(School.state).order_by(School.id), name="x", principal=new_jersey, sample_size=1
    )
    assert response.total_count == sum(row["state"] == "NJ" for row in SCHOOLS)
    resource = await server.open_resource(response.resource_id, new_jersey, "read")
    for caller, states in ((new_jersey, {"NJ"}), (Principal(id="ana", tenant="PA"), {"PA"})):
        page = await server.unchecked.read_page(resource, caller)
        assert {row["state"] for row in page.rows} == states


async def _awaited(statement: Any, _context: HookContext) -> Any:
    return statement


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    "hook",
    [_awaited, lambda statement, _: None, lambda statement, _: select(School.id, School.name)],
    ids=["a coroutine", "nothing", "other columns"],
)
@pytest.mark.filterwarnings("ignore:coroutine '_awaited' was never awaited")
async def test_a_hook_that_does_not_narrow_stops_the_request(make_server: MakeServer, hook: Any) -> None:
    with pytest.raises(ConfigurationError, match="hook"):
        await make_server(hooks=[hook, EVERYTHING_SHARED]).create_response(select(School.id), name="x")


async def test_only_the_database_s_refusal_proves_that_it_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "no.db"
    path.write_text("this is no database, " * 100)
    server = DualResponseServer(f"sqlite:///{path}", base_url=BASE_URL, tables=Base)
    with pytest.raises(QueryExecutionError):
        await server.start()
    await server.shutdown()


def test_inserting_through_a_statement_is_impossible() -> None:
    """Nothing but a Select is taken; the type says so, and so does freeze."""
    from dualsql import NotFreezableError, Registry
    from dualsql.freeze import freeze

    with pytest.raises(NotFreezableError):
        freeze(insert(School), Registry(Base))  # type: ignore[arg-type]
