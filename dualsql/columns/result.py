"""The columns of a Select with unique names, types and encodings, and what the ORM adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, CompoundSelect, Dialect, Label, Select, schema, type_coerce, types
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import SelectStatementGrouping

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.forecast import Forecast
from dualsql.columns.kinds import AVERAGING
from dualsql.columns.meanings import STANDARD, Meanings
from dualsql.columns.own_types import Meaning, SQLType, is_decorator, plain_type
from dualsql.errors import UnknownColumnError
from dualsql.sqlalchemy_dialects import ranges
from dualsql_client.wire import Column, ColumnType, Encoding

Query = TypeVar("Query", bound=Executable)


class DriverValue(types.NullType):
    """The type of a value that is sent back to the driver: it is read as the driver returns it."""

    cache_ok = True


# Their SQLAlchemy type is unknown (NullType) although the value is a number in every database.
_NUMERIC_FUNCTIONS = AVERAGING | {"abs", "ceil", "ceiling", "floor", "round", "sum", "total"}

# The first match decides, so subclasses stand before what they derive from.
_BY_CLASS: tuple[tuple[type[Any] | tuple[type[Any], ...], ColumnType, Encoding], ...] = (
    (types.Boolean, "boolean", "boolean"),
    (types.Integer, "number", "integer"),
    (types.DateTime, "date", "datetime"),
    (types.Date, "date", "date"),
    (types.Time, "string", "time"),
    (types.Uuid, "string", "uuid"),
    (types.LargeBinary, "string", "base64"),
    (types.JSON, "string", "json"),
    (types.Enum, "string", "text"),
    (types.String, "string", "text"),
    (ranges.AbstractRange, "string", "text"),
)


@dataclass(frozen=True, eq=False, repr=False)
class ResultColumn:
    """A column of a statement: its unique name, its expression, and the type of its values.

    Attributes:
        is_computed: the values are not those of a column of a table: the type is stated, or a forecast.
        meanings: what the values of types are, on this database and in this application.
    """

    name: str
    expression: ColumnElement[Any]
    type: SQLType
    is_computed: bool = False
    meanings: Meanings = field(default=STANDARD, repr=False, compare=False)

    @cached_property
    def meaning(self) -> Meaning:
        """What its values are."""
        return self.meanings.of(self.type)

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding of its values."""
        return self._announced["encoding"]

    @cached_property
    def shown(self) -> SQLType:
        """SQLAlchemy's type for the shown values."""
        return self.meaning.shown

    @property
    def is_untyped(self) -> bool:
        """Whether nothing tells the type of its values."""
        return isinstance(self.type, types.NullType)

    @cached_property
    def stored(self) -> SQLType:
        """The type that the database stores, without the application's code."""
        return self.meaning.stored

    @cached_property
    def driver_name(self) -> str:
        """The name that a database gives it; empty where the database chooses one."""
        return self.name if is_named(self.expression) and own_name(self.expression) == self.name else ""

    def moved(self, element: ColumnElement[Any]) -> ResultColumn:
        """The same column in an outer statement, where `element` stands for it."""
        is_known = _is_equal(element.type, self.type)
        return replace(self, expression=element if is_known else type_coerce(element, self.type))

    @property
    def read(self) -> ColumnElement[Any]:
        """The expression with the type of its values, which is that of the column of a subquery, too."""
        if _is_equal(self.expression.type, self.type):
            return self.expression
        return Label(self.name, self.expression, self.type)

    def describe(self) -> Column:
        """The description of the column in answers."""
        return self._announced.copy()

    @cached_property
    def _announced(self) -> Column:
        kind, encoding = classify(self.shown)
        if encoding == "any" and _is_numeric_function(self.expression):
            kind = "number"
        column = Column(name=self.name, type=kind, encoding=encoding)
        if encoding == "array":
            items = getattr(self.shown, "item_type", types.NULLTYPE)
            column["items"] = classify(self.meanings.of(items).shown)[1]
        return column


@lru_cache(256)
def _is_equal(one: SQLType, other: SQLType) -> bool:
    # Most are the same object, and repr() of a type takes 20 us.
    return one is other or repr(one) == repr(other)


def result_columns(
    statement: Any, meanings: Meanings = STANDARD, names: Sequence[str] | None = None
) -> tuple[ResultColumn, ...]:
    """The columns of a Select, by their `unique_names`, which may be given."""
    names, forecast = names or unique_names(statement), Forecast(meanings)
    columns: list[ResultColumn] = []
    for name, expression in zip(names, internals.outputs_of(statement), strict=True):
        # All statements share those of tables. One that the ORM has annotated equals the table's, but is of one Select.
        is_of_table = type(expression) is schema.Column and isinstance(expression.table, schema.Table)
        kept = meanings.columns if is_of_table else {}
        if (column := kept.get((name, expression))) is None:
            column = ResultColumn(name, expression, *forecast.of(expression), meanings)
            kept[name, expression] = column
        columns.append(column)
    return tuple(columns)


class DriverNames(tuple[str, ...]):  # noqa: SLOT001 - a subclass of tuple cannot have nonempty __slots__
    """The names that a database gives the columns of a statement; empty where the database chooses one.

    Attributes:
        types: those of the columns that are known.
    """

    types: tuple[SQLType, ...] = ()

    def followed_by(self, number: int) -> DriverNames:
        """The names, and so many more columns of which nothing is known."""
        names = DriverNames((*self, *("",) * number))
        names.types = self.types
        return names


def driver_names(columns: Sequence[ResultColumn]) -> DriverNames:
    """The names that a database gives these columns, with the types of what is stored."""
    names = DriverNames([column.driver_name for column in columns])
    names.types = tuple([column.stored for column in columns])
    return names


def is_named(expression: ColumnElement[Any]) -> bool:
    """Whether it is a column or a label, and not bare text."""
    return isinstance(expression, ColumnClause | Label) and not getattr(expression, "is_literal", False)


def chosen_columns(columns: Sequence[ResultColumn], names: Sequence[str] | None) -> Sequence[ResultColumn]:
    """The columns with these names, in their order; all for None.

    Raises:
        UnknownColumnError: a column is unknown.
    """
    if names is None:
        return columns
    by_name = {column.name: column for column in columns}
    unknown = next((name for name in names if name not in by_name), None)
    if unknown is not None:
        raise UnknownColumnError(unknown, list(by_name))
    return [by_name[name] for name in names]


@lru_cache(4096)
def is_sqlalchemys_own(type_: SQLType, dialect: Dialect) -> bool:
    """Whether only code of SQLAlchemy and dualsql makes the values."""
    if is_decorator(type_):
        return False
    items = getattr(type_, "item_type", None)
    if items is not None and not is_sqlalchemys_own(items, dialect):
        return False
    used = (type_, type_.dialect_impl(dialect))
    return all(type(one).__module__.startswith(("sqlalchemy.", "dualsql.")) for one in used)


@lru_cache(4096)
def classify(type_: SQLType) -> tuple[ColumnType, Encoding]:
    """The kind and the encoding of the values of a type."""
    plain = plain_type(type_)  # an Interval is a decorator, too
    if isinstance(plain, types.Numeric | types.Float):
        return "number", "decimal" if plain.asdecimal else "float"
    if internals.type_affinity(plain) is types.Interval:
        return "string", "interval"
    if isinstance(plain, types.ARRAY):
        return "string", "array"
    for classes, kind, encoding in _BY_CLASS:
        if isinstance(plain, classes):
            return kind, encoding
    return "string", "any"


def _is_numeric_function(expression: ColumnElement[Any]) -> bool:
    inner = getattr(expression, "element", expression)
    if not isinstance(inner, FunctionElement) or getattr(inner, "name", "") not in _NUMERIC_FUNCTIONS:
        return False
    return not any(internals.type_affinity(one.type) is types.Interval for one in inner.clauses)


def unique_names(statement: Any) -> list[str]:
    """The names of the outputs of a Select. Equal ones are distinguished by their table, or else by a number.

    Names are equal in any case of their letters: databases read the first column of a subquery for both.
    """
    outputs = internals.outputs_of(statement)
    own_names = ["" if _is_our_own(each) else own_name(each) for each in outputs]
    if not all(own_names):
        keyed = zip(own_names, statement.selected_columns.items(), strict=True)
        own_names = [name or ("" if _is_our_own(each) else _plain_key(key)) for name, (key, each) in keyed]
    reserved = set(map(str.casefold, own_names)) - {""}
    if len(reserved) == len(own_names):
        return own_names
    used: set[str] = set()
    names = []
    for position, (name, expression) in enumerate(zip(own_names, outputs, strict=True), start=1):
        if not name or name.casefold() in used:
            name = _free_name(name, expression, position, reserved | used)
        used.add(name.casefold())
        names.append(name)
    return names


def _is_our_own(expression: object) -> bool:
    """Whether it is a function of `Capabilities.own_functions`, whose name no author wrote."""
    return isinstance(expression, FunctionElement) and own_name(expression).startswith("dualsql_")


def _plain_key(key: str | None) -> str:
    # What has no name may have a key: a column_property or hybrid has that of its attribute.
    return "" if key is None or "%(" in key or key.startswith("_no_label") else key


def own_name(element: object) -> str:
    """The name of an expression itself; empty if SQLAlchemy makes one when it compiles."""
    # An anonymous name is a format string such as "%(1234 count)s"; it is worth nothing to a reader.
    name = getattr(element, "name", None) or ""
    return "" if "%(" in name else str(name)


def _free_name(name: str, expression: ColumnElement[Any], position: int, reserved: set[str]) -> str:
    table = own_name(getattr(expression, "table", None))
    stem = name or f"column_{position}"
    first = f"{table}_{name}" if name and table else stem
    candidates = [first, *(f"{stem}_{number}" for number in range(2, len(reserved) + 3))]
    return next(candidate for candidate in candidates if candidate.casefold() not in reserved)


#
# What the ORM adds to a Select: the columns of mapped classes, and options.


def criteria_options(part: Any) -> tuple[Any, ...]:
    """The with_loader_criteria() options of a statement, without its other options."""
    return tuple(
        option for option in internals.statement_options(part) if internals.is_criteria_option(option)
    )


def has_loaders(statement: Any) -> bool:
    """Whether it has options besides with_loader_criteria()."""
    parts = (statement, *internals.earlier_selects(statement))
    return any(len(criteria_options(part)) < len(internals.statement_options(part)) for part in parts)


def selected_items(statement: Any) -> list[Any]:
    """What was passed to select(), lambdas resolved."""
    columns: list[Any] = []
    for column in internals.raw_columns(statement):
        value = internals.resolved_lambda(column) if isinstance(column, LambdaElement) else column
        columns += value if isinstance(value, list | tuple) else [value]
    return columns


def is_open(statement: Any) -> bool:
    """Whether the ORM decides which columns there are, in a Select or in a part of a set operation."""
    if isinstance(statement, SelectStatementGrouping):
        return is_open(statement.element)
    if isinstance(statement, CompoundSelect):
        return has_loaders(statement) or any(map(is_open, statement.selects))
    return isinstance(statement, Select) and (
        has_loaders(statement)
        or any(
            notes.get("bundle") or (column.is_selectable and "parententity" in notes)
            for column in selected_items(statement)
            if (notes := internals.annotations_of(column))
        )
    )


def with_criteria_of(inner: Any, outer: Query) -> Query:
    """`outer` with the criteria of the statement inside it.

    SQLAlchemy reads options of the outermost statement only: with_loader_criteria() would have no effect on a Select in
    a subquery. All other options are removed before (`dualsql.plan.entities`).
    """
    parts = (inner, *internals.earlier_selects(inner))
    criteria = [option for part in parts for option in criteria_options(part)]
    return outer.options(*criteria) if criteria else outer
