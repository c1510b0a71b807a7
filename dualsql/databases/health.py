"""Whether a database can be reached, for readiness checks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import QueuePool

from dualsql.databases.engines import most_connections
from dualsql.databases.proof import prove
from dualsql.databases.session import in_session
from dualsql.databases.slots import QueryLimits
from dualsql.databases.source import Source
from dualsql.errors import ConfigurationError, DatabaseBusyError, DualResponseError, QueryTimeoutError
from dualsql.log import Outage, log_failure
from dualsql.settings import Settings

logger = logging.getLogger(__name__)


class SourceHealth:
    """Whether a source can be reached, for readiness checks.

    After an outage the source is proved anew: another server may have taken its place. A failed proof is final.
    """

    def __init__(
        self, source: Source, secured: Sequence[Any], settings: Settings, timeout: timedelta
    ) -> None:
        self._source = source
        self._secured = secured
        # Checks do not wait for a slot: many queries are no reason to call the database unreachable.
        limits = QueryLimits(replace(settings, queue_timeout=timeout, query_timeout=timeout))
        self._unhindered = replace(source, limits=limits)
        self._outage = Outage(f"The health check of the database {source.name!r}")
        self._must_be_proved = False
        self._is_refused = False

    async def state(self) -> str:
        """ "ok", "busy" if all its connections are in use, or what is wrong, in fixed words."""
        if self._is_refused:
            return "not read-only"
        if self._is_full():
            return "busy"
        must_be_proved, self._must_be_proved = self._must_be_proved, True  # until it has answered
        try:
            await self._ask(must_be_proved=must_be_proved)
        except ConfigurationError as error:
            self._is_refused = True
            log_failure(logger, error, "a health check")
            return "not read-only"
        except DualResponseError as error:
            if type(error) is DatabaseBusyError and self._is_full():
                return "busy"  # since it was asked
            self._outage.failed(error)
            return _STATES.get(type(error), "unreachable")
        self._must_be_proved = False
        self._outage.succeeded()
        return "ok"

    async def _ask(self, *, must_be_proved: bool) -> None:
        source = self._unhindered
        if must_be_proved:
            await prove(source, self._secured)
            self._source.capabilities = source.capabilities
        await in_session(source, None, partial(_look, source))

    def _is_full(self) -> bool:
        """Whether no connection is free, as far as is known without waiting for one."""
        if self._source.lock is not None:
            return self._source.lock.locked()
        pool = self._source.engine.pool
        if not isinstance(pool, QueuePool) or pool._max_overflow < 0:
            return False
        return pool.checkedout() >= most_connections(pool)


_STATES: Mapping[type[DualResponseError], str] = {
    QueryTimeoutError: "no answer in time",
    DatabaseBusyError: "no connection",
}


async def _look(source: Source, connection: AsyncConnection) -> None:
    await connection.run_sync(source.guard.look)
