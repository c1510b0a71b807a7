"""The columns of a Select with unique names, types and encodings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import (
    BinaryExpression,
    BindParameter,
    Case,
    Cast,
    ColumnElement,
    Dialect,
    Extract,
    Function,
    Label,
    Null,
    Over,
    ScalarSelect,
    TypeCoerce,
    type_coerce,
    types,
)
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ClauseList, ColumnClause, FunctionFilter, Grouping, WithinGroup
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import (
    AliasedReturnsRows,
    CompoundSelect,
    SelectBase,
    SelectStatementGrouping,
)
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.dialect_types import ranges
from dualsql.columns.own_types import STANDARD, Meaning, Meanings, SQLType, plain_type
from dualsql.errors import UnknownColumnError
from dualsql_client.wire import Column, ColumnType, Encoding

__all__ = ["ResultColumn", "SQLType", "chosen_columns", "has_zone", "plain_type", "result_columns"]


class DriverValue(types.NullType):
    """The type of a value that is sent back to the driver: it is read as the driver returns it."""

    cache_ok = True


class CharByte(str):
    """A value of PostgreSQL's "char" as text; asyncpg reads and binds it as bytes."""

    __slots__ = ()


# Their SQLAlchemy type is unknown (NullType) although the value is a number in every database.
_NUMERIC_FUNCTIONS = frozenset(
    {"avg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "total", "median"}
)

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


@dataclass(frozen=True)
class ResultColumn:
    """A column of a statement: its unique name, its expression, and the type of its values.

    Attributes:
        is_computed: the type is that of the numbers an engine computes, which SQLAlchemy takes for another.
        is_quotient: a decimal that was divided. An engine that divides in doubles has more digits than are shown.
        is_cast_quotient: ... and every quotient in it stands in a CAST to a decimal.
        is_double: a decimal to SQLAlchemy, and a double to every engine.
        meanings: what the values of types are, on this database and in this application.
    """

    name: str
    expression: ColumnElement[Any]
    type: SQLType
    is_computed: bool = False
    is_quotient: bool = False
    is_cast_quotient: bool = False
    is_double: bool = False
    meanings: Meanings = field(default=STANDARD, repr=False, compare=False)

    # Each page asks for these several times, and the columns of a stored statement outlast it.
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

    def moved(self, element: ColumnElement[Any]) -> ResultColumn:
        """The same column in an outer statement, where `element` stands for it."""
        is_known = isinstance(element.type, types.NullType) and not isinstance(self.type, types.NullType)
        typed = type_coerce(element, self.type) if self.is_computed or is_known else element
        return replace(self, expression=typed)

    def describe(self) -> Column:
        """The description of the column in answers."""
        return self._announced.copy()

    @cached_property
    def _announced(self) -> Column:
        kind, encoding = _classify(self.shown)
        if encoding == "any" and _is_numeric_function(self.expression):
            kind = "number"
        column = Column(name=self.name, type=kind, encoding=encoding)
        if encoding == "array":
            items = getattr(self.shown, "item_type", types.NULLTYPE)
            column["items"] = _classify(self.meanings.of(items).shown)[1]
        return column


def result_columns(
    outputs: Iterable[tuple[str | None, ColumnElement[Any]]], meanings: Meanings = STANDARD
) -> tuple[ResultColumn, ...]:
    """Name the outputs of a Select, given as `selected_columns.items()`.

    Equal names are distinguished by their table, or else by a number.
    """
    listed = list(outputs)
    return tuple(
        result_column(name, expression, meanings)
        for name, (_, expression) in zip(_unique_names(listed), listed, strict=True)
    )


def result_column(name: str, expression: ColumnElement[Any], meanings: Meanings = STANDARD) -> ResultColumn:
    """The column with that name and the type that the database gives the expression."""
    computed = computed_type(expression) or _floored_type(expression, meanings)
    type_ = computed or known_type(expression, meanings) or expression.type
    return ResultColumn(
        name,
        expression,
        type_,
        is_computed=computed is not None or any(expression.type is number for number in _NUMBERS),
        is_quotient=_is_quotient(expression),
        is_cast_quotient=_is_quotient(expression) and not any(map(_is_division, _outside_casts(expression))),
        is_double=_is_double(expression),
        meanings=meanings,
    )


class DriverNames(tuple[str, ...]):  # noqa: SLOT001 - a subclass of tuple has none that hold something
    """The names that a database gives the columns of a statement; empty where the database chooses one.

    Attributes:
        types: those of the columns that are known.
    """

    types: tuple[SQLType, ...] = ()

    def followed_by(self, number: int) -> DriverNames:
        """The names, and so many more columns of which nothing is known."""
        found = DriverNames((*self, *("",) * number))
        found.types = self.types
        return found


def driver_names(columns: Sequence[ResultColumn]) -> DriverNames:
    """The names that a database gives these columns, with the types of what is stored."""
    found = DriverNames(column.name if _is_sent_with_its_name(column) else "" for column in columns)
    found.types = tuple(plain_type(column.type) for column in columns)
    return found


def _is_sent_with_its_name(column: ResultColumn) -> bool:
    expression = column.expression
    is_named = isinstance(expression, Label) or (
        isinstance(expression, ColumnClause) and not expression.is_literal
    )
    return is_named and own_name(expression) == column.name


def chosen_columns(columns: Sequence[ResultColumn], names: Sequence[str] | None) -> Sequence[ResultColumn]:
    """The columns with these names, in their order; all for None.

    Raises:
        UnknownColumnError: a column is unknown.
    """
    if names is None:
        return columns
    named = {column.name: column for column in columns}
    unknown = next((name for name in names if name not in named), None)
    if unknown is not None:
        raise UnknownColumnError(unknown, list(named))
    return [named[name] for name in names]


def has_zone(column: ResultColumn, *, keeps_zones: bool) -> bool:
    """Whether the instants of a column are shown with a zone, on a database that `keeps_zones`."""
    is_zoned = column.meaning.is_zoned
    return keeps_zones and bool(getattr(column.shown, "timezone", False)) if is_zoned is None else is_zoned


def is_sqlalchemys_own(type_: SQLType, dialect: Dialect) -> bool:
    """Whether only code of SQLAlchemy and dualsql makes the values."""
    if isinstance(type_, types.TypeDecorator) and not isinstance(type_, types.Interval):
        return False
    items = getattr(type_, "item_type", None)
    if items is not None and not is_sqlalchemys_own(items, dialect):
        return False
    used = (type_, type_.dialect_impl(dialect))
    return all(type(one).__module__.startswith(("sqlalchemy.", "dualsql.")) for one in used)


def computed_type(expression: ColumnElement[Any]) -> SQLType | None:
    """The type of the numbers an engine makes of several, where SQLAlchemy goes by one of them; else None.

    `coalesce(whole, 0.5)` is a whole number to SQLAlchemy, which takes the type of the first argument, or of the
    last alternative of a CASE; every engine computes in the widest of them.
    """
    known = _number(expression.type)
    if known is None or isinstance(expression.type, types.TypeDecorator):
        return None
    widest = _widest(expression, {})
    return _NUMBERS[widest] if widest is not None and widest > known else None


def parts_of(statement: Any) -> Iterator[Any]:
    """The SELECTs of a set operation, or the SELECT itself."""
    if isinstance(statement, SelectStatementGrouping):
        yield from parts_of(statement.element)
    elif isinstance(statement, CompoundSelect):
        for part in statement.selects:
            yield from parts_of(part)
    else:
        yield statement


def united_type(parts: Sequence[ColumnElement[Any]]) -> SQLType | None:
    """The type of a column of a set operation, of which SQLAlchemy takes that of the first part; None if it is right.

    Databases use a type that holds the values of all parts. Where they have no common kind, no type is announced.
    """
    known = [part for part in parts if not isinstance(part.type, types.NullType)]
    if isinstance(parts[0].type, types.NullType) or any(
        isinstance(part.type, types.TypeDecorator) for part in known
    ):
        return None
    first = parts[0].type
    numbers = [_widest(part, {}) for part in known]
    if None not in numbers:
        widest = max(number for number in numbers if number is not None)
        declared = {repr(part.type) for part in known}
        if widest > (_number(first) or 0) or (widest == 0 and "BigInteger()" in declared - {repr(first)}):
            return _NUMBERS[widest]
        has_digits = widest == _DECIMAL and getattr(plain_type(first), "scale", None) is not None
        # On SQLite, it is SQLAlchemy that rounds to the digits of the first part.
        digits = types.Numeric().with_variant(plain_type(first), "sqlite")
        return digits if has_digits and len(declared) > 1 else None
    encodings = {_classify(part.type)[1] for part in known}
    if encodings <= {"date", "datetime"}:
        is_zoned = any(getattr(part.type, "timezone", False) for part in known)
        united = types.DateTime(timezone=is_zoned)
        return united if "datetime" in encodings and repr(united) != repr(plain_type(first)) else None
    return None if len(encodings) == 1 else types.NullType()


def _is_quotient(expression: Any) -> bool:
    is_decimal = isinstance(expression.type, types.Numeric) and expression.type.asdecimal
    return is_decimal and any(map(_is_division, iterate(expression)))


def _is_division(part: Any) -> bool:
    return getattr(part, "operator", None) is operators.truediv


def _outside_casts(expression: Any) -> Iterator[Any]:
    """The parts of an expression outside of any CAST to a decimal."""
    if isinstance(expression, Cast) and isinstance(expression.type, types.Numeric):
        return
    yield expression
    for part in expression.get_children():
        yield from _outside_casts(part)


def _is_double(expression: Any) -> bool:
    is_decimal = isinstance(expression.type, types.Numeric) and expression.type.asdecimal
    return is_decimal and any(
        isinstance(part, FunctionElement) and getattr(part, "name", "") in {"percent_rank", "cume_dist"}
        for part in iterate(expression)
    )


def _floored_type(expression: Any, meanings: Meanings) -> SQLType | None:
    """The type of `whole // whole` if the database returns a double."""
    while isinstance(expression, Label | Grouping):
        expression = expression.element
    is_floored = isinstance(expression, BinaryExpression) and expression.operator is operators.floordiv
    return types.Double() if is_floored and meanings.floors_in_doubles else None


def known_type(expression: Any, meanings: Meanings) -> SQLType | None:
    """The type of what a function gives that SQLAlchemy has no type for, though every engine has one; else None.

    Only where the driver gives the values of that type as they are: nothing else is made of them.
    """
    if not isinstance(expression.type, types.NullType):
        return None
    while isinstance(expression, Label | Grouping | Over | FunctionFilter):
        expression = expression.func if isinstance(expression, FunctionFilter) else expression.element
    if not isinstance(expression, FunctionElement):
        return None
    name, given = str(getattr(expression, "name", "")).lower(), [one.type for one in expression.clauses]
    if name in _OF_TEXTS:
        if given and isinstance(given[0], ranges.AbstractRange):
            return _BOUNDS.get(type(given[0])) if name in {"lower", "upper"} else None
        # Bytes stay bytes in some of them.
        return None if any(isinstance(type_, types.LargeBinary) for type_ in given) else types.String()
    place, kinds = _OF_AN_ARGUMENT.get(name, (0, ()))
    type_ = given[place] if place < len(given) else types.NULLTYPE
    is_one = isinstance(type_, kinds) and not isinstance(type_, types.Enum)
    return type_ if is_one and meanings.are_as_read(type_) else None


_OF_TEXTS = frozenset(
    {"string_agg", "group_concat", "listagg", "upper", "lower", "initcap", "concat_ws", "to_char"}
)
"""Functions of every engine that has them that give texts, whatever they take."""

_BOUNDS: dict[type[SQLType], SQLType] = {
    **dict.fromkeys((ranges.INT4RANGE, ranges.INT4MULTIRANGE), types.Integer()),
    **dict.fromkeys((ranges.INT8RANGE, ranges.INT8MULTIRANGE), types.BigInteger()),
    **dict.fromkeys((ranges.NUMRANGE, ranges.NUMMULTIRANGE), types.Numeric()),
    **dict.fromkeys((ranges.DATERANGE, ranges.DATEMULTIRANGE), types.Date()),
    **dict.fromkeys((ranges.TSRANGE, ranges.TSMULTIRANGE), types.DateTime()),
    **dict.fromkeys((ranges.TSTZRANGE, ranges.TSTZMULTIRANGE), types.DateTime(timezone=True)),
}
"""What lower() and upper() of a range give."""

_ANY_KIND = (types.String, types.Integer, types.Boolean, types.Date, types.DateTime)
_OF_AN_ARGUMENT: dict[str, tuple[int, tuple[type[SQLType], ...]]] = {
    "date_trunc": (1, (types.DateTime,)),
    **dict.fromkeys(("lag", "lead", "first_value", "last_value", "nth_value", "any_value"), (0, _ANY_KIND)),
    **dict.fromkeys(("substr", "substring", "trim", "ltrim", "rtrim", "replace"), (0, (types.String,))),
}
"""Functions that give values of the type of one of their arguments: its place, and the types for which they do."""

_ARITHMETIC = frozenset({operators.add, operators.sub, operators.mul, operators.mod})

# From the narrowest to the widest.
_NUMBERS: tuple[SQLType, ...] = (
    types.BigInteger(),
    # SQLite computes in doubles.
    types.Numeric().with_variant(types.Double(), "sqlite"),
    types.Double(),
)
_DECIMAL = 1
_DOUBLE = 2
_WITH_FRACTIONS = frozenset({"epoch", "second", "seconds", "milliseconds", "julian"})
"""Fields that PostgreSQL's extract() gives as decimals, which SQLAlchemy takes for whole numbers."""
_OF_THEIR_ARGUMENTS = frozenset(
    {"coalesce", "ifnull", "nvl", "greatest", "least", "max", "min", "sum", "abs"}
)
_OF_THEIR_LEFT_SIDE = frozenset({"||", "->", "#>", "#-"})
"""Operators whose values have the type of their left side, on every engine that has them."""
_OF_THE_OTHERS = frozenset({"if", "iif"})
_POWERS = frozenset({"pow", "power"})


def _number(type_: SQLType) -> int | None:
    plain = plain_type(type_)
    if isinstance(plain, types.Integer):
        return 0
    if isinstance(plain, types.Numeric | types.Float):
        return 1 if plain.asdecimal else 2
    return None


def _widest(expression: Any, found: dict[Any, int | None]) -> int | None:
    """The widest number type of the parts; None if one of them is not a number.

    Args:
        found: what is known already. CTEs that read each other twice have exponentially many paths.
    """
    if expression not in found:
        found[expression] = _number_of(expression, found)
    return found[expression]


def _number_of(expression: Any, found: dict[Any, int | None]) -> int | None:
    if isinstance(expression, BinaryExpression) and expression.operator is operators.truediv:
        # Of two whole numbers SQLAlchemy makes a fraction: on SQLite a double, elsewhere a decimal.
        sides = [_widest(expression.left, found), _widest(expression.right, found)]
        return max(_DECIMAL, *(side for side in sides if side is not None))
    if isinstance(expression, Extract) and expression.field.lower() in _WITH_FRACTIONS:
        return _DECIMAL
    if isinstance(expression, WithinGroup) and getattr(expression.element, "name", "") == "percentile_cont":
        kind = _number(expression.type)
        return _DOUBLE if kind == 0 else kind  # it is between two of the values
    if isinstance(expression, FunctionElement) and getattr(expression, "name", "").lower() in _POWERS:
        kind = _number(expression.type)
        return _DOUBLE if kind == 0 else kind  # every engine computes that of whole numbers in doubles
    parts = _parts(expression)
    if parts is None:
        return None if isinstance(expression.type, types.TypeDecorator) else _number(expression.type)
    numbers = [_widest(part, found) for part in parts if not isinstance(part.type, types.NullType)]
    known = _number(expression.type)
    if known is None or not numbers or None in numbers:
        return known
    return max(known, *(number for number in numbers if number is not None))


def _parts(expression: Any) -> list[Any] | None:
    """The parts that determine the type of an expression; None if it has its own type."""
    if isinstance(expression, Label | Grouping):
        return [expression.element]
    if isinstance(expression, Case):
        return [result for _, result in expression.whens] + (
            [] if expression.else_ is None else [expression.else_]
        )
    if isinstance(expression, BinaryExpression) and expression.operator in _ARITHMETIC:
        return [expression.left, expression.right]
    if isinstance(expression, FunctionElement):
        name = str(getattr(expression, "name", "")).lower()
        arguments = list(expression.clauses)
        if name in _OF_THEIR_ARGUMENTS:
            return arguments
        if name in _OF_THE_OTHERS:
            return arguments[1:]
    if isinstance(expression, Over):
        return [expression.element]
    if isinstance(expression, FunctionFilter):
        return [expression.func]
    return _beneath(expression) if isinstance(expression, ColumnClause) else None


def _beneath(column: Any) -> list[Any] | None:
    """The expressions that a column of a subquery shows, one of each SELECT; None for another column."""
    source = column.table
    while isinstance(source, AliasedReturnsRows) and not getattr(source, "recursive", False):
        if isinstance(source.element, SelectBase):
            place = next((n for n, one in enumerate(column.table.c) if hash(one) == hash(column)), None)
            outputs = [list(part.selected_columns) for part in parts_of(source.element)]
            if place is None or any(len(found) != len(column.table.c) for found in outputs):
                return None
            return [found[place] for found in outputs]
        source = source.element
    return None


def database_type(expression: ColumnElement[Any]) -> SQLType | None:
    """The type of the values in the database; None where SQLAlchemy guesses it.

    `x.op("<<")(y)` has the type of x to SQLAlchemy, and coalesce(date, timestamp) that of its first argument.
    """
    while isinstance(expression, TypeCoerce):  # which says what Python makes of the values
        expression = expression.clause
    seen: set[Any] = set()
    left: list[Any] = [expression]
    while left:
        part = left.pop()
        if part not in seen:
            seen.add(part)
            if _is_guessed(part):
                return None
            left += _operands(part)
    return expression.type


def _is_guessed(part: Any) -> bool:
    """Whether the database may give another type, though the types of all operands are right."""
    if any(_is_unknown_operator(getattr(part, place, None)) for place in ("operator", "modifier")):
        return _kind(part.type) == _kind(next(iter(part.get_children())).type)
    values = [] if isinstance(part, BinaryExpression) else _values(part) or []
    return any(_kind(value.type) != _kind(part.type) for value in values if _is_typed(value))


def _operands(part: Any) -> Iterable[Any]:
    """The expressions that its type is made of; none where the type is stated."""
    if isinstance(part, Cast | BindParameter) or type(part) is Function:
        return ()
    values = _values(part)
    if values is not None:
        return values
    children = () if isinstance(part, ColumnClause) else part.get_children()
    return (child for child in children if isinstance(child, ColumnElement | ClauseList))


def _values(part: Any) -> list[Any] | None:
    if isinstance(part, TypeCoerce):
        return [part.clause]
    if isinstance(part, ScalarSelect):
        return [next(iter(one.selected_columns)) for one in parts_of(part.element)]
    return _parts(part)


def _is_unknown_operator(word: Any) -> bool:
    is_stated = not isinstance(word, operators.custom_op) or word.return_type is not None
    return not is_stated and word.opstring not in _OF_THEIR_LEFT_SIDE


def _is_typed(value: Any) -> bool:
    is_null = isinstance(value, Null | BindParameter) and isinstance(value.type, types.NullType)
    return isinstance(value, ColumnElement) and not is_null


def _kind(type_: SQLType) -> tuple[Any, ...]:
    plain = plain_type(type_)
    return internals.type_affinity(plain), bool(getattr(plain, "timezone", False))


@lru_cache(4096)
def _classify(type_: SQLType) -> tuple[ColumnType, Encoding]:
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
    return isinstance(inner, FunctionElement) and getattr(inner, "name", "") in _NUMERIC_FUNCTIONS


def _unique_names(outputs: Sequence[tuple[str | None, ColumnElement[Any]]]) -> list[str]:
    wanted = [own_name(expression) or _plain_key(key) for key, expression in outputs]
    reserved = {name for name in wanted if name}
    used: set[str] = set()
    names = []
    for position, (name, (_, expression)) in enumerate(zip(wanted, outputs, strict=True), start=1):
        if not name or name in used:
            name = _free_name(name, expression, position, reserved | used)
        used.add(name)
        names.append(name)
    return names


def _plain_key(key: str | None) -> str:
    # What has no name may have a key: a column_property or hybrid has that of its attribute.
    return "" if key is None or "%(" in key or key.startswith("_no_label") else key


def own_name(element: object) -> str:
    """The name of an expression itself; empty if SQLAlchemy makes one when it compiles."""
    # An anonymous name is a format string such as "%(1234 count)s"; it is worth nothing to a reader.
    name = getattr(element, "name", None) or ""
    return "" if "%(" in name else str(name)


def _free_name(name: str, expression: ColumnElement[Any], position: int, taken: set[str]) -> str:
    if not name:
        candidates = [f"column_{position}"]
    else:
        table = own_name(getattr(expression, "table", None))
        candidates = [f"{table}_{name}"] if table else []
    stem = name or f"column_{position}"
    candidates += (f"{stem}_{number}" for number in range(2, len(taken) + 3))
    return next(candidate for candidate in candidates if candidate not in taken)
