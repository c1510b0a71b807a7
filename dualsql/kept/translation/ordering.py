"""Where NULLs stand in an order, and which kinds of values are sorted and grouped alike, by dialect."""

from __future__ import annotations

from collections.abc import Mapping

from dualsql.capabilities import capabilities_named
from dualsql.kept.translation.terms import Kind, UntranslatableError

SQLITE, POSTGRESQL, MARIADB = "sqlite", "postgresql", "mariadb"

BYTEWISE_CAST = "dualsql_bytes"
"""Stands for the order of the bytes of a text, which MariaDB has by a CAST."""

BYTEWISE: Mapping[str, frozenset[str]] = {
    SQLITE: frozenset({"BINARY", BYTEWISE_CAST}),
    POSTGRESQL: frozenset({"C", BYTEWISE_CAST}),
    MARIADB: frozenset({BYTEWISE_CAST}),
}
"""By dialect: collations that compare code points."""

ORDERED: tuple[Kind, ...] = ("integer", "real", "decimal", "date", "datetime")
"""Kinds of which min() and max(), and a least and a greatest of several values, are the same in DuckDB."""

_PLAIN: frozenset[Kind] = frozenset({*ORDERED, "boolean"})

SORTED: Mapping[str, frozenset[Kind]] = {
    SQLITE: _PLAIN | {"numeric"},
    POSTGRESQL: _PLAIN,
    MARIADB: _PLAIN,
}
"""By dialect: kinds that DuckDB sorts alike; texts, too, where the database compares code points."""

GROUPED: Mapping[str, frozenset[Kind]] = {**SORTED, POSTGRESQL: _PLAIN | {"text"}}
"""By dialect: kinds of which DuckDB takes the same values as equal; texts of SQLite where it compares code points."""


def nulls_last(dialect: str) -> tuple[bool, bool]:
    """See `Capabilities.nulls_last_by_default`."""
    capabilities = capabilities_named(dialect)
    if capabilities is None or capabilities.nulls_last_by_default is None:
        raise UntranslatableError("an order that does not say where NULLs stand")
    return capabilities.nulls_last_by_default
