"""The profile of a view, within its time budget. Statistics without time are named."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from dualsql.columns.result import ResultColumn, chosen_columns
from dualsql.errors import DatabaseBusyError, QueryExecutionError, QueryTimeoutError
from dualsql.profiles import findings, statistics, subjects
from dualsql.profiles.findings import ProfileResult
from dualsql.profiles.subjects import ProfiledRows
from dualsql.results.view import View
from dualsql_client.wire import ProfileKind


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Which rows and columns are to be looked at; `names` None for as many columns as the settings allow."""

    kind: ProfileKind
    names: Sequence[str] | None = None


async def fetch_profile(view: View, asked: ProfileRequest) -> ProfileResult:
    """The figures of the columns asked for, of rows that the view's principal may see.

    Raises:
        UnknownColumnError: there is no such column.
        QueryExecutionError, DatabaseBusyError: the database refused, or had no time for the first statement.
    """
    wanted = chosen_columns(view.columns, asked.names)
    columns = wanted[: view.settings.maximum_profile_columns]
    data = replace(_data(view, asked.kind, columns), left_out=len(wanted) - len(columns))
    return await _Looking(view, data, asked.kind).look()


def _data(view: View, kind: ProfileKind, columns: Sequence[ResultColumn]) -> ProfiledRows:
    ordered, hides = view.ordered(), view.rules.form.hides
    if kind == "full":
        return subjects.all_rows(ordered, columns, hides)
    return subjects.first_rows(ordered, columns, hides, most=view.settings.profile_sample)


class _Looking:
    """One profile on its way: the statements one after the other, until the budget is used up."""

    def __init__(self, view: View, data: ProfiledRows, kind: ProfileKind) -> None:
        self._view = view
        self._data = data
        self._kind = kind
        self._ends_at = _now() + view.settings.profile_budget.total_seconds()

    async def look(self) -> ProfileResult:
        """The figures that there was time for."""
        try:
            (row,) = await self._fetch(statistics.summary(self._data))
        except QueryTimeoutError:
            return self._found(None, {})
        rows, figures = statistics.read_summary(self._data, row)
        for subject in self._data.subjects:
            statement = statistics.values(self._data, subject, figures[subject.name])
            if statement is None:
                continue
            try:
                found = await self._fetch(statement)
            except (QueryTimeoutError, DatabaseBusyError):
                continue  # a shorter one may still have the time
            except QueryExecutionError:
                continue  # what has no type may be anything: this database tells no two of them apart
            figures[subject.name] |= statistics.read_values(subject, figures[subject.name], found)
        return self._found(rows, figures)

    async def _fetch(self, statement: Any) -> Sequence[Sequence[Any]]:
        left = timedelta(seconds=self._ends_at - _now())
        if left <= timedelta():
            raise QueryTimeoutError("The time for this profile is used up.")
        return await self._view.answer(statement, timeout=min(left, self._view.settings.query_timeout))

    def _found(self, rows: int | None, figures: Mapping[str, Mapping[str, Any]]) -> ProfileResult:
        return findings.profile_result(self._data, self._kind, rows, figures)


def _now() -> float:
    return asyncio.get_running_loop().time()
