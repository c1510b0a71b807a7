"""PostgreSQL: READ ONLY transactions with statement_timeout."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any

from sqlalchemy import Connection, Engine, event, func, literal_column, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.exact import Unfit
from dualsql.databases.driver import USED, driver_of, memory_of, must_use_sqlalchemy, synchronous
from dualsql.databases.guard import FailureKind, Guard, Refusal, SessionTerms, repeat_until_done, run_or_close
from dualsql.databases.postgresql.values import load_exactly, loading_exactly, reading_documents
from dualsql.errors import ConfigurationError

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_FAULTS = {
    "25006": FailureKind.WRITE,  # read_only_sql_transaction
    "57014": FailureKind.TIMEOUT,  # query_canceled
    "25P04": FailureKind.TIMEOUT,  # transaction_timeout
    "40001": FailureKind.BUSY,  # serialization_failure: also a standby's conflict with recovery
    "40P01": FailureKind.BUSY,  # deadlock_detected
    "55P03": FailureKind.BUSY,  # lock_not_available
    "53300": FailureKind.BUSY,  # too_many_connections
    "53100": FailureKind.FULL,  # disk_full
    "53200": FailureKind.FULL,  # out_of_memory
    "53400": FailureKind.FULL,  # configuration_limit_exceeded: temp_file_limit
    "57P01": FailureKind.BROKEN,  # admin_shutdown
    "57P02": FailureKind.BROKEN,  # crash_shutdown
    "57P03": FailureKind.UNREACHABLE,  # cannot_connect_now
    "57P04": FailureKind.BROKEN,  # database_dropped: also a standby's conflict with a dropped database
    "22003": FailureKind.OVERFLOW,  # numeric_value_out_of_range
    "42803": FailureKind.GROUPING,  # grouping_error
    "42P20": FailureKind.WINDOW,  # windowing_error
    "42P10": FailureKind.SORTING,  # invalid_column_reference
    "22012": FailureKind.DIVISION,  # division_by_zero
    "21000": FailureKind.SEVERAL_ROWS,  # cardinality_violation
    **dict.fromkeys(
        (
            "22011",  # substring_error
            "22014",  # invalid_argument_for_ntile_function
            "22016",  # invalid_argument_for_nth_value_function
            "2201E",  # invalid_argument_for_logarithm
            "2201F",  # invalid_argument_for_power_function
            "2201G",  # invalid_argument_for_width_bucket_function
        ),
        FailureKind.ARGUMENT,
    ),
    "2201B": FailureKind.PATTERN,  # invalid_regular_expression
    "22025": FailureKind.PATTERN,  # invalid_escape_sequence
    "08000": FailureKind.BROKEN,  # connection_exception
    "08003": FailureKind.BROKEN,  # connection_does_not_exist
    # A server has these of another one, which it asks through postgres_fdw.
    "08001": FailureKind.PART,  # sqlclient_unable_to_establish_sqlconnection
    "08006": FailureKind.PART,  # connection_failure
    **dict.fromkeys(
        (
            "22000",  # asyncpg's own for a parameter that is not of the type that PostgreSQL expects
            "22007",  # invalid_datetime_format
            "22008",  # datetime_field_overflow
            "22P02",  # invalid_text_representation
        ),
        FailureKind.VALUE,
    ),
    **dict.fromkeys(
        (
            "42725",  # ambiguous_function
            "42804",  # datatype_mismatch
            "42809",  # wrong_object_type
            "42846",  # cannot_coerce
            "42883",  # undefined_function: also an operator, and an order or an equality that a type lacks
            "42P08",  # ambiguous_parameter
            "42P18",  # indeterminate_datatype
            "42P21",  # collation_mismatch
            "42P22",  # indeterminate_collation
            "42P38",  # indeterminate_datatype, as PostgreSQL 14 and later have it
        ),
        FailureKind.UNSUITED,
    ),
}


# During statements that run longer than this, the backend checks its client regularly: otherwise it notices a dead
# client only when it has rows to send. Not set where it is not supported (before 14, or not on Linux).
# No percent sign: to psycopg it begins a parameter.
_LONG = 60_000
_NOTICE_THE_DEAD = """CASE WHEN current_setting('client_connection_check_interval', true) IS NOT NULL
AND position('linux' IN version()) > 0 THEN set_config('client_connection_check_interval', '1s', true) END"""


_REFUSALS = {
    "28": Refusal.USER,  # class 28: invalid authorization specification
    "42501": Refusal.RIGHT,  # insufficient_privilege
    "3D": Refusal.DATABASE,  # class 3D: invalid catalog name
    "42704": Refusal.ROLE,  # undefined_object
    "26000": Refusal.POOLER,  # invalid_sql_statement_name
    "42P05": Refusal.POOLER,  # duplicate_prepared_statement
}
"""By SQLSTATE, or its class."""

_OPERATIONS = {
    re.compile(r"\bfunction (\w+\([^()]{0,200}\)) (?:does not exist|is not unique)"): r"function \1",
    re.compile(r"\boperator (?:does not exist|is not unique): ([^\n]{1,100})"): r"operator \1",
}


def _set(connection: Connection, terms: SessionTerms) -> None:
    if not terms.settings:
        connection.exec_driver_sql(_limit(terms))
        return
    settings = (("statement_timeout", str(terms.milliseconds)), *terms.settings)
    outputs: list[Any] = [func.set_config(name, value, true()) for name, value in settings]
    if terms.milliseconds > _LONG:
        outputs.append(literal_column(_NOTICE_THE_DEAD))
    connection.execute(select(*outputs))


def _limit(terms: SessionTerms) -> str:
    if terms.milliseconds <= _LONG:
        return f"SET LOCAL statement_timeout = {terms.milliseconds:d}"
    return f"SELECT set_config('statement_timeout', '{terms.milliseconds:d}', true), {_NOTICE_THE_DEAD}"


def adapted_of(connection: AsyncConnection) -> Any:
    """The driver's connection as SQLAlchemy adapts it, with the methods of PEP 249."""
    return synchronous(connection).connection.dbapi_connection


@cache
def has_pipeline(connections: type) -> bool:
    """Whether connections of a class are psycopg's, used asynchronously, with a libpq that has pipelines (14 on)."""
    if not (hasattr(connections, "pipeline") and iscoroutinefunction(getattr(connections, "execute", None))):
        return False
    import psycopg

    return psycopg.AsyncPipeline.is_supported()


@contextmanager
def noticing_loss(driver: Any) -> Iterator[None]:
    """Raises ConnectionError if the connection was lost: psycopg's own error has no code."""
    try:
        yield
    except Exception as error:
        if getattr(driver, "closed", False) and getattr(error, "sqlstate", None) is None:
            raise ConnectionError("The database closed the connection.") from error
        raise


def _begins_by_driver(connection: AsyncConnection, driver: Any) -> bool:
    """Whether the driver's own connection begins the session: no option and no listener of the application is lost."""
    sync_connection = synchronous(connection)
    if must_use_sqlalchemy(sync_connection.engine, sync_connection) or internals.logs(sync_connection.engine):
        return False
    if hasattr(driver, "get_server_pid"):  # asyncpg
        return adapted_of(connection).isolation_level is None
    return has_pipeline(driver.__class__) and driver.isolation_level is None and not driver.autocommit


@asynccontextmanager
async def _begun_by_sqlalchemy(connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
    await connection.execution_options(postgresql_readonly=True)
    await connection.run_sync(partial(_set, terms=terms))
    driver = driver_of(connection)
    with loading_exactly(driver, Unfit), reading_documents(driver, connection.dialect):
        yield


@asynccontextmanager
async def _begun_by_driver(
    connection: AsyncConnection, terms: SessionTerms, driver: Any
) -> AsyncIterator[None]:
    is_asyncpg, memory = hasattr(driver, "get_server_pid"), memory_of(connection)
    if driver.is_in_transaction() if is_asyncpg else driver.pgconn.transaction_status:
        if USED in memory:
            raise ConnectionError("A connection came back in a transaction.")  # another is taken
        await connection.invalidate()
        raise ConfigurationError(
            "A connection of the engine is in a transaction before it is used.",
            hint="A listener for `connect` or `checkout` has to end what it begins: dbapi_connection.commit().",
        )
    # psycopg forgets what it has prepared when `rollback` ends the transaction: behind a pooler, a prepared statement
    # may be another one of another process.
    begin, end = driver.execute, driver.execute
    if is_asyncpg:
        adapted_of(connection).autocommit = True  # SQLAlchemy sends no BEGIN and no ROLLBACK,
    else:
        begin, end = partial(_begin_by_psycopg, driver), lambda _: driver.rollback()
    synchronous(connection).begin()  # and takes no other connection if this one is lost
    with noticing_loss(driver):
        await run_or_close(connection, f"BEGIN READ ONLY; {_limit(terms)}", execute=begin)
    try:
        if terms.settings:
            await connection.run_sync(partial(_set, terms=terms))
        if is_asyncpg or _LOADERS in memory:
            yield
        else:
            with loading_exactly(driver, Unfit), reading_documents(driver, connection.dialect):
                yield
    finally:
        try:
            with suppress(Exception):  # what was read is complete
                await run_or_close(connection, "ROLLBACK", execute=end)
        finally:
            if is_asyncpg:
                with suppress(Exception):
                    adapted_of(connection).autocommit = False


async def _begin_by_psycopg(driver: Any, sql: str) -> None:
    """Send BEGIN and what follows it, before which `execute` would send a BEGIN of its own."""
    from psycopg import errors, generators

    driver.pgconn.send_query(sql.encode())
    for result in await driver.wait(generators.execute(driver.pgconn)):
        if result.error_message:
            raise errors.error_from_result(result)


_LOADERS = "dualsql_loaders"
"""`memory_of` a connection has this key if the connection keeps the loaders of dualsql."""


def _keep_loaders(adapted: Any, record: Any) -> None:
    load_exactly(adapted.adapters, Unfit)
    record.info[_LOADERS] = True


class PostgreSQLGuard(Guard):
    """For asyncpg, psycopg and any other driver.

    All settings end with the transaction, because the connection may belong to the application's engine or to a pooler.
    """

    failures, refusals, missing_operations = _FAULTS, _REFUSALS, _OPERATIONS
    ends_behind = True

    def prepare(self, engine: Engine) -> None:
        """Connections of psycopg keep the loaders of dualsql: anew for each session, they took 9 % of a creation."""
        if engine.dialect.driver.startswith("psycopg"):
            event.listen(engine, "connect", _keep_loaders)

    def read_only(
        self, connection: AsyncConnection, terms: SessionTerms
    ) -> AbstractAsyncContextManager[None]:
        """See `Guard.read_only`. To begin takes asyncpg and psycopg one round trip, other drivers two."""
        driver = driver_of(connection)
        if _begins_by_driver(connection, driver):
            return _begun_by_driver(connection, terms, driver)
        return _begun_by_sqlalchemy(connection, terms)

    async def renew_limit(self, connection: AsyncConnection, terms: SessionTerms, *, is_new: bool) -> None:
        if is_new:
            driver = driver_of(connection)
            # A session that asyncpg has begun is in AUTOCOMMIT to SQLAlchemy, which would prepare the statement.
            is_begun = hasattr(driver, "get_server_pid") and adapted_of(connection).autocommit
            is_of_driver = is_begun or _begins_by_driver(connection, driver)
            await (driver.execute if is_of_driver else connection.exec_driver_sql)(_limit(terms))

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`. A driver that cancels by itself closes its connection, and may do so too early."""
        driver = driver_of(connection)
        attempt: Callable[[], Any]
        if hasattr(driver, "get_server_pid"):  # asyncpg
            attempt = partial(_cancel, driver)
        elif hasattr(driver, "cancel_safe"):  # psycopg: all threads wait until its `cancel` is answered
            cancel = partial(driver.cancel_safe, timeout=_CANCEL_SECONDS)
            attempt = cancel if connection.dialect.is_async else partial(asyncio.to_thread, cancel)
        else:
            attempt = partial(asyncio.to_thread, driver.cancel)
        await repeat_until_done(working, attempt)

    @contextmanager
    def limited_bytes(self, connection: AsyncConnection, most: int) -> Iterator[None]:
        """See `Guard.limited_bytes`. Beyond the limit, the connection is closed, which also ends the statement."""
        meter = _meter_of(driver_of(connection))
        if meter is None:
            yield
            return
        meter.left = most
        try:
            yield
        except Exception as error:
            if meter.left >= 0:
                raise
            from dualsql.databases.failures import too_large

            raise too_large() from error
        finally:
            meter.left = math.inf

    def codes_of(self, error: BaseException | None) -> Iterable[str]:
        """See `Guard.codes_of`. The SQLSTATE and its class."""
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        is_unusable = type(error).__name__ in _OF_CLIENTS and _UNUSABLE.search(str(error))
        if state is None and (is_unusable or isinstance(error, ConnectionError)):
            state = "08003"
        return () if state is None else (state, state[:2])


async def _cancel(driver: Any) -> None:
    """Send a CancelRequest for asyncpg's connection, to the address that this connection has.

    `SELECT pg_cancel_backend(...)` needs a session of the same server. Another connection of the engine may have one of
    another host, and behind a pooler the driver does not know the server's process.
    """
    from asyncpg import connect_utils  # type: ignore[import-untyped]

    async with asyncio.timeout(_CANCEL_SECONDS):
        await connect_utils._cancel(
            loop=asyncio.get_running_loop(),
            addr=driver._addr,
            params=driver._params,
            backend_pid=driver._protocol.backend_pid,
            backend_secret=driver._protocol.backend_secret,
        )


_CANCEL_SECONDS = 2.0

_OF_CLIENTS = frozenset({"InterfaceError", "InternalClientError"})
_UNUSABLE = re.compile("closed|manually started transaction|cannot switch to state")
"""asyncpg's and psycopg2's words for a connection that was lost: a standby's conflict with recovery ends so. The others
are asyncpg's, of a connection whose ROLLBACK failed, where SQLAlchemy forgets the transaction and keeps the connection,
and of one that the server has just told that it ends."""


class _ByteMeter(asyncio.Protocol):
    """A wrapper of a driver's protocol that closes the connection if too many bytes arrive.

    A single value can have gigabytes (`repeat('x', 200000000)`), and a driver collects the bytes until a row is
    complete. Only here can it be stopped in time.
    """

    def __init__(self, transport: asyncio.Transport, driver: asyncio.Protocol) -> None:
        self._transport = transport
        self._driver = driver
        self.left = math.inf

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left < 0:
            self._transport.abort()
        else:
            self._driver.data_received(data)

    def eof_received(self) -> bool | None:
        return self._driver.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.connection_lost(exc)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.resume_writing()


def _meter_of(driver: Any) -> _ByteMeter | None:
    """The meter of asyncpg's connection, installed once; None for other drivers."""
    transport = getattr(driver, "_transport", None)
    if not hasattr(driver, "get_server_pid") or transport is None:
        return None
    meter = transport.get_protocol()
    if not isinstance(meter, _ByteMeter):
        meter = _ByteMeter(transport, meter)
        transport.set_protocol(meter)
    return meter
