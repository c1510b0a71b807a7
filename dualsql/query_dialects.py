"""How queries over results are written for each database. Each states its own in its file under `dualsql.databases`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, types

from dualsql.columns.own_types import Element, SQLType, Transform
from dualsql_client.wire_requests import Bucket

NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""Doubles that JSON has no numbers for, as it shows them."""

DatabaseAggregate = Callable[[Element, float | None], Element]
"""Makes an aggregate from values and, if it takes one, a fraction."""


def _unchanged(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return expression


def sum_doubles(values: ColumnElement[Any]) -> ColumnElement[Any]:
    """The sum of doubles."""
    return func.sum(values, type_=types.Double())


def in_lower_case(text: Element) -> Element:
    """The text in lower case, as the database has it."""
    return func.lower(text, type_=types.String())


def first_characters(text: ColumnElement[Any], number: int) -> ColumnElement[Any]:
    """So many characters from the beginning of a text."""
    return func.substr(text, 1, number, type_=types.String())


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDialect:
    """How queries over results are written for one database.

    Attributes:
        exact: a text as it is compared by code point, for equality and grouping.
        ordered: ... and for which of two comes first.
        finds_equal_by_index: an index of the column finds what `exact` is equal to; else equality is asked for twice.
        position: the position of a part in a text, from 1; 0 if it is not in it.
        beginning: the first characters of a text.
        lowered: a text in lower case, the same for each collation of a column.
        bucket_start: the beginning of the bucket of a date or an instant; None if it has no function for that.
        double: makes a number a double.
        sum_of_integers: the exact sums of 32-bit and of 64-bit integers.
        sum_of_decimals: what a sum of decimals becomes, where the database computes it in doubles.
        sum_of_doubles: the sum of doubles.
        aggregates: by name, what replaces the default in `dualsql.query.aggregates`: a function of the values and the
            fraction, or None if the database does not have the aggregate.
        ranks_rows: percentiles are computed from numbered rows, because percentile_cont() is not an aggregate, or its
            results are not those of PostgreSQL.
        has_infinite_dates: 'infinity' is a date, and '-infinity' is.
        odd_doubles: of `NOT_FINITE`, what a double may be.
        has_months: an interval has months apart from days, and its ISO 8601 text is read back.
        wide_integer: a whole number that is compared with a type, where integers may have more than 64 bits; None for
            one that is a parameter of 64 bits. It raises ValueError for one that the type does not have.
        has_single_reals: a REAL has four bytes.
        shortens_reals: a number of four bytes is shown with fewer digits than it is compared with.
        tells_apart: whether values of a type have equality; None if all types do.
        compares: whether they can be compared with a value in a query; likewise.
        type_name: the name of an expression's type, if values are only accepted with their exact type.
        is_bytes: whether an expression of no declared type holds bytes, as a condition.
        storage_class: which kind of value a cell is, whatever its column declares: "integer", "real", "text" or "blob";
            None where a column holds values of its own type alone.
        shown_as_false: what a column of truth values may hold that is shown as false, everything else being shown as
            true; empty where it holds truth values alone. The first is a number.
        has_loose_comparisons: any two types can be compared.
        text_length: counts the characters of a text.
        scramble: a hash of the keys of a row and a seed; None without a hash function.
        approximate_distinct: the aggregate for an approximate number of distinct values; empty if there is none.
        random_share: a condition that holds for one of so many rows, chosen at random for each row; None without one.
    """

    exact: Transform = _unchanged
    ordered: Transform = _unchanged
    finds_equal_by_index: bool = True
    position: Callable[[Element, Element], Element]
    beginning: Callable[[Element, int], Element] = first_characters
    lowered: Transform = in_lower_case
    bucket_start: Callable[[Element, Bucket], Element | None]
    double: Transform
    sum_of_integers: tuple[Transform, Transform]
    sum_of_decimals: Transform = _unchanged
    sum_of_doubles: Transform = sum_doubles
    aggregates: dict[str, DatabaseAggregate | None] = field(default_factory=dict)
    ranks_rows: bool = False
    has_infinite_dates: bool = False
    odd_doubles: Sequence[str] = ()
    has_months: bool = False
    wide_integer: Callable[[int, SQLType], ColumnElement[Any] | None] | None = None
    has_single_reals: bool = False
    shortens_reals: bool = False
    tells_apart: Callable[[SQLType], bool] | None = None
    compares: Callable[[SQLType], bool] | None = None
    type_name: Transform | None = None
    is_bytes: Transform
    storage_class: Transform | None = None
    shown_as_false: Sequence[Any] = ()
    has_loose_comparisons: bool = False
    text_length: Transform = func.length
    scramble: Callable[[Sequence[ColumnElement[Any]], int], ColumnElement[Any]] | None = None
    approximate_distinct: str = ""
    random_share: Callable[[int], ColumnElement[bool]] | None = None
