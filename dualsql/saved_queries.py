"""Saved queries: a Select with a name and typed parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from sqlalchemy import BindParameter, Dialect, Table, TableClause, types
from sqlalchemy.sql import visitors
from sqlalchemy.types import NullType

from dualsql.capabilities import capabilities_of
from dualsql.columns.own_types import SQLType
from dualsql.errors import BadParameterError, ConfigurationError
from dualsql.freeze.document import Statement
from dualsql_client.conversions import identifier, require_storable

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_LARGEST_VALUES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """One parameter of a saved query.

    Attributes:
        schema: the values, as JSON Schema.
        is_required: whether the parameter has no default.
    """

    name: str
    schema: Mapping[str, Any]
    is_required: bool
    _adapter: TypeAdapter[Any] = field(repr=False)
    _bound: BindParameter[Any] = field(repr=False)

    def read(self, value: Any, dialect: Dialect | None = None) -> Any:
        """A JSON value as the parameter's own type.

        Args:
            dialect: of the database that runs the query.

        Raises:
            BadParameterError: the value has another type, or the database does not accept it.
        """
        try:
            # Strict JSON: "2025-01-31" is read as a date, and true is not a number.
            typed = self._adapter.validate_json(json.dumps(value), strict=True)
            require_storable(typed)
        except (ValidationError, TypeError, ValueError, RecursionError) as error:
            raise self._wrong(f"match the schema {json.dumps(self.schema)}"[:500]) from error
        values = typed if self._bound.expanding and isinstance(typed, list) else [typed]
        for one in values:
            expected = _expected(one, self._bound.type, dialect)
            if expected is not None:
                raise self._wrong(f"be {expected}")
        # PostgreSQL refuses offsets of 16 hours and more.
        return typed.astimezone(UTC) if isinstance(typed, datetime) and typed.tzinfo is not None else typed

    def _wrong(self, expected: str) -> BadParameterError:
        return BadParameterError(
            f"The value of the parameter {self.name!r} is not valid.",
            hint=f"It must {expected}.",
            details={"parameter": self.name, "schema": dict(self.schema)},
        )


@dataclass(frozen=True, slots=True, eq=False)
class SavedQuery:
    """A Select that callers run by its name, with values for its `bindparam()`s.

    Args:
        name: letters, digits, _ and -, at most 64 characters, beginning with a letter.
        select: has a named `bindparam("state")` for each value that a caller gives. If the bindparam has a value,
            the caller may omit it.
        description: what the query returns, for a model.
        parameters: types of values, as in annotations of a function: `{"state": Literal["NJ", "NY"]}`,
            `{"top": Annotated[int, Field(ge=1, le=100)]}`. Other parameters have the type of the column that they
            are compared with.
        source: the name of the database, if there are several.

    Attributes:
        takes: the parameters, sorted by their names.

    Raises:
        ConfigurationError: the name is invalid, a type cannot be read from JSON, or a parameter does not exist.
    """

    name: str
    select: Statement
    _: KW_ONLY
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    takes: Mapping[str, QueryParameter] = field(init=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(str(self.name)):
            raise ConfigurationError(
                f"{self.name!r} cannot be the name of a saved query."[:200],
                hint="Use 1 to 64 letters, digits, _ and -.",
            )
        bound = _bound(self.select)
        for name in self.parameters:
            if name not in bound:
                raise ConfigurationError(
                    f"The query {self.name!r} has no parameter {name!r}."[:200],
                    hint='Use bindparam("name") in its Select.',
                )
        parameters = {name: _parameter(self, name, parameter) for name, parameter in sorted(bound.items())}
        object.__setattr__(self, "takes", parameters)

    @property
    def schema(self) -> dict[str, Any]:
        """The parameters as JSON Schema."""
        return {
            "type": "object",
            "properties": {name: dict(parameter.schema) for name, parameter in self.takes.items()},
            "required": [name for name, parameter in self.takes.items() if parameter.is_required],
            "additionalProperties": False,
        }

    @property
    def tables(self) -> list[TableClause]:
        """The tables it reads, each once."""
        tables = (element for element in visitors.iterate(self.select) if isinstance(element, TableClause))
        # An ORM statement has annotated copies of the tables.
        return list(dict.fromkeys(map(_registered, tables)))

    def with_values(
        self, values: Mapping[str, Any] | None = None, dialect: Dialect | None = None
    ) -> Statement:
        """The statement with these JSON values for its parameters.

        Args:
            dialect: of the database that runs the query.

        Raises:
            BadParameterError: a value is missing, unknown or invalid.
        """
        parameters = dict(values or {})
        if _length(parameters) > _LARGEST_VALUES:
            raise BadParameterError(
                "The parameters are too large.", hint=f"Send at most {_LARGEST_VALUES} bytes of JSON."
            )
        for name in parameters:
            if name not in self.takes:
                self._refuse(f"The query {self.name!r} has no parameter {name[:60]!r}.", name)
        for name, parameter in self.takes.items():
            if parameter.is_required and name not in parameters:
                self._refuse(f"The query {self.name!r} needs the parameter {name!r}.", name)
        typed = {name: self.takes[name].read(value, dialect) for name, value in parameters.items()}
        return _with_values(self.select, typed)

    def _refuse(self, message: str, name: str) -> None:
        names = list(self.takes)
        raise BadParameterError(
            message,
            hint=f"It takes: {', '.join(names)}." if names else "It takes no parameters.",
            details={
                "parameters": self.schema,
                "suggestions": get_close_matches(name, names, n=3, cutoff=0.5),
            },
        )


def saved_queries(queries: Iterable[SavedQuery]) -> dict[str, SavedQuery]:
    """The queries by name.

    Raises:
        ConfigurationError: an item is not a SavedQuery, or two have the same name.
    """
    by_name: dict[str, SavedQuery] = {}
    for query in queries:
        if not isinstance(query, SavedQuery):
            raise ConfigurationError(
                f"A {type(query).__name__} is not a saved query.", hint="Pass SavedQuery(name, select)."
            )
        if query.name in by_name:
            raise ConfigurationError(f"Two saved queries have the name {query.name!r}.")
        by_name[query.name] = query
    return by_name


def _length(values: Mapping[str, Any]) -> int:
    try:
        return len(json.dumps(values, default=str))
    except (TypeError, ValueError, RecursionError) as error:  # digits beyond 4,300, nested too deeply
        raise BadParameterError(
            "The parameters cannot be written as JSON.", hint="Use strings, numbers, booleans and lists."
        ) from error


def _with_values(select: Statement, values: Mapping[str, Any]) -> Statement:
    """The statement with values in its parameters.

    `params()` would store the values beside the parameters, and plans could not read the value of a LIMIT.
    """

    def give(element: BindParameter[Any]) -> None:
        if element.key in values:
            element.value, element.required = values[element.key], False
            if type(element.type) is types.Numeric and element.type.asdecimal:
                # With the column's type, PostgreSQL would round the value to its scale before it compares.
                element.type = types.Numeric()

    return visitors.cloned_traverse(select, {}, {"bindparam": give}) if values else select


def _registered(table: TableClause) -> TableClause:
    return table.metadata.tables[table.key] if isinstance(table, Table) else table


def _bound(select: Statement) -> dict[str, BindParameter[Any]]:
    """The parameters with a name that the author gave. Constants in comparisons have generated names."""
    elements = (element for element in visitors.iterate(select) if isinstance(element, BindParameter))
    return {str(element.key): element for element in elements if not element.unique}


def _parameter(query: SavedQuery, name: str, parameter: BindParameter[Any]) -> QueryParameter:
    try:
        adapter = TypeAdapter(query.parameters.get(name) or _annotation(parameter))
        schema = adapter.json_schema()
    except (PydanticUserError, NotImplementedError) as error:
        raise ConfigurationError(
            f"The parameter {name!r} of the query {query.name!r} has no type."[:200],
            hint='Use SavedQuery(..., parameters={"name": int}) or bindparam("name", type_=Integer).',
        ) from error
    return QueryParameter(
        name=name, schema=schema, is_required=bool(parameter.required), _adapter=adapter, _bound=parameter
    )


def _annotation(parameter: BindParameter[Any]) -> Any:
    if isinstance(parameter.type, NullType):
        raise NotImplementedError
    python: Callable[..., Any] = parameter.type.python_type
    return list[python] if parameter.expanding else python  # type: ignore[valid-type]


def _expected(value: Any, type_: SQLType, dialect: Dialect | None) -> str | None:
    """The expected values in words, for a message; None if `value` is valid or the type is unknown."""
    if value is None:
        return None
    if not isinstance(type_, types.TypeDecorator) or isinstance(type_, types.Interval):
        for kind, check in _CHECKS:
            if isinstance(type_, kind):
                return check(value, type_, dialect)
    return None


def _expected_integer(value: Any, type_: Any, dialect: Dialect | None) -> str | None:
    bits = 64
    is_sized = dialect is not None and capabilities_of(dialect).has_sized_integers
    if is_sized and not isinstance(type_, types.BigInteger):
        bits = 16 if isinstance(type_, types.SmallInteger) else 32
    most = 2 ** (bits - 1)
    if type(value) is int and -most <= value < most:
        return None
    return f"a whole number from {-most} to {most - 1}"


def _expected_number(value: Any, _: Any, __: Dialect | None) -> str | None:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return None if is_number else "a number"


def _expected_instant(value: Any, type_: Any, dialect: Dialect | None) -> str | None:
    if not isinstance(value, datetime):
        return 'an instant, such as "2026-01-31T08:30:00"'
    if value.tzinfo is not None:
        try:
            value.astimezone(UTC)
        except OverflowError:
            return "an instant in the years 1 to 9999 in UTC"
    return _expected_zone(value, type_, dialect)


def _expected_zone(value: datetime | time, type_: Any, dialect: Dialect | None) -> str | None:
    """The expected time zone in words; None if `value` is valid.

    Drivers refuse or drop a zone that the column does not store, and add their own zone to an instant without one.
    """
    if dialect is None:
        return None
    wants_zone = bool(type_.timezone) and capabilities_of(dialect).keeps_zones
    if (value.tzinfo is not None) is wants_zone:
        return None
    return "written with a zone, such as +00:00" if wants_zone else "written without a zone"


def _expected_day(value: Any, _: Any, __: Dialect | None) -> str | None:
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return None if is_day else 'a date, such as "2026-01-31"'


def _expected_time(value: Any, type_: Any, dialect: Dialect | None) -> str | None:
    if not isinstance(value, time):
        return 'a time of day, such as "08:30:00"'
    return _expected_zone(value, type_, dialect)


def _expected_uuid(value: Any, type_: Any, _: Dialect | None) -> str | None:
    try:
        is_uuid = isinstance(value, UUID) if type_.as_uuid else bool(identifier(value))
    except ValueError:
        is_uuid = False
    return None if is_uuid else "a UUID"


def _expected_member(value: Any, type_: Any, _: Dialect | None) -> str | None:
    is_member = isinstance(value, Enum) or value in type_.enums
    return None if is_member else f"one of: {', '.join(map(str, type_.enums[:20]))}"


def _of_class(kind: type[Any], words: str) -> Callable[[Any, Any, Dialect | None], str | None]:
    return lambda value, _, __: None if isinstance(value, kind) else words


# The first match decides.
_CHECKS: tuple[tuple[type[Any], Callable[[Any, Any, Dialect | None], str | None]], ...] = (
    (types.Boolean, _of_class(bool, "true or false")),
    (types.Integer, _expected_integer),
    (types.Numeric, _expected_number),
    (types.Float, _expected_number),
    (types.DateTime, _expected_instant),
    (types.Date, _expected_day),
    (types.Time, _expected_time),
    (types.Interval, _of_class(timedelta, 'a duration, such as "P1DT2H"')),
    (types.Uuid, _expected_uuid),
    (types.LargeBinary, _of_class(bytes, "bytes")),
    (types.Enum, _expected_member),
    (types.String, _of_class(str, "a string")),
)
