"""Types with their user's code stay on their column; the rule: no expression reads foreign bytes through them.

Reading a PickleType unpickles. A document that put such a type on another column's content, by a cast, a
coalesce or a UNION, would run that content. So an expression whose type is not trusted must be its column, or
be made only of expressions with that very type; and since a database finds columns by name, no other source
(`capture`) and no other output may have that column's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy.orm import Bundle, Mapper
from sqlalchemy.orm.util import AliasedInsp
from sqlalchemy.sql import coercions, elements, roles, selectable
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.sqltypes import TypeDecorator
from sqlalchemy.sql.type_api import TypeEngine

from dualsql.freeze import capture
from dualsql.freeze.refusals import malformed
from dualsql.freeze.registry import Registry

# Functions that return one of their arguments as it is: even lower() makes other bytes of them.
_HANDING_ON = frozenset(
    {"max", "min", "coalesce", "ifnull", "any_value", "first_value", "last_value", "lag", "lead"}
)


def check(statement: Any, registry: Registry) -> None:
    """Raise MalformedError for a statement that puts an untrusted type on something else than its column."""
    if isinstance(statement, selectable.CompoundSelect):
        _check_compound(statement, registry)
    elif isinstance(statement, selectable.TextualSelect):
        for column in statement.column_args:
            if not registry.is_trusted(column.type):
                malformed("own type of a column on text")
    else:
        for column in statement._raw_columns:
            check_column(column, registry)


def check_names(found: list[Any], registry: Registry) -> None:
    """Raise MalformedError where the database may find other content under the name of a column with an own type.

    Args:
        found: all elements of a document that reads a table with such a column.
    """

    def is_own(column: Any) -> bool:
        kind = getattr(column, "type", None)
        return kind is not None and not registry.is_trusted(kind)

    capture.check_sources(_sources(found), lambda source: any(map(is_own, source.c)))
    for element in found:
        if isinstance(element, selectable.Select):
            columns: list[Any] = list(element._all_selected_columns)
            _check_outputs([*columns, *(one for column in columns for one in _listed(column))], is_own)


def check_column(column: Any, registry: Registry) -> None:
    """Raise MalformedError for an expression that hands on foreign content through an untrusted type."""
    waiting = [column]
    while waiting:
        element = waiting.pop()
        waiting += _listed(element)
        kind = getattr(element, "type", None)
        if kind is None or registry.is_trusted(kind):
            continue
        operands = _operands(element)
        if operands is None or any(operand.type is not kind for operand in operands):
            malformed("own type of a column on something else")
        waiting += operands


def _listed(element: Any) -> list[Any]:
    """The expressions of a Bundle, which the ORM selects one by one."""
    if isinstance(element, elements.ClauseList):
        return list(element.clauses)
    if isinstance(element, Bundle):
        expressions: Any = element.exprs
        return [coercions.expect(roles.ColumnsClauseRole, expression) for expression in expressions]
    return []


def _operands(element: Any) -> list[Any] | None:
    """The expressions whose values this one hands on; None when it makes values of its own."""
    if isinstance(element, elements.ColumnClause):
        return [] if element.table is not None else None
    if isinstance(element, elements.BindParameter):
        return [] if _comes_back(element) else None
    if isinstance(element, elements.Label | elements.Grouping | elements.Over):
        return [element.element]
    if isinstance(element, selectable.ScalarSelect):
        columns: Any = element.element._all_selected_columns
        return list(columns)[:1]
    if isinstance(element, FunctionElement):
        return list(element.clauses) or None if element.name in _HANDING_ON else None
    if isinstance(element, elements.Case):
        results = [result for _, result in element.whens]
        return results if element.else_ is None else [*results, element.else_]
    return None


def _comes_back(bind: Any) -> bool:
    """Whether what the type reads is what it wrote itself: a type that only reads would be handed raw bytes."""
    cls: Any = type(bind.type)
    writes = (
        cls.process_bind_param is not TypeDecorator.process_bind_param
        or cls.bind_processor is not TypeDecorator.bind_processor
        if issubclass(cls, TypeDecorator)
        else cls.bind_processor is not TypeEngine.bind_processor
    )
    return writes and not bind.literal_execute


def _check_compound(statement: Any, registry: Registry) -> None:
    rows = [list(select._all_selected_columns) for select in statement.selects]
    for position, first in enumerate(rows[0]):
        for row in rows[1:]:
            if position >= len(row) or not _agree(first.type, row[position].type, registry):
                malformed("own type of a column in a union with something else")


def _agree(one: Any, other: Any, registry: Registry) -> bool:
    return one is other or (registry.is_trusted(one) and registry.is_trusted(other))


def _sources(found: list[Any]) -> Iterator[Any]:
    """Everything in the document that has a name in FROM."""
    for element in found:
        if isinstance(element, Mapper):
            yield from (table for mapper in element.self_and_descendants for table in mapper.tables)
        elif isinstance(element, AliasedInsp):
            # The parts of a join are listed beside it.
            yield from (source for source in element.selectable._from_objects if hasattr(source, "name"))
        elif isinstance(element, selectable.NamedFromClause):
            yield element


def _check_outputs(columns: list[Any], is_own: Callable[[Any], bool]) -> None:
    own = [column for column in columns if is_own(column)]
    if not own:
        return
    # With a star, or a bundle that no ORM takes apart, SQLAlchemy finds columns by name instead of by position.
    if any(getattr(column, "is_literal", False) and column.name == "*" for column in columns):
        malformed("a star beside an own type of a column")
    capture.check_outputs(columns, own)
