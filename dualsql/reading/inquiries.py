"""Questions about stored results, answered by their databases; the rule: whoever asks sees what the result shows them.

A question becomes a Select over the resource's own, thawed and narrowed as for its pages. Pages and streams of an
answer are those of any Select: the same order, cursors, limits, cache and audit. Neither rights nor expiry are
checked here: `Gate.open` gives a resource that may be read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import NoReturn

from dualsql.asking import Inquiry, Question, answering
from dualsql.errors import (
    ConfigurationError,
    LimitExceededError,
    blaming,
)
from dualsql.formats.writer import Chunk
from dualsql.parameters import checked_window
from dualsql.reading.caching import Derived
from dualsql.reading.pages import ResultPage
from dualsql.reading.reader import Reader, Subject
from dualsql.reading.streams import ResultStream, StreamRequest, checked_stream
from dualsql.reading.turning import PageAsked
from dualsql.reading.view import View
from dualsql.resource import Principal, Resource
from dualsql.settings import Settings
from dualsql.statement import AnySelect
from dualsql.totals import UNCOUNTED, CountAsked

_MOST_KEPT = 50
"""Questions whose statements are kept: the next page of an answer needs none made."""


class Inquiries:
    """Answers what is asked of the resources of one server."""

    def __init__(self, reader: Reader, settings: Settings) -> None:
        self._reader = reader
        self._settings = settings
        self._kept: OrderedDict[tuple[str, bytes, str], Derived] = OrderedDict()

    async def page(
        self,
        resource: Resource,
        inquiry: Inquiry,
        *,
        principal: Principal | None = None,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        integer_strings: bool = False,
    ) -> ResultPage:
        """At most `limit` rows of the answer from `offset` on; the arguments are those of `fetch_page`.

        Raises:
            UnknownColumnError, BadParameterError: a column is not in the result, or cannot be asked that.
            BadCursorError: the cursor is not of this question.
            LimitExceededError: there are more groups than `Settings.maximum_groups`.
            InvalidSQLError, ForbiddenSQLError, UnknownTableError: see `dualsql.sql`.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database refused, or took too long.
        """
        size = checked_window(offset, limit, (), self._settings, cursor=cursor)
        view = self._view(resource, inquiry, principal)
        asked = PageAsked(offset=offset, limit=size, cursor=cursor)
        with blaming(inquiry.asked):
            page = await self._reader.page_of(
                view,
                asked,
                resource,
                principal,
                integer_strings=integer_strings,
                subject=_subject(resource, inquiry),
            )
        if page.has_next and isinstance(inquiry, Question) and inquiry.is_grouped:
            return await self._with_groups_counted(page, view)
        return page

    def stream(
        self,
        resource: Resource,
        inquiry: Inquiry,
        request: StreamRequest,
        *,
        principal: Principal | None = None,
    ) -> ResultStream:
        """The whole answer as bytes of the format that `request` names; see `stream_rows`."""
        checked_stream(request, self._settings)
        view = self._view(resource, inquiry, principal)
        subject = _subject(resource, inquiry)
        found = self._reader.stream_of(view, request, resource, principal, subject=subject)
        return replace(found, chunks=_blamed(found.chunks, inquiry))

    def statement(self, resource: Resource, inquiry: Inquiry, principal: Principal | None) -> AnySelect:
        """The answer as a Select of its own, which reads the result's tables and not the result.

        Raises:
            ConfigurationError: plain functions narrow the statements of this server; they know those of its tools.
        """
        view = self._reader.view_of(resource, principal)
        if self._reader.has_functions:
            _refuse_functions()
        return self._answer(inquiry, view)

    def _view(self, resource: Resource, inquiry: Inquiry, principal: Principal | None) -> View:
        view = self._reader.view_of(resource, principal)
        if self._reader.has_functions:
            # The statement is another one for each principal, and kept for none.
            return replace(view, derived=Derived(self._answer(inquiry, view), view.source.meanings))
        key = (view.source.name, resource.document, inquiry.digest)
        if key not in self._kept:
            self._kept[key] = Derived(self._answer(inquiry, view), view.source.meanings)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return replace(view, derived=self._kept[key])

    def _answer(self, inquiry: Inquiry, view: View) -> AnySelect:
        source, is_fenced = view.source, self._reader.hides_rows
        return answering(
            inquiry, view.shape, source.capabilities, source.engine.dialect.name, is_fenced=is_fenced
        )

    async def _with_groups_counted(self, page: ResultPage, view: View) -> ResultPage:
        """The page with a total: how many groups there are is bounded where they are more than a page shows."""
        most = self._settings.maximum_groups
        total = await view.total(CountAsked("capped", most))
        if total.kind == "capped":
            raise LimitExceededError(
                f"There are more than {most} groups.",
                hint="Group by fewer columns, cut dates to a bucket, or filter the rows.",
                details={"maximum_groups": most},
            )
        return replace(page, total_count=total.rows, total_count_kind=total.kind)


async def _blamed(chunks: AsyncGenerator[Chunk, None], inquiry: Inquiry) -> AsyncGenerator[Chunk, None]:
    with blaming(inquiry.asked):
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk


def _subject(resource: Resource, inquiry: Inquiry) -> Subject:
    return Subject(f"{resource.id}?{inquiry.digest}", UNCOUNTED)


def _refuse_functions() -> NoReturn:
    raise ConfigurationError(
        "Results cannot be refined where plain functions narrow statements.",
        hint="Narrow with rules such as TenantFilter, or ask the result itself.",
    )
