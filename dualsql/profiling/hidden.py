"""Whether a column shows what a mask hides; the rule: in doubt it does, and then nothing is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.sql.elements import ColumnClause

Hides = Callable[[Any], bool]
"""Whether a mask stands in the place of a table's column."""


def is_hidden(expression: ColumnElement[Any], hides: Hides) -> bool:
    """Whether the expression is made of a masked column, through whatever subqueries."""
    waiting: list[Any] = [expression]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, ColumnClause) and hides(part):
            return True
        waiting += part.get_children()
        if isinstance(part, ColumnElement):
            waiting += part.proxy_set  # what a subquery's column stands for
    return False
