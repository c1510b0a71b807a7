"""A title for the result of a SQL text, made from its statement: "Flights by carrier"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    ClauseList,
    ColumnClause,
    CompoundSelect,
    Join,
    Label,
    Select,
    TableClause,
)
from sqlalchemy.sql.selectable import AliasedReturnsRows, SelectStatementGrouping

from dualsql import sqlalchemy_internals as internals
from dualsql.formats.text import single_line

_WITHOUT_TABLES = "Query results"
LONGEST_TITLE = 120
"""Characters."""
_MOST_NAMES = 3
_MOST_ELEMENTS = 1_000


def title_of(statement: Any) -> str:
    """The tables of the statement, its groups or its few columns, and whether all rows are there."""
    tables = _tables(statement)
    if not tables:
        return _WITHOUT_TABLES
    subject = _join_words([table.replace("_", " ") for table in tables])
    if isinstance(statement, Select):
        subject = _of_select(statement, subject)
    notes = _notes(statement)
    title = f"{subject} ({', '.join(notes)})" if notes else subject
    # Not capitalize(), which makes small letters of the others.
    return single_line(title[:1].upper() + title[1:], LONGEST_TITLE)


def _of_select(select: Select[Any], tables: str) -> str:
    clauses = [
        clause
        for part in internals.group_by_clauses(select)
        for clause in (part.clauses if isinstance(part, ClauseList) else (part,))
    ]
    groups = [name for clause in clauses if (name := _name_in(select, clause))]
    if groups:
        return f"{tables} by {_join_words(groups)}"
    columns = [str(column.key or "computed") for column in select.selected_columns]
    if len(columns) > _MOST_NAMES or columns == _all_columns(select):
        return tables
    distinct = "distinct " if internals.distinct_word(select) else ""
    return f"{tables}: {distinct}{_join_words(columns)}"


def _all_columns(select: Select[Any]) -> list[str]:
    """The names of all columns of what a statement reads; of joins none, which would be made for it."""
    sources = internals.final_froms(select)
    return [column.key for source in sources if not isinstance(source, Join) for column in source.c]


def _name_in(select: Select[Any], clause: Any) -> str:
    """The name of a group in the answer; empty for an expression that the answer does not show."""
    key = _key(clause)
    columns = zip(internals.raw_columns(select), select.selected_columns, strict=False)
    name = next((str(output.key) for column, output in columns if key and _key(column) == key), "")
    return name or (clause.name if isinstance(clause, ColumnClause) else "")


def _key(element: Any) -> Any:
    """Equal for expressions of one form."""
    key = internals.cache_key(element.element if isinstance(element, Label) else element)
    return key and key.key


def _notes(statement: Any) -> list[str]:
    notes = ["filtered"] if isinstance(statement, Select) and statement.whereclause is not None else []
    limit = internals.limit_clause(statement)
    if isinstance(limit, BindParameter) and isinstance(limit.value, int):
        notes.append(f"first {limit.value:,}")
    return notes


def _tables(statement: Any) -> Sequence[str]:
    """The names of the tables that rows are read from, each where it stands first. Of a large statement only some."""
    names: dict[str, None] = {}
    # Not by recursion: the joins of a text may be hundreds deep, and queries may be recursive.
    ids, left = set[int](), [statement]
    while left and len(ids) < _MOST_ELEMENTS:
        element = left.pop()
        if id(element) in ids:
            continue
        ids.add(id(element))
        if isinstance(element, TableClause):
            names.setdefault(element.name)
        left += reversed(_sources(element))
    return list(names)


def _sources(element: Any) -> Sequence[Any]:
    """The sources of an element's rows."""
    if isinstance(element, Join):
        return [element.left, element.right]
    if isinstance(element, Select):
        return internals.final_froms(element)
    if isinstance(element, CompoundSelect):
        return element.selects
    return [element.element] if isinstance(element, AliasedReturnsRows | SelectStatementGrouping) else []


def _join_words(names: Sequence[str]) -> str:
    words = list(names)
    if len(words) > _MOST_NAMES:
        words = [*words[:_MOST_NAMES], f"{len(words) - _MOST_NAMES} more"]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
