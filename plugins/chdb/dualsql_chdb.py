"""chDB for dualsql: the engine of ClickHouse, in the process of the server. URLs: chdb:////folder/of/the/data

One process reads one folder. A text may read files (`FROM file(...)`) and write one (`INTO OUTFILE`) in every session,
so do not set `allow_text`. SQL texts of callers name registered tables alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from secrets import token_hex
from typing import Any

from sqlalchemy import URL, Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import ConfigurationError
from dualsql.databases.backends import Backend
from dualsql.databases.driver import memory_of
from dualsql.databases.guard import FailureKind, Guard, SessionTerms, repeat_until_done
from dualsql.databases.other import capabilities
from dualsql.text_dialects import TextDialect

# https://clickhouse.com/docs/operations/settings/permissions-for-queries: in mode 1 "only read data queries are
# allowed", and no session can leave it. In mode 2 settings can be changed, but `INSERT INTO FUNCTION file(...)` wrote a
# file (chDB 26.9). So no session has a time limit of its own: `stop` ends a statement that runs too long.
_ENTER = "SET log_comment = '{name}', join_use_nulls = 1", "SET readonly = 1"
_ASK = "SELECT getSetting('readonly'), getSetting('log_comment')"
_NAME = "dualsql"

# https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
_FAILURES = {
    164: FailureKind.WRITE,  # READONLY
    159: FailureKind.TIMEOUT,  # TIMEOUT_EXCEEDED
    394: FailureKind.TIMEOUT,  # QUERY_WAS_CANCELLED
    241: FailureKind.FULL,  # MEMORY_LIMIT_EXCEEDED
    153: FailureKind.DIVISION,  # ILLEGAL_DIVISION
    125: FailureKind.SEVERAL_ROWS,  # INCORRECT_RESULT_OF_SCALAR_SUBQUERY
    43: FailureKind.UNSUITED,  # ILLEGAL_TYPE_OF_ARGUMENT
    386: FailureKind.UNSUITED,  # NO_COMMON_TYPE
    6: FailureKind.VALUE,  # CANNOT_PARSE_TEXT
    53: FailureKind.VALUE,  # TYPE_MISMATCH
}
_code = re.compile(r"^Code: (\d+)").findall


class ChDBGuard(Guard):
    """For chdb-sqlalchemy, in threads."""

    failures = _FAILURES

    def prepare(self, engine: Engine) -> None:
        """See `Guard.prepare`. Every connection of the engine is read-only from its first statement on, and named."""

        @event.listens_for(engine, "connect")
        def close_to_writes(connection: Any, _: Any) -> None:
            with closing(connection.cursor()) as cursor:
                for statement in _ENTER:
                    cursor.execute(statement.format(name=f"{_NAME} {token_hex(8)}"))

    @asynccontextmanager
    async def read_only(self, connection: AsyncConnection, terms: SessionTerms) -> AsyncIterator[None]:
        """See `Guard.read_only`."""
        memory = memory_of(connection)
        if _NAME not in memory:
            mode, memory[_NAME] = (await connection.exec_driver_sql(_ASK)).one()
            if int(mode) != 1:
                del memory[_NAME]
                raise ConfigurationError("This engine of chDB can write.", hint="Pass its URL.")
        yield

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """See `Guard.stop`. KILL QUERY needs a connection that is not read-only."""
        statement = f"KILL QUERY WHERE Settings['log_comment'] = '{memory_of(connection)[_NAME]}' ASYNC"
        dialect: Any = connection.dialect
        arguments, options = dialect.create_connect_args(connection.sync_connection.engine.url)

        def kill() -> None:
            connection = dialect.loaded_dbapi.connect(*arguments, **options)
            with closing(connection) as other, closing(other.cursor()) as cursor:
                cursor.execute(statement)

        await repeat_until_done(working, lambda: asyncio.to_thread(kill))

    def codes_of(self, error: BaseException | None) -> Iterable[int]:
        """See `Guard.codes_of`."""
        return map(int, _code(str(error)))


def _require_folder(url: URL) -> None:
    if url.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "chDB needs a folder: its memory has nothing to serve.", hint="chdb:////srv/data"
        )


BACKEND = Backend(
    capabilities=replace(
        capabilities("chdb"),
        name="chDB",
        nulls_last=True,
        nulls_last_by_default=(True, True),
        sorts_conditions=True,
        text_dialect=lambda: TextDialect(parser="clickhouse"),
    ),
    guard=ChDBGuard(),
    package="chdb-sqlalchemy",
    require_url=_require_folder,
)
