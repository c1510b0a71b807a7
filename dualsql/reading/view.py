"""A stored statement as one principal sees it; the rule: whatever is derived from it runs under the same narrowing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dualsql import plan
from dualsql.columns import ResultColumn
from dualsql.execute import (
    Counter,
    Job,
    Rows,
    Sample,
    Source,
    fetch_page,
    fetch_rows,
    fetch_sample,
    stream_rows,
)
from dualsql.formats.writer import Chunk, Writer
from dualsql.narrowing import HookContext, Narrowing, Policy
from dualsql.plan import KeyedSelect, Ordered, Shape
from dualsql.reading.caching import Derived, Plans
from dualsql.reading.results import Results, question_of
from dualsql.resource import Principal
from dualsql.settings import Settings
from dualsql.statement import AnySelect
from dualsql.totals import CountAsked, Total
from dualsql_client.wire import SortKey


@dataclass(frozen=True, slots=True)
class View:
    """One statement, in its one shape, on its source."""

    source: Source
    derived: Derived
    narrowing: Narrowing
    settings: Settings
    may_estimate: bool
    results: Results | None

    @property
    def shape(self) -> Shape:
        """The statement as a plain Select."""
        return self.derived.shape

    @property
    def columns(self) -> Sequence[ResultColumn]:
        """The result's columns, in order."""
        return self.shape.columns

    async def turn(self, page: KeyedSelect) -> tuple[Rows, bool]:
        """The rows of a page of this statement, and whether they were kept from an earlier reading."""
        select = page.select
        question = None if self.results is None else question_of(select, self.narrowing, self.source)
        if self.results is None or question is None:
            return await self.fetch(select, added=page.added), False
        kept = self.results.get(question)
        if kept is not None:
            return kept, True
        rows = await self.fetch(select, added=page.added)
        self.results.keep(question, rows)
        return rows, False

    async def fetch(self, select: AnySelect, *, added: int = 0) -> Rows:
        """The rows of a part of this statement, as they are now, with as many columns more as are `added`."""
        return await fetch_page(
            self.source,
            select,
            self.narrowing,
            described=(*self.derived.names, *("",) * added),
            timeout=self.settings.query_timeout,
        )

    async def answer(self, select: AnySelect, *, timeout: timedelta) -> Rows:
        """The rows of a question about this statement, which may read all of it."""
        described = ("",) * len(select.selected_columns)
        return await fetch_rows(self.source, select, self.narrowing, described=described, timeout=timeout)

    async def sample(self, size: int, asked: CountAsked) -> Sample:
        """The first rows, and how many there are in all."""
        return await self.sampled(self._page(0, size + 1), size, asked)

    async def sampled(self, select: AnySelect, size: int, asked: CountAsked) -> Sample:
        """The rows of `select`, but for the last of `size + 1`, and how many the statement has in all."""
        return await fetch_sample(
            select,
            self._counter(),
            asked,
            size=size,
            head_start=self.settings.count_head_start,
        )

    async def total(self, asked: CountAsked) -> Total:
        """How many rows there are, counted as it was asked for."""
        return await self._counter().total(asked)

    def _counter(self) -> Counter:
        return Counter(
            source=self.source,
            shape=self.shape,
            narrowing=self.narrowing,
            settings=self.settings,
            may_estimate=self.may_estimate,
        )

    def stream(
        self, writer: Writer, columns: Sequence[ResultColumn], select: AnySelect
    ) -> AsyncGenerator[Chunk, None]:
        """What `writer` makes of these columns of the rows of a part of this statement, piece by piece."""
        return stream_rows(
            Job(
                source=self.source,
                statement=select,
                narrowing=self.narrowing,
                columns=self.columns,
                places=None if columns is self.columns else [self.columns.index(c) for c in columns],
                writer=writer,
            )
        )

    def ordered(self, sort: Sequence[SortKey] = ()) -> Ordered:
        """The statement in the order asked for."""
        return self.derived.ordered(self.source.capabilities, self.narrowing.form, sort)

    def _page(self, offset: int, limit: int | None, sort: Sequence[SortKey] = ()) -> AnySelect:
        return plan.page(self.ordered(sort), offset=offset, limit=limit)


def open_view(
    source: Source,
    document: bytes,
    principal: Principal | None,
    *,
    policy: Policy,
    plans: Plans,
    results: Results | None,
    settings: Settings,
) -> View:
    """The document's statement, narrowed to whoever asks now.

    Raises:
        TamperedError, NotFreezableError: see `freeze.thaw`.
        ForbiddenError: the rules have nothing to go by for this principal.
        NoTotalOrderError: the narrowed statement cannot be paged.
    """
    narrowing = policy.narrowing(principal)
    if policy.has_functions:
        # They make another statement for each principal, and are given none that somebody else is given too.
        context = HookContext(principal=principal, source=source.name)
        derived = Derived(policy.narrow(source.thaw(document), context), source.meanings)
    else:
        derived = plans.derived(source.name, document, source.thaw, source.meanings)
    may_estimate = policy.shows_all or settings.estimate_narrowed
    return View(source, derived, narrowing, settings, may_estimate, results)
