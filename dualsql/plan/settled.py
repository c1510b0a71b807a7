"""Say a Select in the words that plans understand; the rows, their order and their names stay what they were.

DISTINCT is a clause, wherever its author put the word. A join has the left side that SQLAlchemy would find for it,
so that more columns or conditions cannot make it find another one. What is rendered as written around the columns,
and could decide which rows there are, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql.ext import DistinctOnClause
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import ClauseElement, Label, UnaryExpression
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Exists, ScalarSelect, SelectBase

from dualsql.errors import NotFreezableError
from dualsql.statement import AnySelect

_DISTINCT = frozenset({"DISTINCT", "DISTINCTROW"})
# Words between SELECT and its columns that leave the rows alone; most are MariaDB's.
_HARMLESS = frozenset(
    """ALL STRAIGHT_JOIN HIGH_PRIORITY SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_NO_CACHE SQL_CACHE
    SQL_CALC_FOUND_ROWS""".split()
)
_COMMENTS = re.compile(r"(\s*/\*.*?\*/\s*)+", re.DOTALL)
_WRAP = "Put it into a subquery: inner = statement.subquery(); select(inner)."


def settled(select: AnySelect) -> AnySelect:
    """The same Select, with DISTINCT as its clause and joins that do not depend on its columns.

    Raises:
        NotFreezableError: DISTINCT stands where no database takes it, or text around the columns could change rows.
    """
    return _with_distinct(_with_left_side(select))


# --- words around the columns ----------------------------------------------------------------------------------


def _with_distinct(select: AnySelect) -> AnySelect:
    is_distinct = _refuse_unknown_words(select)
    columns = list(select._raw_columns)
    if columns and (merged := _without_word(columns[0])) is not None:
        is_distinct = True
        select = _with_first(select, merged)
    _refuse_stray_words(select)
    if not is_distinct:
        return select
    distinct = select if select._distinct else select.distinct()
    return _with_prefixes(distinct, [part for part in distinct._prefixes if not _is_distinct_word(part)])


def _refuse_unknown_words(select: Any) -> bool:
    """Whether one of the prefixes is DISTINCT; raises NotFreezableError for what plans know nothing of."""
    for part in select._prefixes:
        text, dialect = part
        known = _is_comment(text) or _word(text) in _HARMLESS or (_is_distinct_word(part) and dialect == "*")
        if not known:
            _refuse(f"The prefix {str(text)[:60]!r}")
    for text, _ in select._suffixes:
        if not _is_comment(text):
            _refuse(f"The suffix {str(text)[:60]!r}")
    for _, hint in select._statement_hints:
        if not _COMMENTS.fullmatch(hint):
            _refuse(f"The hint {hint[:60]!r}")
    for extension in (select._pre_columns_clause, select._post_select_clause, select._post_body_clause):
        clauses = () if extension is None else getattr(extension, "clauses", [extension])
        if not all(isinstance(clause, DistinctOnClause) for clause in clauses):
            _refuse("A clause of an own class")
    return any(map(_is_distinct_word, select._prefixes))


def _refuse(what: str) -> NoReturn:
    raise NotFreezableError(f"{what} may change which rows there are, and is not understood.", hint=_WRAP)


def _word(text: Any) -> str:
    return text.text.strip().upper() if isinstance(text, TextClause) else ""


def _is_comment(text: Any) -> bool:
    return isinstance(text, TextClause) and _COMMENTS.fullmatch(text.text) is not None


def _is_distinct_word(prefix: tuple[Any, str]) -> bool:
    return _word(prefix[0]) in _DISTINCT


def _with_prefixes(select: Any, prefixes: Iterable[Any]) -> AnySelect:
    kept = tuple(prefixes)
    if len(kept) == len(select._prefixes):
        found: AnySelect = select
        return found
    bare: AnySelect = select._generate()
    bare._prefixes = kept
    return bare


# --- DISTINCT as a column's word -------------------------------------------------------------------------------


def _is_word(element: Any) -> bool:
    """Whether it is `distinct(x)`, `x.distinct()` or `func.distinct(x)`."""
    if isinstance(element, UnaryExpression):
        return element.operator is operators.distinct_op
    return isinstance(element, FunctionElement) and str(getattr(element, "name", "")).lower() == "distinct"


def _without_word(column: Any) -> Any:
    """The column without the word before it; None if there is none."""
    bare = column.element if isinstance(column, Label) else column
    if not _is_word(bare):
        return None
    if isinstance(bare, UnaryExpression):
        inner: Any = bare.element
    else:
        arguments = list(bare.clauses)
        if len(arguments) != 1:
            _refuse_word()
        (inner,) = arguments
    return inner.label(column.name) if isinstance(column, Label) else inner


def _with_first(select: AnySelect, column: Any) -> AnySelect:
    """The Select with another first column, and the same in its ORDER BY and GROUP BY."""
    first, *others = select._raw_columns
    found: AnySelect = select.with_only_columns(column, *others)

    def replaced(element: Any, **_: Any) -> Any:
        return column if element is first else None

    for attribute in ("_order_by_clauses", "_group_by_clauses"):
        clauses = getattr(select, attribute)
        moved = tuple(visitors.replacement_traverse(clause, {}, replaced) for clause in clauses)
        setattr(found, attribute, moved)
    return found


def _refuse_stray_words(select: AnySelect) -> None:
    """Raise NotFreezableError where the word is left outside of an aggregate function."""
    if any(map(_has_stray_word, (*select._raw_columns, *select._order_by_clauses))):
        _refuse_word()


def _refuse_word() -> NoReturn:
    raise NotFreezableError(
        "distinct() of a column is read as SELECT DISTINCT, which stands before the first column alone.",
        hint="Write select(...).distinct() for distinct rows, func.count(distinct(column)) to count distinct values.",
    )


def _has_stray_word(root: Any) -> bool:
    stack: list[Any] = [root]
    while stack:
        element = stack.pop()
        if isinstance(element, SelectBase | ScalarSelect | Exists):
            continue
        if _is_word(element):
            return True
        parts: Iterator[Any] = element.get_children()
        if isinstance(element, FunctionElement):
            # count(DISTINCT x): the word belongs to the aggregate.
            parts = (inner for part in parts for inner in _arguments(part))
        stack += parts
    return False


def _arguments(part: ClauseElement) -> Iterator[Any]:
    """What a function is given, without the word before it."""
    if _is_word(part):
        yield from part.get_children()
    elif part.__visit_name__ in {"clauselist", "grouping"}:
        for inner in part.get_children():
            yield from _arguments(inner)
    else:
        yield part


# --- joins -----------------------------------------------------------------------------------------------------


def _with_left_side(select: Any) -> AnySelect:
    """The Select with its first join's left side in FROM, where SQLAlchemy guesses it from columns and conditions.

    All later joins are to what is in FROM already.
    """
    found: AnySelect = select
    joining = next((part for part in (*select._memoized_select_entities, select) if part._setup_joins), None)
    if joining is None or select._from_obj or joining._setup_joins[0][2] is not None:
        return found
    selecting = select._generate()
    selecting._raw_columns = joining._raw_columns
    sources = _unique([*selecting.columns_clause_froms, *_read_by_conditions(select)])
    if len(sources) == 1:
        return found.select_from(sources[0])
    written = _written(select)
    pinned = (found.select_from(source) for source in sources)
    return next((one for one in pinned if written is not None and _written(one) == written), found)


def _read_by_conditions(select: Any) -> list[Any]:
    return [source for condition in select._where_criteria for source in condition._from_objects]


def _unique(sources: Iterable[Any]) -> list[Any]:
    return list({getattr(source, "_Annotated__element", source): source for source in sources}.values())


def _written(select: Any) -> str | None:
    """The SQL on no particular database; None where SQLAlchemy writes none."""
    try:
        return str(select)
    except (SQLAlchemyError, AttributeError):
        return None
