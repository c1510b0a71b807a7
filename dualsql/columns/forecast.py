"""The types of the values of expressions.

A column of a table has the type that the application declares, and so has what returns it unchanged: a column of a
subquery, CASE, coalesce(), max(), lag(). A CAST has the type that it names. All else is computed: `computed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import BindParameter, Cast, ColumnElement, Label, TypeCoerce, types
from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.functions import FunctionElement

from dualsql.columns import kinds
from dualsql.columns.kinds import Value, function_name
from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import SQLType, is_decorator

_SHIFTING = frozenset({"lag", "lead"})
_CHOOSING: Mapping[str, slice] = {
    **dict.fromkeys("coalesce greatest ifnull least max min nvl".split(), slice(None)),
    **dict.fromkeys(
        """any_value arg_max arg_min first first_value last last_value max_by min_by mode nth_value nullif
        percentile_disc""".split(),
        slice(1),
    ),
    **dict.fromkeys(("if", "iif"), slice(1, None)),
    **dict.fromkeys(_SHIFTING, slice(None, None, 2)),  # the second is a number of rows
}
"""Functions that return one of their arguments unchanged, and which ones."""


class Forecast:
    """The types of expressions of one statement.

    The types are cached: CTEs that read each other twice have exponentially many paths.
    """

    def __init__(self, meanings: Meanings) -> None:
        self._computation = meanings.computation
        self._meanings = meanings
        self._stored = meanings.stored_type
        self._values: dict[Any, Value] = {}

    def of(self, expression: Any) -> Value:
        """What is known of the values of an expression."""
        if expression not in self._values:
            value = self._of(expression)
            self._values[expression] = value._replace(type=self._exact(value.type))
        return self._values[expression]

    def _exact(self, type_: SQLType) -> SQLType:
        """The type with all digits of a stored number.

        SQLAlchemy rounds a double that it makes a decimal, to ten digits by default, and so MySQL's DOUBLE that it
        reflects. It rounds a decimal that it makes a double.
        """
        if not type(type_).__module__.startswith("sqlalchemy."):
            return type_
        if isinstance(type_, types.Float):
            return kinds.NUMBERS[kinds.DOUBLE] if type_.asdecimal else type_
        if isinstance(type_, types.Numeric) and not type_.asdecimal and not self._computation.in_doubles:
            return types.Numeric(type_.precision, type_.scale)
        return type_

    def united(self, parts: Sequence[Any], declared: SQLType) -> Value:
        """What is known of a value that is one of several; SQLAlchemy takes it for one of the type `declared`."""
        values = [self.of(part) for part in parts if not kinds.is_null(part)]
        # By their text: types have no equality.
        by_text = {repr(type_): type_ for type_ in (self._without_code(value.type) for value in values)}
        different = list(by_text.values())
        # A database without types may return a value of each part as it is.
        is_mixed = self._computation.is_loose and len(different) > 1
        is_computed = is_mixed or any(value.is_computed for value in values)
        return Value(self._holding(different, declared), is_computed)

    def _holding(self, different: Sequence[SQLType], declared: SQLType) -> SQLType:
        """The type that holds values of several different types."""
        if not different or any(map(is_decorator, different)):
            is_known = not isinstance(declared, types.NullType) or len(different) != 1
            return declared if is_known else different[0]
        typed = [type_ for type_ in different if not isinstance(type_, types.NullType)]
        if len(typed) < len(different):
            return declared if len(typed) <= 1 and not self._computation.is_loose else types.NULLTYPE
        if len(different) == 1:
            return different[0]
        stored = list(map(self._stored, different))
        numbers = [number for number in map(kinds.number_of, stored) if number is not None]
        if len(numbers) == len(stored):
            return kinds.NUMBERS[max(numbers)]
        if all(isinstance(type_, types.String) for type_ in stored):
            return types.String()
        families = {kinds.family(type_) for type_ in stored}
        return declared if len(families) == 1 or families == {types.Date, types.DateTime} else types.NULLTYPE

    def _without_code(self, type_: SQLType) -> SQLType:
        """The stored type of a decorator that shows what is stored; another type itself."""
        is_shown = is_decorator(type_) and self._meanings.of(type_).reads is None
        return self._stored(type_) if is_shown else type_

    def _of(self, expression: Any) -> Value:
        if isinstance(expression, Label | elements.Grouping | elements.Over):
            return self.of(expression.element)
        if isinstance(expression, elements.FunctionFilter):
            return self.of(expression.func)
        if isinstance(expression, Cast | TypeCoerce | BindParameter):
            return Value(expression.type, is_computed=True)
        if isinstance(expression, ColumnClause | selectable.ScalarSelect):
            parts = beneath(expression)
            if parts is None:
                return Value(expression.type, is_computed=False)
            return self.of(parts[0]) if len(parts) == 1 else self.united(parts, expression.type)
        parts = self._choices(expression)
        if parts is not None and not _is_stated(expression, parts):
            return self.united(parts, expression.type)
        from dualsql.columns.computed import ComputedTypes

        return ComputedTypes(self._meanings, self.of).of(expression)

    def _choices(self, expression: Any) -> list[Any] | None:
        parts = choices(expression)
        if parts and self._computation.has_truths and function_name(expression) in _SHIFTING:
            # DuckDB makes a truth value of lead()'s third argument, too.
            first = self._stored(self.of(kinds.operand_of(parts[0])).type)
            return parts[:1] if kinds.number_of(first) == kinds.TRUTH else parts
        return parts


def _is_stated(expression: Any, parts: Sequence[Any]) -> bool:
    """Whether the author gave a function another type than that of any of its arguments."""
    is_call = isinstance(expression, FunctionElement) and not isinstance(expression.type, types.NullType)
    return is_call and not any(kinds.is_of_argument(expression.type, part) for part in parts)


def choices(expression: Any) -> list[Any] | None:
    """The parts of which an expression returns one unchanged; None if it computes."""
    if isinstance(expression, elements.Case):
        results = [result for _, result in expression.whens]
        return results if expression.else_ is None else [*results, expression.else_]
    if not isinstance(expression, FunctionElement):
        return None
    arguments = list(expression.clauses)
    places = _CHOOSING.get(function_name(expression))
    return None if places is None or not arguments else arguments[places]


def parts_of(statement: Any) -> Iterator[Any]:
    """The SELECTs of a set operation, or the SELECT itself."""
    if isinstance(statement, selectable.SelectStatementGrouping):
        yield from parts_of(statement.element)
    elif isinstance(statement, selectable.CompoundSelect):
        for part in statement.selects:
            yield from parts_of(part)
    else:
        yield statement


def beneath(column: Any) -> list[ColumnElement[Any]] | None:
    """The expressions that a column of a subquery shows, one of each SELECT; None for another column."""
    if isinstance(column, selectable.ScalarSelect):
        return [one.selected_columns[0] for one in parts_of(column.element)]
    source = column.table
    while isinstance(source, selectable.AliasedReturnsRows) and not getattr(source, "recursive", False):
        if isinstance(source.element, selectable.SelectBase):
            position = _position(column)
            outputs = [part.selected_columns for part in parts_of(source.element)]
            if position is None or any(len(columns) != len(column.table.c) for columns in outputs):
                return None
            return [columns[position] for columns in outputs]
        source = source.element
    return None


# By source: the positions of its columns by their hashes. A subquery of 1,000 columns takes 100 ms, and 330 without it.
_POSITIONS: WeakKeyDictionary[Any, dict[int, int]] = WeakKeyDictionary()


def _position(column: Any) -> int | None:
    """The position of a column in its source. An annotated column has the hash of its original."""
    columns, key = column.table.c, hash(column)
    position = _POSITIONS.get(column.table, {}).get(key)
    if position is None or position >= len(columns) or hash(columns[position]) != key:
        positions = _POSITIONS[column.table] = {hash(one): number for number, one in enumerate(columns)}
        position = positions.get(key)
    return position
