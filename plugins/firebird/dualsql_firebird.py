"""Firebird for dualsql, by firebird-driver, in threads. URLs: firebird://user:word@host//srv/data/sales.fdb?charset=UTF8

A sequence moves in a read-only transaction, too: `gen_id()` and NEXT VALUE FOR are no functions of SQL texts, and the
user should have no USAGE on sequences and no EXECUTE on procedures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from firebird.driver import DatabaseError, Isolation, TraAccessMode, tpb
from firebird.driver.types import CancelType
from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import ConfigurationError
from dualsql.databases.backends import Backend
from dualsql.databases.driver import driver_of
from dualsql.databases.guard import FailureKind, Refusal, SessionTerms, repeat_until_done
from dualsql.databases.other import OtherGuard, capabilities

_READING = tpb(Isolation.SNAPSHOT, lock_timeout=0, access_mode=TraAccessMode.READ)

# https://github.com/FirebirdSQL/firebird/blob/v3.0-release/src/include/gen/iberror.h
_FAILURES = {
    335544361: FailureKind.WRITE,  # read_only_trans
    335544794: FailureKind.TIMEOUT,  # cancelled
    335544336: FailureKind.BUSY,  # deadlock
    335544345: FailureKind.BUSY,  # lock_conflict
    335544741: FailureKind.BROKEN,  # att_shutdown: lost connection
    335544856: FailureKind.BROKEN,  # connection shutdown
    335544726: FailureKind.BROKEN,  # net_read_err
    335544727: FailureKind.BROKEN,  # net_write_err
    335544721: FailureKind.UNREACHABLE,  # network_error
    335544778: FailureKind.DIVISION,  # exception_integer_divide_by_zero
    335544772: FailureKind.DIVISION,  # exception_float_divide_by_zero
    335544779: FailureKind.OVERFLOW,  # exception_integer_overflow
    335544321: FailureKind.OVERFLOW,  # arith_except: it follows either, or says that a number does not fit
    335544334: FailureKind.VALUE,  # convert_error
    335544652: FailureKind.SEVERAL_ROWS,  # sing_select_err
}
_REFUSALS = {335544472: Refusal.USER, 335544344: Refusal.DATABASE, 335544721: Refusal.HOST}


class FirebirdGuard(OtherGuard):
    """For firebird-driver. Firebird 3 has no time limit of its own: `stop` ends a statement that runs too long."""

    failures, refusals = _FAILURES, _REFUSALS

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`. The transaction that the first statement begins is read-only."""
        transaction = driver_of(connection).main_transaction
        own = transaction.default_tpb
        transaction.default_tpb = _READING
        try:
            yield
        finally:
            transaction.default_tpb = own

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`."""
        driver = driver_of(connection)

        def cancel() -> None:
            with suppress(DatabaseError):  # it does nothing at this moment
                driver._att.cancel_operation(CancelType.RAISE)

        await repeat_until_done(working, lambda: asyncio.to_thread(cancel))

    def codes_of(self, error: BaseException | None) -> Iterable[int]:
        """See `Guard.codes_of`."""
        return (isinstance(error, DatabaseError) and error.gds_codes) or ()


def _require_utf8(url: URL) -> None:
    if url.query.get("charset") != "UTF8":
        raise ConfigurationError(
            "Without charset=UTF8, Firebird converts texts to another character set.",
            hint="firebird://user:word@host//srv/data/sales.fdb?charset=UTF8",
        )


def _equal(column: str, value: str, _: Any) -> str:
    # Firebird pads the shorter one with blanks.
    return f"({column} = {value} AND char_length({column}) = char_length({value}))"


BACKEND = Backend(
    capabilities=replace(
        capabilities("firebird"),
        name="Firebird",
        nulls_last=True,
        nulls_last_by_default=(False, True),
        splits_statements=False,
        text_equality=_equal,
    ),
    guard=FirebirdGuard(),
    package="dualsql-firebird",
    require_url=_require_utf8,
)
