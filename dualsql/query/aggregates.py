"""Aggregates of groups as SQL. Integers and decimals add up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, type_coerce, types

from dualsql.capabilities import QueryDialect
from dualsql.columns.instants import instant, is_instant
from dualsql.columns.result import ResultColumn
from dualsql.errors import BadParameterError
from dualsql.query.comparisons import Element, bound
from dualsql.query.conditions import (
    Conditions,
    holds,
    is_plain_text,
    is_shown_rounded,
    is_single,
    needs_exact,
    operand,
)
from dualsql.query.model import AggregateColumn, Group
from dualsql_client.query import Function

_NUMBERS = frozenset({"integer", "float", "decimal"})
_DISTINCT = _NUMBERS | {"text", "boolean", "date", "time", "datetime", "interval", "uuid", "base64", "any"}
_ORDERED = _NUMBERS | {"text", "date", "time", "datetime"}

# What a column has to hold.
_ENCODINGS: Mapping[Function, frozenset[str]] = {
    "count_distinct": _DISTINCT,
    "sum": _NUMBERS,
    "avg": _NUMBERS,
    "min": _ORDERED,
    "max": _ORDERED,
    "median": _NUMBERS,
    "percentile": _NUMBERS,
}

_GROUPED = frozenset({"integer", "float", "decimal", "text", "boolean", "date", "time", "uuid", "any"})


def group_key(group: Group, conditions: Conditions) -> Element:
    """What rows are told apart by.

    Raises:
        UnknownColumnError, BadParameterError: there is no such column, or it cannot be grouped by.
    """
    column = conditions.column(group.column)
    encoding = _encoding(column)
    if group.bucket is not None:
        return _bucket(group, column, conditions.abilities)
    if encoding == "datetime":
        raise BadParameterError(
            f"Nearly every instant of {column.name[:80]!r} would be a group of its own.",
            hint=f'Cut it: {{"column": "{column.name[:80]}", "bucket": "day"}}.',
            details={"column": column.name},
        )
    if encoding not in _GROUPED:
        raise BadParameterError(
            f"Rows cannot be grouped by {column.name[:80]!r}, which holds {encoding}.",
            hint="Group by a column of texts, numbers, dates or flags.",
            details={"column": column.name, "encoding": encoding},
        )
    if is_plain_text(column):
        return conditions.abilities.exact(column.expression)
    key = operand(column, conditions.capabilities) if is_single(column) else column.expression
    return _told_apart(column, key, conditions)


def _told_apart(column: ResultColumn, element: Element, conditions: Conditions) -> Element:
    abilities = conditions.abilities
    if is_shown_rounded(column, conditions.capabilities):
        raise BadParameterError(
            f"Rows cannot be told apart by {column.name[:80]!r}, which holds {holds(column)}.",
            hint="Take another column, or one that is rounded by the query.",
            details={"column": column.name},
        )
    if not conditions.capabilities.tells_apart(column.shown):
        raise BadParameterError(
            f"{conditions.capabilities.name} cannot tell apart the values of {column.name[:80]!r}: their type has no "
            "equality.",
            hint="Take another column.",
            details={"column": column.name},
        )
    if not column.meaning.keeps_equality:
        raise BadParameterError(
            f"Rows cannot be told apart by {column.name[:80]!r}, which holds {holds(column)}.",
            hint="The same value may be stored in several ways. Take another column.",
            details={"column": column.name},
        )
    if not needs_exact(column, abilities):
        return element
    return type_coerce(abilities.exact(element), column.type)


def _bucket(group: Group, column: ResultColumn, abilities: QueryDialect) -> Element:
    assert group.bucket is not None
    if _encoding(column) not in {"date", "datetime"}:
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds no dates, which a {group.bucket} could be taken of.",
            hint="Leave bucket out.",
            details={"column": column.name},
        )
    if not column.meaning.is_same:
        raise BadParameterError(
            f"No {group.bucket} can be taken of {column.name[:80]!r}, which holds {holds(column)}.",
            hint="Group by another column.",
            details={"column": column.name},
        )
    if group.bucket == "hour" and not is_instant(column.expression):
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds dates without hours.",
            hint='Take "day".',
            details={"column": column.name},
        )
    return abilities.cut_date(column.expression, group.bucket)


def aggregated(measure: AggregateColumn, conditions: Conditions) -> Element:
    """The figure of a group.

    Raises:
        UnknownColumnError, BadParameterError: there is no such column, or it has no such figure; or the engine does
            not know how.
    """
    if measure.column is None:
        return func.count(type_=types.BigInteger())
    column = conditions.column(measure.column)
    if measure.function == "count":
        return func.count(column.expression, type_=types.BigInteger())
    _require_kind(measure, column)
    return _figure(measure, column, conditions)


def _figure(measure: AggregateColumn, column: ResultColumn, conditions: Conditions) -> Element:
    abilities, element = conditions.abilities, column.expression
    if conditions.capabilities.spells_instants and is_instant(element):
        element = instant(element)
    match measure.function:
        case "sum":
            return _summed(column, abilities)
        case "avg":
            # Of doubles: MariaDB cuts the average of whole numbers to four decimals.
            return func.avg(abilities.double(element), type_=types.Double())
        case "min" | "max":
            compared = abilities.ordered(element) if is_plain_text(column) else element
            extreme: Any = func.min if measure.function == "min" else func.max
            found: Element = extreme(compared, type_=element.type)
            return found
        case "median" | "percentile":
            return _percentile(measure, column, conditions)
        case _:
            distinct = (
                abilities.exact(element)
                if is_plain_text(column)
                else _told_apart(
                    column,
                    operand(column, conditions.capabilities) if is_single(column) else element,
                    conditions,
                )
            )
            return func.count(distinct.distinct(), type_=types.BigInteger())


def _summed(column: ResultColumn, abilities: QueryDialect) -> Element:
    encoding, plain = _encoding(column), column.shown
    if encoding == "integer":
        of_32, of_64 = abilities.sum_of_integers
        return (of_64 if isinstance(plain, types.BigInteger) else of_32)(column.expression)
    if encoding == "decimal":
        scale = getattr(plain, "scale", None)
        return func.sum(column.expression, type_=types.Numeric(None, scale))
    return func.sum(abilities.double(column.expression), type_=types.Double())


def _percentile(measure: AggregateColumn, column: ResultColumn, conditions: Conditions) -> Element:
    abilities = conditions.abilities
    if not abilities.has_percentiles:
        raise BadParameterError(
            f"{conditions.capabilities.name} has no {measure.function} of groups.",
            hint="Ask for min, avg and max.",
            details={"function": measure.function, "engine": conditions.capabilities.name},
        )
    fraction = abilities.double(bound(measure.fraction, types.Double()))
    ranked = func.percentile_cont(fraction).within_group(abilities.double(column.expression))
    # It declares no type of its own: that of the fraction would do, on some engines.
    ranked.type = types.Double()
    return ranked


def _require_kind(measure: AggregateColumn, column: ResultColumn) -> None:
    encoding = _encoding(column)
    known = _ENCODINGS[measure.function]
    if encoding in known and _is_sound(measure.function, column):
        return
    raise BadParameterError(
        f"{measure.function} cannot be taken of the column {column.name[:80]!r}, which holds {holds(column)}.",
        hint=f"It is taken of: {', '.join(sorted(known))}."
        if encoding not in known
        else "Take another column.",
        details={"column": column.name, "encoding": encoding, "function": measure.function},
    )


def _is_sound(function: Function, column: ResultColumn) -> bool:
    """Whether the figure of what is stored is that of what is shown."""
    meaning = column.meaning
    if function == "count_distinct":
        return True  # `_told_apart` sees to it
    if function in ("min", "max"):
        is_odd_text = column.encoding == "text" and not is_plain_text(column)
        return meaning.keeps_order and (meaning.is_made or not is_odd_text)
    return meaning.is_same


def _encoding(column: ResultColumn) -> str:
    described = column.describe()
    # The average of a stored query has no type that is declared.
    is_number = described["encoding"] == "any" and described["type"] == "number"
    return "float" if is_number else described["encoding"]
