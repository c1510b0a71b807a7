"""What each database can do: order, comparison, cursor values, row estimates.

Code asks for a capability, never for a database's name. Each database states its own in its file under
`dualsql.databases`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Dialect, types

from dualsql.columns.own_types import SQLType
from dualsql_client.wire import Bucket

Expression = ColumnElement[Any]


def _always_back(_value: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyForm:
    """How a database reads and compares a sort key.

    A page begins after the key values of a row. If a value changed on its way, rows would be repeated or lost. The
    values that an application sees are not exact enough: SQLAlchemy shows a float as a Decimal of two places, and
    asyncpg reads a month as thirty days and the date 9999-12-31 as infinity. So keys are read beside the row in a form
    of their own.

    Attributes:
        compared: the expression in conditions.
        read: the expression in the SELECT, which gives the exact value.
        carried: the expression in the SELECT of a subquery, which compares outside as the key does inside.
        given: makes an expression from a value that was read.
        comes_back: whether a value compares, when it is sent back, as it did when it was read.
    """

    compared: Expression
    read: Expression
    carried: Expression
    given: Callable[[Any], Expression]
    comes_back: Callable[[Any], bool] = _always_back


class RowEstimate(NamedTuple):
    """How a database's planner is asked for a row estimate.

    Attributes:
        explain: the prefix of a statement that returns its plan as JSON.
        rows: the estimated number of rows in a plan; None if there is none.
    """

    explain: str
    rows: Callable[[Any], int | None]


Transform = Callable[[ColumnElement[Any]], ColumnElement[Any]]

DatabaseAggregate = Callable[[Expression, float | None], Expression]
"""Makes an aggregate from values and, if it takes one, a fraction."""


def unchanged(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    """The expression as it is."""
    return expression


def _always(_type: SQLType) -> bool:
    return True


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


class ResultOf(Enum):
    """The result type of a SQL function for which SQLAlchemy has none."""

    FIRST_ARGUMENT = auto()
    """A value of the type of its first argument."""
    ARGUMENTS = auto()
    """One of its arguments."""


FunctionResult = SQLType | ResultOf


def functions_that_give(result: FunctionResult, names: str) -> dict[str, FunctionResult]:
    """A mapping from function names, given as one text, to their result type."""
    return dict.fromkeys(names.split(), result)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDialect:
    """What a SQL text for one database may contain, and what it means there.

    The defaults are for an unknown database.

    Attributes:
        parser: sqlglot's name of the dialect.
        functions: functions that a text may call besides the common ones, in lower case.
        table_functions: functions in FROM, and their columns.
        absent: functions of all databases that this one lacks in every version; they are refused with a suggestion, and
            not by the database's error.
        windowed: aggregates that this one has only with OVER.
        since: functions that it has from a version on.
        instead: by name: what to write for a function that this database lacks, or has under another name.
        system_tables: what the names of its own tables and schemas begin with; a model that asks for one is told of
            the catalogue.
        whole_quotient: the type of `/` of two whole numbers.
        quotient: its type for other numbers; None if it is their common type.
        averages_in_doubles: avg() and similar functions return doubles.
        computes_in_doubles: all computation is in doubles, and a constant with a fraction is a double.
        whole_division: the operator that divides whole numbers.
        position: the function that finds a text in another one.
        has_btrim: TRIM of given characters is written btrim().
        has_scalar_extremes: max() and min() of several values are scalar functions.
        interval: an interval of so many years, months, weeks, days, hours, minutes and seconds; None without intervals.
        interval_hint: what to write instead of an interval.
        array: makes an array of values; None without arrays.
        at_time_zone: makes an instant in a zone; None without zones.
        date_cast_hint: what to write instead of a CAST to a date, if there is no such type.
        has_default_separator: texts are joined without a separator by group_concat(x).
        orders_joined_texts: string_agg() and group_concat() take an ORDER BY.
        orders_aggregates: all aggregates take an ORDER BY.
        has_distinct_on: DISTINCT ON (...) is understood.
        has_superaggregates: ROLLUP, CUBE and GROUPING SETS are understood.
        sorts_rollups: ORDER BY is allowed together with ROLLUP.
        names_value_columns: an alias of VALUES names its columns.
        has_json_arrows: `->` and `->>` read a part of a document; else json_extract() and json_unquote() do.
        comparisons_can_fail: comparing a number with a text that is not a number is an error.
    """

    parser: str = ""
    functions: Mapping[str, FunctionResult] = field(default_factory=dict)
    table_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    windowed: frozenset[str] = frozenset()
    since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    system_tables: tuple[str, ...] = ()
    whole_quotient: SQLType = field(default_factory=types.Numeric)
    quotient: SQLType | None = None
    averages_in_doubles: bool = False
    computes_in_doubles: bool = False
    whole_division: str = "DIV"
    position: str = "instr"
    has_btrim: bool = False
    has_scalar_extremes: bool = False
    interval: Callable[[Sequence[int]], Expression] | None = None
    interval_hint: str = "Compute the date first, and pass it as a parameter."
    array: Callable[[Sequence[Expression]], Expression] | None = None
    at_time_zone: Callable[[Expression, Expression], Expression] | None = None
    date_cast_hint: str = ""
    has_default_separator: bool = False
    orders_joined_texts: bool = True
    orders_aggregates: bool = False
    has_distinct_on: bool = False
    has_superaggregates: bool = True
    sorts_rollups: bool = True
    names_value_columns: bool = True
    has_json_arrows: bool = True
    comparisons_can_fail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDialect:
    """How queries over results are written for one database.

    Attributes:
        exact: a text as it is compared by code point, for equality and grouping.
        ordered: ... and for which of two comes first.
        finds_equal_by_index: an index of the column finds what `exact` is equal to; else equality is asked for twice.
        position: the position of a part in a text, from 1; 0 if it is not in it.
        cut_date: the beginning of the bucket of a date or an instant.
        double: makes a number a double.
        sum_of_integers: the exact sums of 32-bit and of 64-bit integers.
        aggregates: by name, what replaces the default in `dualsql.query.aggregates`: a function of the values and the
            fraction, or None if the database does not have the aggregate.
    """

    exact: Transform = unchanged
    ordered: Transform = unchanged
    finds_equal_by_index: bool = True
    position: Callable[[Expression, Expression], Expression]
    cut_date: Callable[[Expression, Bucket], Expression]
    double: Transform
    sum_of_integers: tuple[Transform, Transform]
    aggregates: dict[str, DatabaseAggregate | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """How one driver's values are read and bound.

    Attributes:
        types: replacements of SQLAlchemy's types.
        processors: by the driver's code of a column's type: a function that converts the driver's value.
        unfit_codes: codes of types for which the driver may return an `Unfit`; see `dualsql.formats.cells`.
        require: raises an error for the driver's code of a type whose values the driver changes; None if there is none.
    """

    types: Mapping[type[Any], type[Any]] = field(default_factory=dict)
    processors: Mapping[Any, Callable[[Any], Any]] = field(default_factory=dict)
    unfit_codes: frozenset[Any] = frozenset()
    require: Callable[[Any], None] | None = None


def _has_its_own(_type: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one database, as far as dualsql depends on them.

    A database's file states what differs from the defaults. These are on the safe side: what a database can do in
    addition is used only if its file says so.

    Attributes:
        name: the name of the database for people, for messages only.
        nulls_last: ORDER BY x NULLS LAST is understood.
        sorts_conditions: ORDER BY x IS NULL is understood.
        splits_statements: one string sent to it may hold several statements.
        groups_strictly: an output column must be in GROUP BY, or depend on the primary key of a table.
        has_row_security: policies can restrict rows by a setting of the transaction.
        has_roles: a session can take a role.
        has_schemas: one database has several schemas, and a connection reads them all.
        has_loose_types: a column may contain values of other types than its own.
        sortable: makes an expression of any type sortable.
        distinguishing: keys for ORDER BY in which values that differ never compare equal.
        nulls_last_by_default: whether NULLs come last without NULLS FIRST or LAST, ascending and descending; None if
            that is not known, and every key says it.
        has_indexes: a condition on a sort key finds its rows without reading others, and two such queries, for values
            and for NULLs, are faster than one with OR.
        searches_row_values: (a, b) > (x, y) uses an index.
        has_infinite_dates: 'infinity' is a date, and '-infinity' is.
        spells_instants: a timestamp is a text with several spellings.
        has_months: an interval has months apart from days, and its ISO 8601 text is read back.
        has_single_reals: a REAL has four bytes.
        shortens_reals: a number of four bytes is shown with fewer digits than it is compared with.
        divides_in_doubles: every quotient is a double.
        floors_in_doubles: `whole // whole` is a double.
        tells_apart: whether values of a type have equality.
        compares: whether they can be compared with a value in a query.
        type_name: the name of an expression's type, if values are only accepted with their exact type.
        is_bytes: whether an expression of no declared type holds bytes, as a condition.
        storage_class: which kind of value a cell is, whatever its column declares: "integer", "real", "text" or "blob";
            None where a column holds values of its own type alone.
        shown_as_false: what a column of truth values may hold that is shown as false, everything else being shown as
            true; empty where it holds truth values alone. The first is a number.
        has_loose_comparisons: any two types can be compared.
        shown_scale: the number of digits shown for a decimal of this type that is a double; None if it is not a double.
        shows_doubles_rounded: a double that SQLAlchemy takes for a decimal is shown with the digits of its scale.
        keeps_zones: an instant of a DateTime(timezone=True) is stored and returned with a zone.
        key_form: how the value of a sort key is read and sent back; None if that is not possible.
        query: how queries over a result are written: conditions on texts, aggregates, buckets of dates.
        text: what a SQL text may contain.
        row_estimate: how to get a row estimate; None without one.
        text_length: the function that counts the characters of a text.
        scramble: a hash of the keys of a row and a seed; None without a hash function.
        has_sized_integers: an INTEGER has four bytes, and a SMALLINT two.
        drivers: by the name of a driver (`dialect.driver`): conversions of its values; most need none.
        own_functions: by name: makes the SQL for one of dualsql's own functions from the SQL of its argument.
        bound_as_text: the type with which a parameter is sent before it is cast; None if it is sent unchanged.
        text_equality: makes SQL for an exact `column = value` from their SQL; None if `=` is exact.
        approximate_distinct: the aggregate for an approximate number of distinct values; empty if there is none.
        random_share: a condition that holds for one of so many rows, chosen at random for each row; None without one.
    """

    name: str
    nulls_last: bool
    groups_strictly: bool
    nulls_last_by_default: tuple[bool, bool] | None
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    key_form: MakeKeyForm
    query: QueryDialect
    text: TextDialect
    is_bytes: Transform
    sorts_conditions: bool = True
    splits_statements: bool = True
    has_row_security: bool = False
    has_roles: bool = False
    has_schemas: bool = False
    has_loose_types: bool = False
    sortable: Transform = unchanged
    has_indexes: bool = True
    searches_row_values: bool = False
    keeps_zones: bool = False
    type_name: Transform | None = None
    storage_class: Transform | None = None
    shown_as_false: Sequence[Any] = ()
    has_loose_comparisons: bool = False
    row_estimate: RowEstimate | None = None
    text_length: str = "length"
    scramble: Callable[[Sequence[ColumnElement[Any]], int], ColumnElement[Any]] | None = None
    approximate_distinct: str = ""
    random_share: Callable[[int], ColumnElement[bool]] | None = None
    has_infinite_dates: bool = False
    spells_instants: bool = False
    has_months: bool = False
    has_single_reals: bool = False
    shortens_reals: bool = False
    divides_in_doubles: bool = False
    floors_in_doubles: bool = False
    tells_apart: Callable[[SQLType], bool] = _always
    compares: Callable[[SQLType], bool] = _always
    shown_scale: Callable[[SQLType], int | None] = lambda _: None
    shows_doubles_rounded: bool = False
    has_sized_integers: bool = True
    drivers: Mapping[str, DriverValues] = field(default_factory=dict)
    own_functions: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    bound_as_text: Callable[[Any], str | None] = _has_its_own
    text_equality: Callable[[str, str], str] | None = None


_REGISTRY = "dualsql.databases.backends"
"""The module that registers the databases.

It is imported by name at first use: plan, tenancy and formats are below the databases and only read their capabilities.
An import here would be a loop.
"""


@cache
def _registry() -> Any:
    return import_module(_REGISTRY)


def capabilities_of(dialect: Dialect) -> Capabilities | None:
    """The capabilities of the dialect's database; None if dualsql does not support it."""
    return capabilities_named(dialect.name)


def capabilities_named(name: str) -> Capabilities | None:
    """The same by SQLAlchemy's name of the dialect, such as `connection.dialect.name`."""
    found = _registry().backend_named(name)
    return None if found is None else found.capabilities
