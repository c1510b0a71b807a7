"""Count a result as it was asked for; the rule: whoever does not insist on a number is never kept waiting for one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Executable

from dualsql import plan
from dualsql.errors import (
    CountExecutionError,
    DatabaseBusyError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.execute.estimate import fetch_estimate
from dualsql.execute.rows import fetch_rows
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing
from dualsql.plan import Shape
from dualsql.settings import Settings
from dualsql.totals import UNCOUNTED, CountAsked, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """Counts the rows of one statement.

    Attributes:
        may_estimate: the planner's statistics hold nothing that the asker may not know.
    """

    source: Source
    shape: Shape
    narrowing: Narrowing
    settings: Settings
    may_estimate: bool

    async def total(self, asked: CountAsked) -> Total:
        """The number of rows, and its worth.

        Raises:
            CountExecutionError: the database refused the count.
            QueryTimeoutError, DatabaseBusyError: an exact or a capped count took too long, or had no connection.
        """
        if asked.way == "none":
            return UNCOUNTED
        if asked.way == "estimated":
            return await self._estimated()
        if asked.way == "auto":
            return await self._within_budget()
        cap = asked.cap if asked.way == "capped" else None
        return await self._counted(cap, self.settings.query_timeout)

    async def _within_budget(self) -> Total:
        with suppress(QueryTimeoutError, DatabaseBusyError):
            return await self._counted(None, self.settings.count_budget)
        expected = await self._planned()
        # So few would have been counted in time: the planner is wrong, or the database was busy for a moment.
        is_likely = expected.rows is not None and expected.rows > self.settings.count_cap
        return expected if is_likely else await self._capped() or expected

    async def _estimated(self) -> Total:
        """What the planner expects; where that is not to be known, whether there are more than so many rows."""
        expected = await self._planned()
        return expected if expected.rows is not None else await self._capped() or expected

    async def _capped(self) -> Total | None:
        with suppress(QueryTimeoutError, DatabaseBusyError):
            return await self._counted(self.settings.count_cap, self.settings.count_budget)
        return None

    async def _planned(self) -> Total:
        if not self.may_estimate:
            return UNCOUNTED
        rows, limit = None, self.shape.limit
        explained, timeout = plan.uncounted(self.shape), self.settings.count_budget
        # It was not asked to run: what it refuses here says nothing of the rows.
        with suppress(QueryTimeoutError, DatabaseBusyError, QueryExecutionError):
            rows = await fetch_estimate(self.source, explained, self.narrowing, timeout=timeout)
        if rows is None:
            return UNCOUNTED
        # Not every planner looks at LIMIT.
        return Total(rows if limit is None else min(rows, limit), "estimated")

    async def _counted(self, cap: int | None, timeout: timedelta) -> Total:
        counted = await self._number(plan.count(self.shape, cap=cap), timeout)
        return Total(cap, "capped") if cap is not None and counted > cap else Total(counted, "exact")

    async def _number(self, count: Executable, timeout: timedelta) -> int:
        rows = await fetch_rows(
            self.source, count, self.narrowing, described=("",), timeout=timeout, failure=CountExecutionError
        )
        return int(rows[0][0])
