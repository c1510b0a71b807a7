"""The databases that dualsql has itself: one row for each name of a dialect, as an entry point has it.

pyproject.toml declares the same rows in the group of entry points that other packages use; a test compares them. They
are read from here, because the metadata of an installation can be older than its code, or left out of a program.
"""

from __future__ import annotations

from collections.abc import Mapping

OWN: Mapping[str, str] = {
    "sqlite": "dualsql.databases.sqlite:BACKEND",
    "postgresql": "dualsql.databases.postgresql:BACKEND",
    "postgres": "dualsql.databases.postgresql:BACKEND",
    "mysql": "dualsql.databases.mariadb:BACKEND",
    "mariadb": "dualsql.databases.mariadb:BACKEND",
    "duckdb": "dualsql.databases.duckdb:BACKEND",
    "hive": "dualsql.databases.spark:BACKEND",
}
"""Where the Backend is, by SQLAlchemy's name of the dialect or a name that URLs have for it."""
