"""The conditions of tenant filters, the same for all principals but for values. Loaded with the first such rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Boolean, ColumnElement, types
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.cache_key import NO_CACHE
from sqlalchemy.sql.functions import FunctionElement

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import capabilities_named
from dualsql.columns.own_types import stored_type
from dualsql.errors import ConfigurationError
from dualsql.tenancy.rules import TenantFilter


class Exactly(FunctionElement[bool]):
    """`column = value`, compared exactly under any collation of the column."""

    name = "dualsql_exactly"
    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Exactly:
        """The element itself. SQLAlchemy would write `state = ? = 1` for a database without a boolean type.

        SQLite uses no index for that, and SQL Server does not parse it.
        """
        return self


@compiles(Exactly)
def _write_exactly(element: Exactly, compiler: Any, **kw: Any) -> str:
    column, value = element.clauses
    capabilities = capabilities_named(compiler.dialect.name)  # None where str() writes the statement
    stored = stored_type(column.type, compiler.dialect)
    if not isinstance(stored, types.String) or capabilities is None or capabilities.text_equality is None:
        return str(compiler.process(column == value, **kw))
    operands = (compiler.process(column, **kw), compiler.process(value, **kw))
    return capabilities.text_equality(*operands, stored)


class TenantConditions(NamedTuple):
    """What tenant filters say of the tables of a registry.

    Attributes:
        values: the filter whose value a parameter takes, by the name of the parameter.
        by_table: the conditions, by the id of a table.
        columns: the columns that are compared with values of tenants.
    """

    values: Mapping[str, TenantFilter]
    by_table: Mapping[int, Sequence[ColumnElement[bool]]]
    columns: Sequence[ColumnElement[Any]]


def tenant_conditions(
    rules: Iterable[TenantFilter], tables: Iterable[Any], table_of: Callable[[Any], Any]
) -> TenantConditions:
    """The conditions of all rules.

    Args:
        table_of: the registered table that a Table, a mapped class or a name stands for.

    Raises:
        ConfigurationError: a table that a rule names has no such column.
    """
    values: dict[str, TenantFilter] = {}
    conditions: dict[int, list[ColumnElement[bool]]] = {}
    columns: list[ColumnElement[Any]] = []
    parameters: dict[Any, BindParameter[Any]] = {}
    for rule in rules:
        for table in tables if rule.tables is None else map(table_of, rule.tables):
            column = next((column for column in table.c if column.name == rule.column), None)
            if column is None and rule.tables is None:
                continue
            if column is None:
                raise ConfigurationError(f"The table {table.name!r} has no column {rule.column!r}.")
            columns.append(column)
            # CHAR would remove blanks at the end of the value.
            type_ = types.String() if isinstance(column.type, types.CHAR) else column.type
            type_key = internals.type_key(type_)
            # SQLAlchemy binds all parameters of one name with the type of the last one.
            key = (id(rule), id(type_) if type_key is NO_CACHE else type_key)
            if key not in parameters:
                name = f"dualsql_tenant_{len(parameters)}"
                parameters[key] = BindParameter(name, type_=type_, required=True)
                values[name] = rule
            conditions.setdefault(id(table), []).append(Exactly(column, parameters[key]))
    return TenantConditions(values, conditions, columns)
