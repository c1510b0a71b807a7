"""DISTINCT as a prefix or a function becomes a clause, and text that could change the rows is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NoReturn

from sqlalchemy import TextClause
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import Label, UnaryExpression

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import has_distinct_call, is_distinct_call
from dualsql.sqlalchemy_dialects import DistinctOnClause

_DISTINCT = frozenset({"DISTINCT", "DISTINCTROW"})
# Words between SELECT and its columns that do not change the rows; most are MariaDB's.
_HARMLESS = frozenset(
    """ALL STRAIGHT_JOIN HIGH_PRIORITY SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_NO_CACHE SQL_CACHE
    SQL_CALC_FOUND_ROWS""".split()
)
# Those that MariaDB refuses in a subquery, in which rows are counted. They change no plan.
_OUTERMOST = frozenset("HIGH_PRIORITY SQL_BUFFER_RESULT SQL_NO_CACHE SQL_CACHE SQL_CALC_FOUND_ROWS".split())
# Plain comments, and hints to the planner in them. MariaDB runs what is in /*! */ and /*M! */; PostgreSQL nests.
_COMMENTS = re.compile(r"(\s*/\*(?!M?!)((?!\*/|/\*).)*\*/\s*)+", re.DOTALL)


def without_words(select: AnySelect) -> AnySelect:
    """The Select with DISTINCT as its clause, without words that cannot stand in a subquery.

    Raises:
        NotFreezableError: DISTINCT is in an invalid place, or text around the columns could change the rows.
    """
    _refuse_unknown_words(select)
    prefixes = internals.prefixes(select)
    is_distinct = any(map(_is_distinct_word, prefixes))
    others = tuple(part for part in prefixes if _word(part[0]) not in _DISTINCT | _OUTERMOST)
    columns = internals.raw_columns(select)
    if columns and (merged := _without_word(columns[0])) is not None:
        is_distinct = True
        select = _with_first(select, merged)
    if has_distinct_call(select):
        _refuse_distinct_call()
    if is_distinct and not internals.distinct_word(select):
        select = select.distinct()
    return internals.copy_with(select, prefixes=others) if len(others) < len(prefixes) else select


def _refuse_unknown_words(select: Any) -> None:
    """Raise NotFreezableError for text around the columns that may change the rows."""
    for part in internals.prefixes(select):
        text, dialect = part
        is_distinct = _is_distinct_word(part) and dialect == "*"
        if not (is_distinct or _is_comment(text) or _word(text) in _HARMLESS):
            _refuse(f"The prefix {str(text)[:60]!r}")
    for text, _ in internals.suffixes(select):
        if not _is_comment(text):
            _refuse(f"The suffix {str(text)[:60]!r}")
    for _, hint in internals.statement_hints(select):
        if not _COMMENTS.fullmatch(hint):
            _refuse(f"The hint {hint[:60]!r}")
    # SQLAlchemy 2.1 writes DISTINCT ON as an extension, and applications add their own clauses as extensions.
    for extension in internals.syntax_extensions(select):
        clauses = () if extension is None else getattr(extension, "clauses", [extension])
        if not all(isinstance(clause, DistinctOnClause) for clause in clauses):
            _refuse("A clause of a custom class")


def _refuse(what: str) -> NoReturn:
    raise NotFreezableError(
        f"{what} is not supported: it may change which rows the statement returns.",
        hint="Put it into a subquery: inner = statement.subquery(); select(inner).",
    )


def _word(text: Any) -> str:
    return text.text.strip().upper() if isinstance(text, TextClause) else ""


def _is_comment(text: Any) -> bool:
    return isinstance(text, TextClause) and _COMMENTS.fullmatch(text.text) is not None


def _is_distinct_word(prefix: tuple[Any, str]) -> bool:
    return _word(prefix[0]) in _DISTINCT


def _without_word(column: Any) -> Any:
    """The column without the word DISTINCT before it; None if there is no such word."""
    bare = column.element if isinstance(column, Label) else column
    if not is_distinct_call(bare):
        return None
    if isinstance(bare, UnaryExpression):
        inner: Any = bare.element
    else:
        arguments = list(bare.clauses)
        if len(arguments) != 1:
            _refuse_distinct_call()
        (inner,) = arguments
    return inner.label(column.name) if isinstance(column, Label) else inner


def _with_first(select: AnySelect, column: Any) -> AnySelect:
    """The Select with another first column, and the same in its ORDER BY and GROUP BY."""
    first, *others = internals.raw_columns(select)
    selected: AnySelect = select.with_only_columns(column, *others)

    def replace_column(element: Any, **_: Any) -> Any:
        # By identity: an equal column elsewhere is not the one that the word DISTINCT stood before.
        return column if element is first else None

    def move(clauses: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(visitors.replacement_traverse(clause, {}, replace_column) for clause in clauses)

    return internals.copy_with(
        selected,
        order_by_clauses=move(internals.order_by_clauses(select)),
        group_by_clauses=move(internals.group_by_clauses(select)),
    )


def _refuse_distinct_call() -> NoReturn:
    raise NotFreezableError(
        "distinct() of one column applies to all columns: it becomes SELECT DISTINCT.",
        hint="Use select(...).distinct() for distinct rows, or func.count(distinct(column)) to count distinct values.",
    )


def unnamed_text(column: Any) -> NotFreezableError:
    """The error for text among the columns that may stand for other columns than one with a name."""
    if isinstance(column, TextClause):
        return NotFreezableError(
            "A text() column has no name and no type.",
            hint="Use literal_column('...', Type).label('name').",
        )
    return NotFreezableError(
        f"literal_column({column.name[:80]!r}) stands for columns that are not known.",
        hint="Name the columns, or select the table: select(table).",
    )
