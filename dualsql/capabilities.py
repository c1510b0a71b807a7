"""What each database can do: order, comparison, cursor values, row estimates.

Code asks for a capability, never for a database's name. Each database states its own in its file under
`dualsql.databases`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Dialect, func, types

from dualsql.columns.own_types import Computation, SQLType
from dualsql_client.wire import Bucket

if TYPE_CHECKING:
    from dualsql.text_dialects import TextDialect

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


def summed(values: ColumnElement[Any]) -> ColumnElement[Any]:
    """The sum of doubles."""
    return func.sum(values, type_=types.Double())


def in_lower_case(text: Expression) -> Expression:
    """The text in lower case, as the database has it."""
    return func.lower(text, type_=types.String())


def first_characters(text: ColumnElement[Any], number: int) -> ColumnElement[Any]:
    """So many characters from the beginning of a text."""
    return func.substr(text, 1, number, type_=types.String())


def _always(_type: SQLType) -> bool:
    return True


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


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
        cut_date: the beginning of the bucket of a date or an instant; None if it has no function for that.
        double: makes a number a double.
        sum_of_integers: the exact sums of 32-bit and of 64-bit integers.
        sum_of_decimals: what a sum of decimals becomes, where the database computes it in doubles.
        sum_of_doubles: the sum of doubles.
        aggregates: by name, what replaces the default in `dualsql.query.aggregates`: a function of the values and the
            fraction, or None if the database does not have the aggregate.
        ranks_rows: percentiles are computed from numbered rows, because percentile_cont() is not an aggregate, or its
            results are not those of PostgreSQL.
    """

    exact: Transform = unchanged
    ordered: Transform = unchanged
    finds_equal_by_index: bool = True
    position: Callable[[Expression, Expression], Expression]
    beginning: Callable[[Expression, int], Expression] = first_characters
    lowered: Transform = in_lower_case
    cut_date: Callable[[Expression, Bucket], Expression | None]
    double: Transform
    sum_of_integers: tuple[Transform, Transform]
    sum_of_decimals: Transform = unchanged
    sum_of_doubles: Transform = summed
    aggregates: dict[str, DatabaseAggregate | None] = field(default_factory=dict)
    ranks_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverValues:
    """How one driver's values are read and bound.

    Attributes:
        types: replacements of SQLAlchemy's types.
        processors: by the driver's code of a column's type: a function that converts the driver's value.
        readers: the same, for types of which SQLAlchemy converts the values after that, such as arrays.
        unfit_codes: codes of types for which the driver may return an `Unfit`; see `dualsql.formats.cells`.
        require: raises an error for the driver's code of a type whose values the driver changes; None if there is none.
    """

    types: Mapping[type[Any], type[Any]] = field(default_factory=dict)
    processors: Mapping[Any, Callable[[Any], Any]] = field(default_factory=dict)
    readers: Mapping[Any, Callable[[Any], Any]] = field(default_factory=dict)
    unfit_codes: frozenset[Any] = frozenset()
    require: Callable[[Any], None] | None = None


LONGEST_PATTERN = 1_000
"""Characters of a regular expression."""


class PatternError(ValueError):
    """A regular expression that is refused before a database reads it. Its text is a sentence that says why."""


def require_short_pattern(pattern: str | None) -> None:
    """Refuse a long regular expression: databases take seconds to read some, and no time limit ends that."""
    if pattern is not None and len(pattern) > LONGEST_PATTERN:
        raise PatternError(f"The pattern is longer than {LONGEST_PATTERN:,} characters.")


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
        computation: how it computes, as far as the types of the values depend on it.
        tells_apart: whether values of a type have equality.
        compares: whether they can be compared with a value in a query.
        type_name: the name of an expression's type, if values are only accepted with their exact type.
        is_bytes: whether an expression of no declared type holds bytes, as a condition.
        storage_class: which kind of value a cell is, whatever its column declares: "integer", "real", "text" or "blob";
            None where a column holds values of its own type alone.
        shown_as_false: what a column of truth values may hold that is shown as false, everything else being shown as
            true; empty where it holds truth values alone. The first is a number.
        has_loose_comparisons: any two types can be compared.
        keeps_zones: an instant of a DateTime(timezone=True) is stored and returned with a zone.
        key_form: how the value of a sort key is read and sent back; None if that is not possible.
        query: how queries over a result are written: conditions on texts, aggregates, buckets of dates.
        text_dialect: returns what a SQL text may contain, which only a server that reads texts needs.
        row_estimate: how to get a row estimate; None without one.
        text_length: counts the characters of a text.
        scramble: a hash of the keys of a row and a seed; None without a hash function.
        has_sized_integers: an INTEGER has four bytes, and a SMALLINT two.
        drivers: by the name of a driver (`dialect.driver`): conversions of its values; most need none.
        own_functions: by name: makes the SQL for one of dualsql's own functions from the SQL of its argument.
        bound_as_text: the type with which a parameter is sent before it is cast; None if it is sent unchanged.
        text_equality: makes SQL for an exact `column = value` from their SQL and the type of the column; None if `=` is
            exact, which is proved at the start of a server with tenants.
        asks_code_points: SQL that returns whether all texts are compared and sorted by code point; empty if they are
            not, or if no query tells.
        approximate_distinct: the aggregate for an approximate number of distinct values; empty if there is none.
        match_function: the function, in our own process, that looks for a regular expression in a text; empty if the
            database itself has one.
        require_pattern: raises a PatternError for a constant regular expression that the database shall not get, and a
            ConfigurationError if it can get none; None stands for one that is not constant.
        row_number: the name of the column that numbers the rows of a table, which is not among its columns; None for a
            view, and if the table has none. A source knows it of its own tables.
        random_share: a condition that holds for one of so many rows, chosen at random for each row; None without one.
    """

    name: str
    nulls_last: bool
    groups_strictly: bool
    nulls_last_by_default: tuple[bool, bool] | None
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    key_form: MakeKeyForm
    query: QueryDialect
    text_dialect: Callable[[], TextDialect]
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
    text_length: Transform = func.length
    scramble: Callable[[Sequence[ColumnElement[Any]], int], ColumnElement[Any]] | None = None
    approximate_distinct: str = ""
    match_function: str = ""
    require_pattern: Callable[[str | None], None] = require_short_pattern
    row_number: Callable[[Any], str | None] = lambda _: None
    random_share: Callable[[int], ColumnElement[bool]] | None = None
    has_infinite_dates: bool = False
    spells_instants: bool = False
    has_months: bool = False
    has_single_reals: bool = False
    shortens_reals: bool = False
    computation: Computation = field(default_factory=Computation)
    tells_apart: Callable[[SQLType], bool] = _always
    compares: Callable[[SQLType], bool] = _always
    has_sized_integers: bool = True
    drivers: Mapping[str, DriverValues] = field(default_factory=dict)
    own_functions: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    bound_as_text: Callable[[Any], str | None] = _has_its_own
    text_equality: Callable[[str, str, SQLType], str] | None = None
    asks_code_points: str = ""

    @property
    def text(self) -> TextDialect:
        """What a SQL text may contain."""
        return _text_dialect(self.text_dialect)


@cache
def _text_dialect(make: Callable[[], TextDialect]) -> TextDialect:
    return make()


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
    try:
        return _KNOWN[dialect]
    except KeyError:
        found = _KNOWN[dialect] = capabilities_named(dialect.name)
        return found


_KNOWN: WeakKeyDictionary[Dialect, Capabilities | None] = WeakKeyDictionary()


def capabilities_named(name: str) -> Capabilities | None:
    """The same by SQLAlchemy's name of the dialect, such as `connection.dialect.name`."""
    found = _registry().backend_named(name)
    return None if found is None else found.capabilities
