"""Profiles of stored results, within a time budget. The profile lists the statistics that are missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, get_args

from dualsql.columns.result import chosen_columns
from dualsql.errors import (
    BadParameterError,
    DatabaseBusyError,
    LimitExceededError,
    QueryExecutionError,
    QueryTimeoutError,
    shown,
)
from dualsql.kept.cells import Use
from dualsql.profiles import estimates, findings, statistics
from dualsql.profiles.columns import ProfiledColumn, ProfiledRows, profiled_rows
from dualsql.profiles.findings import ColumnStatistics, ProfileResult
from dualsql.profiles.settings import ProfileSettings
from dualsql.query import StructuredQuery
from dualsql.query.service import QueryService
from dualsql.resource import Principal, Resource
from dualsql.results.access import AccessControl
from dualsql.results.create import Profiler
from dualsql.results.kept_rows import kept_or_live, view_of
from dualsql.results.view import View, Views
from dualsql_client.wire import Profile, ProfileKind, ProfileNotes

Statistics = dict[str, dict[str, Any]]
"""Column name -> name of the statistic -> value."""


def checked_profile(kind: Any, name: str = "kind") -> ProfileKind:
    """Which rows are profiled; `name` is that of the parameter.

    Raises:
        BadParameterError: it is neither "sample" nor "full".
    """
    for valid in get_args(ProfileKind):
        if kind == valid:
            return valid  # type: ignore[no-any-return]
    raise BadParameterError(
        f"{name} must not be {shown(kind, 80)}.", hint='Use "sample" or "full".', details={"name": name}
    )


class ProfileService:
    """Profiles the results of one server."""

    def __init__(
        self, views: Views, access: AccessControl, settings: ProfileSettings, queries: QueryService | None
    ) -> None:
        self._views = views
        self._access = access
        self._settings = settings
        self._queries = queries

    async def profile(
        self,
        resource: Resource,
        *,
        principal: Principal | None = None,
        kind: str = "sample",
        columns: Sequence[str] | None = None,
        query: StructuredQuery | None = None,
        budget: timedelta | None = None,
    ) -> Profile:
        """See `Profiles.profile`; with a query, of its answer. A `budget` can only be shorter than theirs."""
        profile_kind = checked_profile(kind)
        settings = self._settings
        if budget is not None:
            settings = replace(settings, profile_budget=min(budget, settings.profile_budget))
        self._access.admit("ask", principal)
        view, live = await self._view_and_live(resource, principal, profile_kind, columns, query)
        await self._access.note("profile", principal, resource=resource)

        async def fetched(view: View) -> Profile:
            result = await fetch_profile(view, settings, profile_kind, columns)
            return result.to_wire(view.source.engine.dialect)

        profile = await kept_or_live(view, fetched(view), lambda: fetched(live))
        await self._access.note_access(resource)
        return profile

    def profiler(self, kind: str) -> Profiler:
        """The profiler of new results, for the option `profile`; raises BadParameterError for an unknown kind."""
        return partial(self._profile_sample, checked_profile(kind, "profile"))

    async def _profile_sample(
        self, kind: ProfileKind, view: View, sample: Sequence[Sequence[Any]]
    ) -> Mapping[str, Any]:
        """The profile of a new result, and notes on the columns that its sample misrepresents."""
        profile = await fetch_profile(view, self._settings, kind)
        by_name = findings.sample_notes(profile, view.shape.columns, sample)
        notes = ProfileNotes(covers=profile.covers, complete=profile.is_complete, notes=by_name)
        wire_profile = profile.to_wire(view.source.engine.dialect)
        return {
            "profile": wire_profile,
            "profile_notes": notes,
            "profile_text": findings.text_of_notes(notes),
        }

    async def check(
        self,
        resource: Resource,
        *,
        principal: Principal | None = None,
        kind: str = "sample",
        columns: Sequence[str] | None = None,
    ) -> None:
        """Raise what `profile` raises before its first query."""
        profile_kind = checked_profile(kind)
        view, _ = await self._view_and_live(resource, principal, profile_kind, columns)
        _profiling(view, self._settings, profile_kind, columns)

    async def _view_and_live(
        self,
        resource: Resource,
        principal: Principal | None,
        kind: ProfileKind,
        columns: Sequence[str] | None,
        query: StructuredQuery | None = None,
    ) -> tuple[View, View]:
        """The kept rows, where all statistics of these columns are the same as in their database; and that database."""
        rows = view = await view_of(self._views, resource, principal)
        rows_live = live = self._views.live(resource, principal)
        if query is not None:
            assert self._queries is not None  # else there is no route that takes a query
            view, live = await self._queries.views_unchecked(resource, query, principal)
        if rows.kept is None or view is live:
            return live, live
        if query is not None and query.is_grouped:
            return live, live  # its columns are none of the kept ones
        of_kept, of_live = (
            _profiling(one, self._settings, kind, columns).data.profiled for one in (view, live)
        )
        uses: list[tuple[str, Use]] = []
        for one, other in zip(of_kept, of_live, strict=True):
            if list(one.statistic_names) != list(other.statistic_names):
                return live, live
            uses += [(one.name, use) for use in other.uses]
        assert self._views.kept is not None
        return (view if await self._views.kept.can_use(rows, rows_live, uses) else live), live


async def fetch_profile(
    view: View, settings: ProfileSettings, kind: ProfileKind, columns: Sequence[str] | None = None
) -> ProfileResult:
    """The statistics of these columns, of rows that the view's principal may see.

    Args:
        columns: their names. None means the first columns, as many as the settings allow.

    Raises:
        UnknownColumnError: there is no such column.
        QueryExecutionError, DatabaseBusyError: the first statement failed or got no connection.
    """
    return await _profiling(view, settings, kind, columns).run()


def _profiling(
    view: View, settings: ProfileSettings, kind: ProfileKind, columns: Sequence[str] | None
) -> _Profiling:
    requested = chosen_columns(view.shape.columns, columns)
    profiled_columns = requested[: settings.maximum_profile_columns]
    ordered, hides = view.ordered(), view.rules.form.hides
    most = None if kind == "full" else settings.profile_sample
    data = profiled_rows(ordered, profiled_columns, hides, most=most)
    data = replace(data, left_out=len(requested) - len(profiled_columns))
    return _Profiling(view, data, kind, settings.profile_budget)


class _Profiling:
    """Runs the statements of one profile one after the other, until the time budget is used up."""

    def __init__(self, view: View, data: ProfiledRows, kind: ProfileKind, budget: timedelta) -> None:
        self._view = view
        self.data = data
        self._kind = kind
        self._budget = budget.total_seconds()
        self._ends_at = _now() + self._budget

    async def run(self) -> ProfileResult:
        """The statistics that were computed in time."""
        start = _now()
        try:
            (row,) = await self._fetch(statistics.summary_statement(self.data))
        except QueryTimeoutError:
            return self._result(None, {})
        rows, by_column = statistics.read_summary(self.data, row)
        # Choosing rows at random is one scan, as the summary was, and less work: a quarter of its time on SQLite.
        # Other work on the machine may make it slower than the first.
        reserve = max(2 * (_now() - start), self._budget / 10)
        late = await self._count_values(by_column, reserve=min(reserve, (self._ends_at - _now()) / 2))
        if late:
            await self._estimate_values(late, rows, by_column)
        return self._result(rows, by_column)

    async def _count_values(self, by_column: Statistics, *, reserve: float) -> list[ProfiledColumn]:
        """Count the values of each column. Returns those for which the time ran out, but for the `reserve`."""
        late = []
        for column in self.data.profiled:
            statement = statistics.values(self.data, column, by_column[column.name])
            if statement is None:
                continue
            try:
                rows = await self._fetch(statement, reserve)
            except (QueryTimeoutError, DatabaseBusyError):
                late.append(column)  # a shorter statement may still fit into the time
            except QueryExecutionError:
                continue  # this database cannot compare the values of a column without a declared type
            else:
                by_column[column.name] |= statistics.read_values(column, by_column[column.name], rows)
        return late

    async def _estimate_values(
        self, late: Sequence[ProfiledColumn], rows: int, by_column: Statistics
    ) -> None:
        """Estimate what was not counted, if the time is enough for that."""
        most = self._view.settings.maximum_page_bytes
        step = estimates.one_in(rows, late, by_column, most_bytes=most)
        sample = await self._random_rows(late, by_column, step)
        if sample is not None:
            by_name = await asyncio.to_thread(estimates.estimate, late, by_column, rows, sample)
            for name, estimated in by_name.items():
                by_column[name] |= estimated

    async def _random_rows(
        self, columns: Sequence[ProfiledColumn], by_column: Statistics, step: int
    ) -> Sequence[Sequence[Any]] | None:
        """One of `step` rows; None without time or without a way to choose them."""
        while (statement := estimates.random_rows(self.data, columns, by_column, step)) is not None:
            try:
                return await self._fetch(statement)
            except LimitExceededError:  # wide rows: more bytes than an answer may have
                step *= 10
            except (QueryExecutionError, QueryTimeoutError, DatabaseBusyError):
                return None
        return None

    async def _fetch(self, statement: Any, reserve: float = 0.0) -> Sequence[Sequence[Any]]:
        left = timedelta(seconds=self._ends_at - reserve - _now())
        if left <= timedelta():
            raise QueryTimeoutError("The time limit of the profile was reached.")
        return await self._view.answer(statement, timeout=min(left, self._view.settings.query_timeout))

    def _result(self, rows: int | None, by_column: Mapping[str, Mapping[str, Any]]) -> ProfileResult:
        data = self.data
        columns = [ColumnStatistics(each, by_column.get(each.name, {})) for each in data.profiled]
        return ProfileResult(
            kind=self._kind, rows=rows, columns=columns, left_out=data.left_out, most=data.most
        )


def _now() -> float:
    return asyncio.get_running_loop().time()
