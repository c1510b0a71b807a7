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
    """One key of an order, as a database reads and compares it.

    A page begins after the values of a row: a value that comes back changed would repeat rows or lose them. What an
    application sees will not do. SQLAlchemy shows a float as a Decimal of two places; asyncpg reads a month as thirty
    days and the date 9999-12-31 as infinity. So keys are read beside the row, in a form of their own.

    Attributes:
        compared: stands in conditions.
        read: stands in the SELECT; gives the exact value.
        carried: stands for the key in a subquery's SELECT, and compares outside as it does inside.
        given: a value that was read, as an expression to compare with.
        comes_back: whether this very value compares, when it is given, as it did when it was read.
    """

    compared: Expression
    read: Expression
    carried: Expression
    given: Callable[[Any], Expression]
    comes_back: Callable[[Any], bool] = _always_back


class RowEstimate(NamedTuple):
    """How a database is asked how many rows it expects.

    Attributes:
        explain: goes before a statement to ask for its plan, as JSON.
        rows: how many there are going to be, by that plan; None where it does not say.
    """

    explain: str
    rows: Callable[[Any], int | None]


Transform = Callable[[ColumnElement[Any]], ColumnElement[Any]]

DatabaseAggregate = Callable[[Expression, float | None], Expression]
"""An aggregate of some values, and the fraction of one that takes it."""


def unchanged(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    """The expression as it is."""
    return expression


def _always(_type: SQLType) -> bool:
    return True


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


class ResultOf(Enum):
    """What a function of SQL gives that has no type of its own."""

    FIRST_ARGUMENT = auto()
    """A value of the type of its first argument."""
    ARGUMENTS = auto()
    """One of its arguments."""


FunctionResult = SQLType | ResultOf


def functions_that_give(result: FunctionResult, names: str) -> dict[str, FunctionResult]:
    """Functions, by names with spaces between them, and what they give."""
    return dict.fromkeys(names.split(), result)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDialect:
    """What a SQL text may hold that is written for one database, and what its parts mean there.

    The defaults are those of a database of which nothing is known.

    Attributes:
        parser: sqlglot's name of the dialect.
        functions: that a text may call besides those of all databases, in lower case.
        table_functions: that stand in FROM, and the columns they have.
        absent: functions of all databases that this one lacks in every version; they are refused with a suggestion, and
            not by the database's error.
        since: functions that it has from a version on.
        instead: by name: what to write for a function that this database lacks, or has under another name.
        system_tables: what the names of its own tables and schemas begin with; a model that asks for one is told of
            the catalogue.
        whole_quotient: what `/` gives of two whole numbers.
        quotient: what it gives of other numbers; None where that is the type that they have in common.
        averages_in_doubles: avg() and its kin give numbers of eight bytes.
        computes_in_doubles: all computation does, and a constant with a fraction is one.
        whole_division: the operator that divides whole numbers.
        position: the function that finds a text in another one.
        has_btrim: TRIM of given characters is written btrim().
        has_scalar_extremes: max() and min() of several values are no aggregates.
        interval: an interval of so many years, months, weeks, days, hours, minutes and seconds; None without intervals.
        interval_hint: what to write in place of one.
        array: an array of values; None without arrays.
        at_time_zone: a zone and an instant as the instant there; None without zones.
        date_cast_hint: what to write in place of a CAST to a date, where there is no such type.
        has_default_separator: texts are joined without a separator by group_concat(x).
        orders_joined_texts: string_agg() and group_concat() take an ORDER BY.
        orders_aggregates: all aggregates take one.
        has_distinct_on: DISTINCT ON (...) is understood.
        has_superaggregates: ROLLUP, CUBE and GROUPING SETS are.
        sorts_rollups: an ORDER BY may stand beside ROLLUP.
        names_value_columns: an alias of VALUES names its columns.
        has_json_arrows: `->` and `->>` read a part of a document; else json_extract() and json_unquote() do.
        comparisons_can_fail: a comparison of a text with a number is an error where the text is none.
    """

    parser: str = ""
    functions: Mapping[str, FunctionResult] = field(default_factory=dict)
    table_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
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
    """How one database is asked.

    Attributes:
        exact: a text as it is compared by code point, for equality and grouping.
        ordered: ... and for which of two comes first.
        finds_equal_by_index: an index of the column finds what `exact` is equal to; else equality is asked for twice.
        position: function of a text and a part of it, from 1, 0 where it is not in there.
        cut_date: the beginning of the bucket that a date, or an instant, lies in.
        double: a number as one of eight bytes.
        sum_of_integers: of numbers of 32 bits, and of 64.
        aggregates: by name, what stands in place of what `dualsql.query.aggregates` writes: a function of the values
            and the fraction, or None where the database has no such aggregate.
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
        types: what stands in the place of SQLAlchemy's types.
        processors: by the driver's code of a column's type: what makes the value of what the driver gives.
        unfit_codes: codes of types of which the driver may give an `Unfit`; see `dualsql.formats.cells`.
    """

    types: Mapping[type[Any], type[Any]] = field(default_factory=dict)
    processors: Mapping[Any, Callable[[Any], Any]] = field(default_factory=dict)
    unfit_codes: frozenset[Any] = frozenset()


def _has_its_own(_type: Any) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One database's abilities, as far as dualsql depends on them.

    A database's file states what differs from the defaults. These are on the safe side: what a database can do in
    addition is used only if its file says so.

    Attributes:
        name: as people call the database; for messages only.
        nulls_last: ORDER BY x NULLS LAST is understood.
        splits_statements: one string sent to it may hold several statements.
        groups_strictly: an output column must be grouped by, or depend on the primary key of a table.
        has_row_security: rows can be narrowed by policies that read a setting of the transaction.
        has_roles: a session can give up its user's rights for those of a role.
        has_schemas: one database has several schemas, and a connection reads them all.
        has_loose_types: a column may hold values of other types than its own.
        sortable: makes an expression of any type fit for ORDER BY.
        distinguishing: keys for ORDER BY in which values that differ never compare equal.
        nulls_last_by_default: where NULLs stand when ORDER BY does not say, ascending and descending.
        searches_row_values: (a, b) > (x, y) is looked up in an index.
        has_infinite_dates: 'infinity' is a date, and '-infinity' is.
        spells_instants: a timestamp is a text, which may be spelled in several ways.
        has_months: an interval has months apart from days, and its ISO 8601 text is read back.
        has_single_reals: a REAL has four bytes.
        shortens_reals: a number of four bytes is shown with fewer digits than it is compared with.
        divides_in_doubles: a quotient is a number of eight bytes, whatever was divided.
        floors_in_doubles: `whole // whole` is one, too.
        tells_apart: whether values of a type can be told apart, as far as the type says.
        compares: whether they can be compared with a value of a question.
        type_name: the name of an expression's type, where a value is taken for no other type than its own.
        is_bytes: whether an expression of no declared type holds bytes, as a condition.
        storage_class: which kind of value a cell is, whatever its column declares: "integer", "real", "text" or "blob";
            None where a column holds values of its own type alone.
        shown_as_false: what a column of truth values may hold that is shown as false, everything else being shown as
            true; empty where it holds truth values alone. The first is a number.
        has_loose_comparisons: any two types can be compared.
        shown_scale: how many digits are shown of a decimal of this type, where it is a double; None where it is none.
        shows_doubles_rounded: a double that SQLAlchemy takes for a decimal is shown with the digits of its scale.
        keeps_zones: an instant of a DateTime(timezone=True) is stored with its zone, and comes back with one.
        key_form: how the value of an order key is read and given back; None when it cannot be.
        query: how questions about a result are written: conditions on texts, aggregates, buckets of dates.
        text: what a SQL text may hold.
        row_estimate: tells how many rows it expects; None where it does not.
        text_length: the function that counts the characters of a text.
        scramble: a hash of what tells a row from others, and of a seed; None where there is no function for it.
        has_sized_integers: an INTEGER has four bytes, and a SMALLINT two.
        drivers: by the name of a driver (`dialect.driver`): what its values need; most need nothing.
        own_functions: by name: the SQL that is sent for a function of dualsql's own, of the SQL of its argument.
        bound_as_text: the type that a parameter has before it is cast to the given one; None where it is sent as it is.
        text_equality: SQL for `column = value` to the letter, of their SQL; None where `=` is that.
        approximate_distinct: the aggregate that tells roughly how many values there are; empty where there is none.
    """

    name: str
    nulls_last: bool
    groups_strictly: bool
    nulls_last_by_default: tuple[bool, bool]
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    key_form: MakeKeyForm
    query: QueryDialect
    text: TextDialect
    is_bytes: Transform
    splits_statements: bool = True
    has_row_security: bool = False
    has_roles: bool = False
    has_schemas: bool = False
    has_loose_types: bool = False
    sortable: Transform = unchanged
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
"""Where the databases are registered.

It is loaded at the first question, by its name: plan, tenancy and formats stand below the databases and only read what
these state of themselves. An import here would be a loop.
"""


@cache
def _registry() -> Any:
    return import_module(_REGISTRY)


def capabilities_of(dialect: Dialect) -> Capabilities | None:
    """What the dialect's database can do, or None for one that dualsql does not know to keep read-only."""
    return capabilities_named(dialect.name)


def capabilities_named(name: str) -> Capabilities | None:
    """The same by SQLAlchemy's name of the dialect, such as `connection.dialect.name`."""
    found = _registry().backend_named(name)
    return None if found is None else found.capabilities
