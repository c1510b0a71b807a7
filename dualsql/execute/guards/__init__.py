"""How each kind of database is kept in bounds; the rule: one file each, and no other code asks which it is."""

from sqlalchemy import Dialect

from dualsql.execute.guards.duckdb import DuckDBGuard
from dualsql.execute.guards.guard import Fault, Guard, Terms, driver_of
from dualsql.execute.guards.mariadb import MariaDBGuard
from dualsql.execute.guards.postgresql import PostgreSQLGuard
from dualsql.execute.guards.sqlite import SQLiteGuard

__all__ = ["Fault", "Guard", "Terms", "driver_of", "guard_of"]

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
