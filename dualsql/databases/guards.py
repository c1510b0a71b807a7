"""Chooses the guard of an engine."""

from sqlalchemy import Dialect

from dualsql.databases.duckdb import DuckDBGuard
from dualsql.databases.guard import FailureKind, Guard, SessionTerms, driver_of
from dualsql.databases.mariadb import MariaDBGuard
from dualsql.databases.postgresql import PostgreSQLGuard
from dualsql.databases.sqlite import SQLiteGuard

__all__ = ["FailureKind", "Guard", "SessionTerms", "driver_of", "guard_of"]

_GUARDS: dict[str, Guard] = {
    "sqlite": SQLiteGuard(),
    "postgresql": PostgreSQLGuard(),
    "mysql": MariaDBGuard(),
    "mariadb": MariaDBGuard(),
    "duckdb": DuckDBGuard(),
}


def guard_of(dialect: Dialect) -> Guard | None:
    """How the dialect's database is kept in bounds, or None for one that dualsql cannot keep so."""
    return _GUARDS.get(dialect.name)
