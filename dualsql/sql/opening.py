"""Opens the Selects of large SQL texts in a worker thread, so that the event loop serves others meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice

from sqlalchemy.sql import visitors

from dualsql.databases.source import Source
from dualsql.databases.text_threads import compute_in_thread
from dualsql.freeze.document import Statement
from dualsql.results.create import CreateOptions, Creator, frozen, page_forms
from dualsql.results.view import View, Views

_MOST_ELEMENTS = 100
_MOST_COLUMNS = 10
"""18 columns take 47 ms on DuckDB where every one is sorted and filtered by as a check."""


def text_opener(
    creator: Creator, views: Views
) -> Callable[[Source, CreateOptions], Awaitable[tuple[bytes, View] | None]]:
    """The function that freezes, thaws and compiles a large text in a worker thread; see `Creator.open_text`."""

    async def open_text(source: Source, options: CreateOptions) -> tuple[bytes, View] | None:
        if not _is_large(options.statement):
            return None
        document = await compute_in_thread(source.limits, partial(frozen, source, options))

        def compiled_view() -> View:
            view = views.open_anew(source, document, options.principal)
            creator.require_compilable(view)
            for select in (*page_forms(view), view.derived.counting()):
                view.compile(select)
            return view

        view = await compute_in_thread(source.limits, compiled_view)
        views.keep(view, document)
        return document, view

    return open_text


def _is_large(statement: Statement) -> bool:
    """Whether to freeze and to compile a caller's text takes more than a few milliseconds."""
    if len(statement.selected_columns) > _MOST_COLUMNS:
        return True
    elements = islice(visitors.iterate(statement), _MOST_ELEMENTS)
    return sum(1 for _ in elements) == _MOST_ELEMENTS
