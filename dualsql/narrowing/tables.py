"""Find the tables and columns that rules name; the rule: what cannot be found stops the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper

from dualsql.errors import ConfigurationError
from dualsql.freeze import Registry


def resolved(registry: Registry, names: Iterable[Any]) -> list[Any]:
    """The registered tables that Tables, mapped classes or names stand for.

    Raises:
        ConfigurationError: one of them is not registered.
    """
    return [_resolved(registry, name) for name in names]


def column_of(table: Any, name: str, *, is_required: bool) -> Any:
    """The column of that name in the database, or None where it is not required."""
    found = next((column for column in table.c if column.name == name), None)
    if found is None and is_required:
        raise ConfigurationError(f"The table {table.name!r} has no column {name!r}.")
    return found


def undeclared(registry: Registry, declared: set[int]) -> None:
    """Raises ConfigurationError if a registered table is not in `declared`, a set of ids."""
    missing = sorted(name for name, table in registry.tables.items() if id(table) not in declared)
    if missing:
        raise ConfigurationError(
            f"These tables are neither filtered nor declared shared: {', '.join(missing)}."[:1000],
            hint="Add Shared(...) to hooks for what every tenant may read, or a filter for each.",
            details={"tables": missing},
        )


def listed(tables: Sequence[Any]) -> str:
    """The tables' names, for a message."""
    return ", ".join(sorted(str(table) for table in tables))


def _resolved(registry: Registry, name: Any) -> Any:
    if isinstance(name, str):
        table = registry.tables.get(name)
    else:
        table = _local_table(name)
        table = table if registry.name_of(table) is not None else None
    if table is None:
        raise ConfigurationError(
            f"A hook names {name!r}, which is not registered."[:200],
            hint="Name a Table, a mapped class or a table's name among `tables`.",
        )
    return table


def _local_table(name: Any) -> Any:
    try:
        mapper = inspect(name)
    except NoInspectionAvailable:
        return name
    return mapper.local_table if isinstance(mapper, Mapper) else name
