"""Every form that a reader may ask a statement for is compiled before it is stored.

What streams pages, too, and can be asked: a form that SQLAlchemy cannot write is a refusal at creation, where the
developer reads it, and never an error of a reader. Nothing is sent to the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import util

from dualsql import plan
from dualsql.asking import answering, read_question
from dualsql.errors import NotFreezableError
from dualsql.freeze.verify import UNCOMPILABLE
from dualsql.plan import Place
from dualsql.reading.view import View

_MOST_KEPT = 500
"""Statements of a tool differ in their values alone, and are one to SQLAlchemy's cache."""

_MOST_ASKED = 16
"""Columns that are asked for at once, by which rows are put in order too."""


class Rehearsals:
    """Compiles forms of statements, once for all that differ in bound values alone."""

    def __init__(self) -> None:
        self._known: Any = util.LRUCache(_MOST_KEPT)

    def require(self, view: View) -> None:
        """Compile all forms of the view's statement under its rules.

        Raises:
            NotFreezableError: one of them cannot be written.
            NoTotalOrderError: its rows cannot be cut into pages.
        """
        found = view.shape.select._generate_cache_key()
        window = (view.shape.limit is None, view.shape.offset > 0)
        key = None if found is None else (view.source.name, view.narrowing.form, window, found.key)
        if key is not None and key in self._known:
            return
        dialect = view.narrowing.dialect(view.source.engine.dialect)
        names = sorted(view.narrowing.values)
        try:
            for _, select in forms(view):
                # Kept where pages are looked up: the first one needs no compiler any more.
                select._compile_w_cache(
                    dialect=dialect,
                    compiled_cache=view.source.compiled,
                    column_keys=names,
                    schema_translate_map=None,
                )
        except UNCOMPILABLE as error:
            raise NotFreezableError(
                f"The statement can be run, but not be cut into pages or asked ({type(error).__name__}).",
                hint="Put it into a subquery, and name its columns: inner = statement.subquery(); select(inner).",
            ) from error
        if key is not None:
            self._known[key] = True


def forms(view: View) -> Iterator[tuple[str, Any]]:
    """What readers ask a statement for, by name: pages by offset and by cursor, rows and groups of a question."""
    rows = view.ordered()
    yield "page", plan.keyed_page(rows, offset=0, limit=1).select
    if not rows.order.obstacle:
        # Any value will do: it is bound.
        place = Place(values=("",) * len(rows.order.keys))
        yield "page after a row", plan.page_beside(rows, place, limit=1).select
        yield "page before a row", plan.page_beside(rows, place.reversed(), limit=1).select
    names = [column.name for column in view.columns[:_MOST_ASKED]]
    missing = [{"column": name, "op": "is_null"} for name in names]
    sorted_by = [column.name for column in view.columns[:_MOST_ASKED] if column.meaning.keeps_order]
    for name, question in {
        "rows": {"filters": [{"or": missing}], "order_by": sorted_by},
        "groups": {"filters": [{"or": missing}], "aggregates": ["count"]},
    }.items():
        yield (
            name,
            answering(
                read_question(question),
                view.shape,
                view.source.capabilities,
                view.source.engine.dialect.name,
            ),
        )
