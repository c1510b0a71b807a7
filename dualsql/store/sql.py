"""Stores resources in the table `dualsql_resources`, with one statement for each method.

Counts, extensions, pins and deletions are conditions and arithmetic in SQL. No value is read, changed in Python and
written back, so they are correct in any number of processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    BindParameter,
    ColumnElement,
    Delete,
    Executable,
    Select,
    String,
    Update,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql.databases.engines import most_connections
from dualsql.databases.reach import server_at
from dualsql.errors import StorageError, TamperedError
from dualsql.events import store_operation
from dualsql.resource import Principal, Resource, Total
from dualsql.settings import require_duration
from dualsql.store.engines import (
    borrowed_engine,
    for_operator,
    has_clock,
    is_read_only,
    own_engine,
    reading_any_text,
    storage_errors,
    works_in_thread,
)
from dualsql.store.fast_rows import RowQuery, RowReader, row_reader
from dualsql.store.protocol import (
    Access,
    LinkRecord,
    ListingPosition,
    Requester,
    ResourceChanges,
    ResourcePage,
    ResourceState,
    Usage,
)
from dualsql.store.rows import (
    FIELD_CLASSES,
    ID_CHARACTERS,
    MAXIMUM_ID_LENGTH,
    MAXIMUM_ROW_BYTES,
    NO_ID,
    failed_values,
    from_row,
    is_storable_id,
    kept_text,
    page_of,
    settled_values,
    to_row,
    unreadable,
)
from dualsql.store.tables import UTCTimestamp, links, resources
from dualsql.threads import shielded
from dualsql_client.wire import ToolProblem

T = TypeVar("T")


class Connections:
    """Connections of an engine, until they are closed.

    Args:
        is_ours: dispose of the engine at the end.
    """

    def __init__(self, engine: AsyncEngine, *, is_ours: bool) -> None:
        self.engine = engine
        self._is_ours = is_ours
        self._is_closed = False
        self._running = 0
        self._is_idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def maximum(self) -> int:
        """How many connections are open at most, besides those of the application's engine."""
        return most_connections(self.engine.pool) if self._is_ours else 0

    def reopen(self) -> None:
        """Prepare for the running event loop, which may be a new one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._is_ours and not self._is_closed:
                self.engine.sync_engine.dispose(close=False)  # its connections ended with their loop
            self._loop, self._running, self._is_idle = loop, 0, asyncio.Event()
        self._is_closed = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement is a transaction.

        Raises:
            StorageError: the database failed in the block, or the store was closed.
        """
        if self._is_closed:
            raise StorageError("The resource store was closed.", hint="Open it again: `await store.open()`.")
        self._running += 1
        try:
            with storage_errors(self.engine.url):
                async with self.engine.connect() as connection:
                    try:
                        with reading_any_text(connection):
                            yield connection
                    except DBAPIError as error:
                        if is_read_only(error):
                            # The server became a standby. The next connection reaches the new primary.
                            await connection.invalidate()
                        raise
        finally:
            self._running -= 1
            if not self._running:
                self._is_idle.set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on a connection.

        In a thread, it goes on if the caller leaves, and `close` waits for it.
        """
        return await (shielded(asyncio.ensure_future(work)) if works_in_thread(self.engine) else work)

    async def close(self) -> None:
        """Refuse new statements, wait for running ones, and dispose of the engine if the store made it."""
        self._is_closed = True
        while self._running:
            self._is_idle.clear()
            await self._is_idle.wait()
        if self._is_ours:
            await self.engine.dispose()


DELETE_BATCH = 1_000
"""Ids in one DELETE, far fewer than any driver can bind."""

# Errors that SQLAlchemy's types, and drivers, raise for a stored value of another type or beyond their range.
_NOT_OF_ITS_TYPE = (ValueError, TypeError, ArithmeticError)
_WHERE_UNREADABLE = suppress(*_NOT_OF_ITS_TYPE)

_t = resources.c
_ROW = [_t[name].label(name) for name in FIELD_CLASSES]
_INSERT = insert(resources)
_HAS_ID = case(
    (
        and_(
            func.ltrim(_t.id, ID_CHARACTERS) == "",
            func.length(_t.id).between(1, MAXIMUM_ID_LENGTH),
            _t.id == literal("").concat(_t.id),  # on SQLite, bytes equal no text
        ),
        true(),
    ),
    else_=false(),
)
"""Whether `is_storable_id` accepts the id of a row. Only another program writes others, which no caller can open.

PostgreSQL takes a CASE to hold for half of the rows, but the conditions alone for none: it sorted all expired rows."""

_SIZE = case((_t.size.between(0, MAXIMUM_ROW_BYTES), _t.size), else_=MAXIMUM_ROW_BYTES)
"""The size of a row, as a number that can be added up, whatever another program wrote."""


class SQLResourceStore:
    """Stores resources in PostgreSQL or SQLite. `dualsql migrate --create --store URL` creates the table.

    Args:
        database: a URL, or an AsyncEngine of the application. Its settings do not change, and `close` does not dispose
            it.
        timeout: the longest time for a connection, a lock or an answer. Longer is a failure of the store. For an
            engine of the application, its own settings apply.

    Raises:
        ConfigurationError: neither PostgreSQL nor SQLite, or a SQLite database in memory.
    """

    def __init__(
        self, database: AsyncEngine | URL | str, *, timeout: timedelta = timedelta(seconds=10)
    ) -> None:
        require_duration("timeout", timeout, is_positive=True)
        if isinstance(database, AsyncEngine):
            self._connections = Connections(borrowed_engine(database), is_ours=False)
            self._row_reader: RowReader | None = None
        else:
            engine = own_engine(database, timeout)
            self._connections = Connections(engine, is_ours=True)
            self._row_reader = row_reader(engine)

    async def save(self, resource: Resource) -> str:
        await self._change(_INSERT, to_row(resource))
        return resource.id

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        if not is_storable_id(resource_id):
            return None
        query, values = _row_for(viewer)
        values["resource_id"] = resource_id
        rows = None
        if self._row_reader is not None:
            # A value that does not have the type of its column is reported by the ordinary connection.
            with store_operation("select"), _WHERE_UNREADABLE:
                rows = await self._row_reader.read(query, values)
        if rows is None:
            rows = await self._rows(query.statement, values)
        return from_row(rows[0]) if rows else None

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        if not is_storable_id(resource_id):
            return False
        return await self._change(_update(resource_id, changes)) > 0

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        # In the order of the ids, as in the DELETE, so that two processes cannot deadlock.
        named = filter(lambda each: is_storable_id(each[0]), sorted(accesses.items()))
        if added := [{"added_id": name, **access._asdict()} for name, access in named]:
            await self._change(_ADDED_ACCESSES, added)

    async def settle(self, resource: Resource) -> bool:
        values = settled_values(resource)
        expires_at = literal(values["expires_at"], UTCTimestamp())
        # It may have been pinned while its query ran.
        values["expires_at"] = case((_t.expires_at.is_(None), null()), else_=expires_at)
        pending = update(resources).where(_t.id == resource.id, _t.status == "pending")
        return await self._change(pending.values(values)) > 0

    async def prolong(self, resource_ids: Collection[str], *, until: datetime) -> Collection[str]:
        # In the order of the ids, as in the DELETE.
        locked_ids = select(_t.id).where(_t.id.in_(resource_ids)).order_by(_t.id).with_for_update()
        pending = update(resources).where(_t.id.in_(locked_ids), _t.status == "pending")
        prolonged = pending.values(pending_until=until).returning(_t.id.label("id"))
        return [row["id"] for row in await self._rows(prolonged)]

    async def fail_overdue(self, failure: ToolProblem, *, now: datetime) -> int:
        overdue = (_t.status == "pending", _t.pending_until <= now)
        locked_ids = select(_t.id).where(*overdue).order_by(_sorted(_t.id)).with_for_update()
        failing = update(resources).where(_t.id.in_(locked_ids), *overdue)
        return await self._change(failing.values(failed_values(failure)))

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        ids = sorted(filter(is_storable_id, set(resource_ids)))
        batches = [ids[start : start + DELETE_BATCH] for start in range(0, len(ids), DELETE_BATCH)]
        return sum([await self._change(_delete(batch, expired_before)) for batch in batches])

    async def standings(self, resource_ids: Collection[str]) -> Mapping[str, ResourceState]:
        ids = sorted(filter(is_storable_id, resource_ids))
        states = select(_t.id, _t.status, _t.expires_at)
        try:
            rows = await self._rows(states.where(_t.id.in_(ids)))
        except TamperedError:
            rows = []
            for each in ids:
                with suppress(TamperedError):
                    rows += await self._rows(states.where(_t.id == each))
        return {row["id"]: ResourceState(row["status"], row["expires_at"]) for row in rows}

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        # A negative LIMIT is no limit in SQLite (lang_select.html) and an error in PostgreSQL.
        expired = select(_t.id).where(_t.expires_at <= before, _HAS_ID).order_by(_t.expires_at, _t.id)
        return [row["id"] for row in await self._rows(expired.limit(max(limit, 0)))]

    async def find(
        self, principal: Principal, *, now: datetime, limit: int, after: ListingPosition | None = None
    ) -> ResourcePage:
        statement = select(*_ROW).where(*_lives_for(principal, now), _HAS_ID)
        odd: list[dict[str, Any]] = []
        if after is None:
            nameless = select(literal(NO_ID).label("id")).where(*_lives_for(principal, now), not_(_HAS_ID))
            odd = await self._rows(nameless.limit(max(limit, 0)))
        else:
            at = _instant(after.created_at)
            statement = statement.where(or_(_t.created_at < at, and_(_t.created_at == at, _t.id < after.id)))
        newest = statement.order_by(_t.created_at.desc(), _t.id.desc())
        try:
            rows = await self._rows(newest.limit(max(limit, 0) + 1))
        except StorageError:  # also for one value that its driver, or its type, does not read
            rows = await self._rows_one_by_one(newest, limit)
        return page_of([*odd, *rows], limit)

    async def usage(self, principal: Principal, *, now: datetime) -> Usage:
        return await self._usage_of(*_lives_for(principal, now))

    async def pins(self, pinned_by: str) -> Usage:
        return await self._usage_of(_t.pinned_by == pinned_by, _t.expires_at.is_(None))

    async def _usage_of(self, *conditions: ColumnElement[bool]) -> Usage:
        is_pinned = _t.expires_at.is_(None)
        statement = select(
            func.count().label("count"),
            _total(_SIZE).label("size"),
            _total(case((is_pinned, 1), else_=0)).label("pinned_count"),
            _total(case((is_pinned, _SIZE), else_=0)).label("pinned_size"),
        )
        return Usage(**(await self._rows(statement.where(*conditions)))[0])

    async def find_unpinned(
        self, principal: Principal, *, now: datetime, limit: int
    ) -> Sequence[tuple[str, int]]:
        unpinned = select(_t.id, _SIZE.label("size")).where(
            *_lives_for(principal, now), _t.expires_at.is_not(None), _HAS_ID
        )
        oldest = unpinned.order_by(_t.created_at, _t.id).limit(max(limit, 0))
        return [(row["id"], row["size"]) for row in await self._rows(oldest)]

    async def save_link(self, link: LinkRecord) -> None:
        await self._change(insert(links).values(link._asdict()))

    async def has_link(self, link: LinkRecord, *, take: bool = False) -> bool:
        same = (links.c.id == link.id, links.c.resource_id == link.resource_id)
        if take:
            # Of several concurrent requests, one deletes the row (decision 7).
            return await self._change(delete(links).where(*same)) == 1
        return bool(await self._rows(select(links.c.id).where(*same)))

    async def delete_links(
        self,
        *,
        link_id: str | None = None,
        resource_id: str | None = None,
        expired_before: datetime | None = None,
    ) -> int:
        conditions: list[ColumnElement[bool]] = []
        if link_id is not None:
            conditions.append(links.c.id == link_id)
        if resource_id is not None:
            conditions.append(links.c.resource_id == resource_id)
        if expired_before is not None:
            conditions.append(links.c.expires_at <= expired_before)
        if not conditions:
            return 0
        # In the order of the ids, so that two sweepers cannot deadlock.
        locked_ids = select(links.c.id).where(*conditions).order_by(_sorted(links.c.id)).with_for_update()
        return await self._change(delete(links).where(links.c.id.in_(locked_ids)))

    @property
    def server(self) -> tuple[str, str | None, str | None]:
        """Kind, host and port of its database."""
        return server_at(self._connections.engine.url)

    @property
    def maximum_connections(self) -> int:
        """How many connections it opens at most; 0 for an engine of the application."""
        return self._connections.maximum

    async def clock(self) -> datetime | None:
        """The database's time; None for SQLite, which has the machine's."""
        if not has_clock(self._connections.engine):
            return None
        # now() is when the transaction began (PostgreSQL, 9.9.5).
        now: datetime = (await self._rows(select(func.clock_timestamp().label("now"))))[0]["now"]
        return now

    async def open(self) -> None:
        self._connections.reopen()
        if self._row_reader is not None:
            self._row_reader.reopen()
        try:
            for table in (resources, links):
                await self._rows(select(table).limit(0))
        except StorageError as error:
            raise for_operator(error) from error.__cause__

    async def close(self) -> None:
        if self._row_reader is not None:
            await self._row_reader.close()
        await self._connections.close()

    async def _change(
        self, statement: Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> int:
        """Run one INSERT, UPDATE or DELETE, once for each of these values, and return the number of affected rows."""

        async def change() -> int:
            async with self._connections.open() as connection:
                return (await connection.execute(statement, values)).rowcount

        with store_operation(statement.__visit_name__):
            return await self._connections.run(change())

    async def _rows_one_by_one(self, newest: Select[Any], limit: int) -> list[dict[str, Any]]:
        """The rows of a listing up to the one after `limit`; of those that cannot be read, what can."""
        rows: list[dict[str, Any]] = []
        for each in await self._rows(newest.with_only_columns(_t.id)):
            row = await self._readable_part(each["id"])
            rows += [] if row is None else [row]
            if sum("created_at" in row for row in rows) > limit:
                break
        return rows

    async def _readable_part(self, resource_id: str) -> dict[str, Any] | None:
        """The row; if it cannot be read, its id, with its time if that can; None if it was deleted."""
        for columns in (_ROW, (_t.id, _t.created_at)):
            with suppress(StorageError):
                return next(iter(await self._rows(select(*columns).where(_t.id == resource_id))), None)
        # Raises if the database is down.
        return next(iter(await self._rows(select(_t.id).where(_t.id == resource_id))), None)

    async def _rows(
        self, statement: Executable, values: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            async with self._connections.open() as connection:
                try:
                    return [row._asdict() for row in await connection.execute(statement, values)]
                except _NOT_OF_ITS_TYPE:
                    raise unreadable() from None

        with store_operation(statement.__visit_name__):
            return await self._connections.run(read())


def _update(resource_id: str, changes: ResourceChanges) -> Update:
    statement = update(resources).where(_t.id == resource_id)
    values: dict[str, Any] = {"access_count": _t.access_count + changes.accesses}
    if changes.accessed_at is not None:
        values["last_accessed_at"] = _later(_t.last_accessed_at, _instant(changes.accessed_at))
    if changes.pin and changes.now is not None:
        values["expires_at"] = None
        by = literal(changes.pinned_by, String())
        values["pinned_by"] = case((_t.expires_at.is_(None), _t.pinned_by), else_=by)
        statement = statement.where(or_(_t.expires_at.is_(None), _t.expires_at > changes.now))
    elif changes.unpin_to is not None:
        values["expires_at"] = func.coalesce(_t.expires_at, _instant(changes.unpin_to))
    elif changes.extend_to is not None and changes.now is not None:
        may_extend = and_(_t.expires_at > changes.now, _t.expires_at < changes.extend_to)
        values["expires_at"] = case((may_extend, _instant(changes.extend_to)), else_=_t.expires_at)
    if changes.total is not None:
        values |= _total_values(changes.total)
    if changes.kept is not None:
        before = kept_text(changes.kept.before)
        values["kept"] = kept_text(changes.kept.after)
        statement = statement.where(_t.kept.is_(None) if before is None else _t.kept == before)
    return statement.values(values)


def _total_values(total: Total) -> dict[str, Any]:
    values: dict[str, Any] = {"total_count": total.rows, "total_count_kind": total.kind}
    if total.kind == "exact":
        return values
    # A count without a kind is exact (`dualsql.store.tables`).
    is_old_count = and_(_t.total_count_kind.is_(None), _t.total_count.is_not(None))
    is_exact = or_(_t.total_count_kind == "exact", is_old_count)
    return {
        name: case((is_exact, _t[name]), else_=literal(value, _t[name].type))
        for name, value in values.items()
    }


def _total(column: ColumnElement[int]) -> ColumnElement[int]:
    # PostgreSQL returns sums as numeric, and NULL for no rows.
    return func.coalesce(func.sum(column), 0).cast(BigInteger)


def _row_for(viewer: Requester | None) -> tuple[RowQuery, dict[str, Any]]:
    """The query for the row of `resource_id`, if the viewer may see it, and the values of the viewer."""
    if viewer is None:
        return _row_query("all"), {}
    who, values = viewer.principal, {"since": viewer.since}
    if who is None:
        return _row_query("unowned"), values
    if who.tenant is None:
        return _row_query("owner"), values | {"owner": who.id}
    return _row_query("tenant"), values | {"owner": who.id, "tenant": who.tenant}


@cache
def _row_query(which: Literal["all", "unowned", "owner", "tenant"]) -> RowQuery:
    statement = select(*_ROW).where(_t.id == bindparam("resource_id"))
    if which == "all":
        return RowQuery(statement)
    is_visible: ColumnElement[bool] = _t.owner.is_(None)
    if which != "unowned":
        tenant: BindParameter[str] | None = None if which == "owner" else bindparam("tenant")
        is_visible = or_(is_visible, _is_bound_to(bindparam("owner"), tenant))
    is_alive = or_(_t.expires_at.is_(None), _t.expires_at >= bindparam("since"))
    return RowQuery(statement.where(is_visible, is_alive))


def _lives_for(principal: Principal, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return _is_bound_to(principal.id, principal.tenant), or_(
        _t.expires_at.is_(None), _t.expires_at > _instant(now)
    )


def _is_bound_to(
    owner: BindParameter[str] | str, tenant: BindParameter[str] | str | None
) -> ColumnElement[bool]:
    """Whether the row is bound to the principal with this id and tenant."""
    return and_(_t.owner == owner, _t.tenant.is_(None) if tenant is None else _t.tenant == tenant)


def _sorted(ids: ColumnElement[str]) -> ColumnElement[str]:
    """The order of ids. By the plain column, SQLite would scan the whole table by its primary key to avoid a sort."""
    return ids.concat("")


def _later(column: ColumnElement[datetime], instant: ColumnElement[datetime]) -> ColumnElement[datetime]:
    return case((or_(column.is_(None), column < instant), instant), else_=column)


_ADDED_ACCESSES = (
    update(resources)
    .where(_t.id == bindparam("added_id"))
    .values(
        access_count=_t.access_count + bindparam("number"),
        last_accessed_at=_later(_t.last_accessed_at, bindparam("last", type_=UTCTimestamp)),
    )
)


def _instant(value: datetime) -> ColumnElement[datetime]:
    """A bound instant with its type. In CASE, a datetime without the type would lose its time zone."""
    return literal(value, UTCTimestamp())


def _delete(ids: Sequence[str], expired_before: datetime | None) -> Delete:
    conditions: list[ColumnElement[bool]] = [_t.id.in_(ids)]
    if expired_before is not None:
        conditions.append(_t.expires_at <= expired_before)
    # The rows are first locked in the order of their ids: otherwise two sweepers with the same ids could deadlock. The
    # DELETE repeats the condition, because a row may be pinned during the wait for the lock. SQLite has a single writer
    # and no FOR UPDATE.
    locked_ids = select(_t.id).where(*conditions).order_by(_t.id).with_for_update()
    return delete(resources).where(_t.id.in_(locked_ids), *conditions)
