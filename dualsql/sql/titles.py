"""A title for the result of a SQL text, made from its statement: "Flights by carrier"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def title_of(statement: Any) -> str:
    """The tables of the statement, its groups or its few columns, and whether all rows are there."""
    tables = [*dict.fromkeys(_tables(statement, set()))]
    if not tables:
        return _WITHOUT_TABLES
    subject = _listed([table.replace("_", " ") for table in tables])
    if isinstance(statement, Select):
        subject = _of_select(statement, subject)
    notes = _notes(statement)
    title = f"{subject} ({', '.join(notes)})" if notes else subject
    # Not capitalize(), which makes small letters of the others.
    return single_line(title[:1].upper() + title[1:], LONGEST_TITLE)


def _of_select(select: Select[Any], tables: str) -> str:
    clauses = [
        clause
        for given in internals.group_by_clauses(select)
        for clause in (given.clauses if isinstance(given, ClauseList) else (given,))
    ]
    groups = [name for clause in clauses if (name := _name_in(select, clause))]
    if groups:
        return f"{tables} by {_listed(groups)}"
    columns = [str(column.key) for column in select.selected_columns]
    sources = internals.final_froms(select)
    if len(columns) > _MOST_NAMES or [*columns] == [column.key for source in sources for column in source.c]:
        return tables
    distinct = "distinct " if internals.distinct_word(select) else ""
    return f"{tables}: {distinct}{_listed(columns)}"


def _name_in(select: Select[Any], clause: Any) -> str:
    """What the answer calls a group; empty for an expression that the answer does not show."""
    wanted = _key(clause)
    columns = zip(internals.raw_columns(select), select.selected_columns, strict=False)
    shown = next((str(named.key) for column, named in columns if wanted and _key(column) == wanted), "")
    return shown or (clause.name if isinstance(clause, ColumnClause) else "")


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


def _tables(element: Any, seen: set[int]) -> Iterator[str]:
    """The names of the tables that rows are read from, each where it stands first."""
    if id(element) in seen:  # of a recursive query
        return
    seen.add(id(element))
    if isinstance(element, Join):
        yield from _tables(element.left, seen)
        yield from _tables(element.right, seen)
    elif isinstance(element, Select):
        for source in internals.final_froms(element):
            yield from _tables(source, seen)
    elif isinstance(element, CompoundSelect):
        for select in element.selects:
            yield from _tables(select, seen)
    elif isinstance(element, AliasedReturnsRows | SelectStatementGrouping):
        yield from _tables(element.element, seen)
    elif isinstance(element, TableClause):
        yield element.name


def _listed(names: Sequence[str]) -> str:
    words = list(names)
    if len(words) > _MOST_NAMES:
        words = [*words[:_MOST_NAMES], f"{len(words) - _MOST_NAMES} more"]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
