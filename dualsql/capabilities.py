"""What each database can do: order, comparison, cursor values, row estimates.

Code asks for a capability, never for a database's name. Each database states its own in its file under
`dualsql.databases`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Dialect

from dualsql.columns.own_types import Computation, Element, SQLType, Transform

if TYPE_CHECKING:
    from dualsql.query_dialects import QueryDialect
    from dualsql.text_dialects import TextDialect


class KeyForm(NamedTuple):
    """How a database reads and compares a sort key.

    A page begins after the key values of a row. If a value changed on its way, rows would be repeated or lost. The
    values that an application sees are not exact enough: SQLAlchemy shows a float as a Decimal of two places, and
    asyncpg reads a month as thirty days and the date 9999-12-31 as infinity. So keys are read beside the row in a form
    of their own.

    Attributes:
        compared: the expression in conditions.
        read: the expression in the SELECT, which gives the exact value.
        carried: the expression in the SELECT of a subquery, which compares outside as the key does inside.
        bind: makes an expression from a value that was read.
        round_trips: whether a value compares, when it is sent back, as it did when it was read; None if each does.
    """

    compared: Element
    read: Element
    carried: Element
    bind: Callable[[Any], Element]
    round_trips: Callable[[Any], bool] | None = None


class RowEstimate(NamedTuple):
    """How a database's planner is asked for a row estimate.

    Attributes:
        explain: the prefix of a statement that returns its plan as JSON.
        rows: the estimated number of rows in a plan; None if there is none.
    """

    explain: str
    rows: Callable[[Any], int | None]


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


class DriverValues(NamedTuple):
    """How one driver's values are read and bound.

    Attributes:
        types: replacements of SQLAlchemy's types.
        processors: by the driver's code of a column's type: a function that converts the driver's value.
        readers: the same, for types of which SQLAlchemy converts the values after that, such as arrays.
        unfit_codes: codes of types for which the driver may return an `Unfit`; see `dualsql.columns.exact`.
        require: raises an error for the driver's code of a type whose values the driver changes; None if there is none.
    """

    types: Mapping[type[Any], type[Any]] = MappingProxyType({})
    processors: Mapping[Any, Callable[[Any], Any]] = MappingProxyType({})
    readers: Mapping[Any, Callable[[Any], Any]] = MappingProxyType({})
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


@dataclass(frozen=True, eq=False, repr=False)
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
        before_windows: SQL before a statement with window functions.
        groups_before_order: ORDER BY beside GROUP BY neither changes a sum nor is slower than in an outer SELECT.
        has_schemas: one database has several schemas, and a connection reads them all.
        has_loose_types: a column may contain values of other types than its own.
        sortable: makes an expression of any type sortable.
        distinguishing: keys for ORDER BY in which values that differ never compare equal.
        nulls_last_by_default: whether NULLs come last without NULLS FIRST or LAST, ascending and descending; None if
            that is not known, and every key says it.
        has_indexes: a condition on a sort key finds its rows without reading others, and two such queries, for values
            and for NULLs, are faster than one with OR.
        searches_row_values: (a, b) > (x, y) uses an index.
        spells_instants: a timestamp is a text with several spellings.
        computation: how it computes, as far as the types of the values depend on it.
        keeps_zones: an instant of a DateTime(timezone=True) is stored and returned with a zone.
        key_form: how the value of a sort key is read and sent back; None if that is not possible.
        query_dialect: returns how queries over a result are written, which only a server that answers some needs.
        text_dialect: returns what a SQL text may contain, which only a server that reads texts needs.
        row_estimate: how to get a row estimate; None without one.
        has_sized_integers: an INTEGER has four bytes, and a SMALLINT two.
        drivers: by the name of a driver (`dialect.driver`): conversions of its values; most need none.
        own_functions: by name: makes the SQL for one of dualsql's own functions from the SQL of its argument.
        bound_as_text: the type with which a parameter is sent before it is cast; None if it is sent unchanged.
        text_equality: makes SQL for an exact `column = value` from their SQL and the type of the column; None if `=` is
            exact, which is proved at the start of a server with tenants.
        asks_code_points: SQL that returns whether all texts are compared and sorted by code point; empty without one.
        match_function: the function, in our own process, that looks for a regular expression in a text; empty if the
            database itself has one.
        require_pattern: raises a PatternError for a constant regular expression that the database shall not get, and a
            ConfigurationError if it can get none; None stands for one that is not constant.
        row_number: the name of the column that numbers the rows of a table, which is not among its columns; None for a
            view, and if the table has none; empty if columns have all its names, or the key of the table may repeat.
        is_filled: whether a column of a table is never NULL. A source knows both of its own tables.
        constraints: the module that asks for the constraints of tables; without one, orders rely on declared ones.
    """

    name: str
    nulls_last: bool
    groups_strictly: bool
    nulls_last_by_default: tuple[bool, bool] | None
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    key_form: MakeKeyForm
    query_dialect: Callable[[], QueryDialect]
    text_dialect: Callable[[], TextDialect]
    before_windows: str = ""
    groups_before_order: bool = False
    sorts_conditions: bool = True
    splits_statements: bool = True
    has_schemas: bool = False
    has_loose_types: bool = False
    sortable: Transform = lambda expression: expression
    has_indexes: bool = True
    searches_row_values: bool = False
    keeps_zones: bool = False
    row_estimate: RowEstimate | None = None
    match_function: str = ""
    require_pattern: Callable[[str | None], None] = require_short_pattern
    row_number: Callable[[Any], str | None] = lambda _: None
    is_filled: Callable[[Any], bool] = lambda column: column.nullable is False
    constraints: str = ""
    spells_instants: bool = False
    computation: Computation = field(default_factory=Computation)
    has_sized_integers: bool = True
    drivers: Mapping[str, DriverValues] = field(default_factory=dict)
    own_functions: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    bound_as_text: Callable[[Any], str | None] = lambda _: None
    text_equality: Callable[[str, str, SQLType], str] | None = None
    asks_code_points: str = ""

    @cached_property
    def text(self) -> TextDialect:
        """What a SQL text may contain."""
        return self.text_dialect()

    @cached_property
    def query(self) -> QueryDialect:
        """How queries over a result are written."""
        return self.query_dialect()


def capabilities_of(dialect: Dialect) -> Capabilities:
    """The capabilities of a source's database, by its dialect."""
    capabilities = capabilities_named(dialect.name)
    assert capabilities is not None, "a source has a dialect that SQLAlchemy knows"
    return capabilities


def capabilities_named(name: str) -> Capabilities | None:
    """The capabilities of the database whose dialect has this name; None if there is no such dialect."""
    # By name: plan, tenancy and formats are below the databases, and only read their capabilities.
    backend = import_module("dualsql.databases.backends").backend_named(name)
    return None if backend is None else backend.capabilities
