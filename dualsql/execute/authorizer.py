"""What a SQLite connection of dualsql's may prepare; the rule: what is not known to read is refused by SQLite itself.

PRAGMA query_only keeps tables from changing, and leaves ATTACH, which makes files, other pragmas, which could end it,
and functions that load code. SQLite asks this before it prepares anything (https://www.sqlite.org/c3ref/set_authorizer.html).
"""

from __future__ import annotations

import sqlite3
from typing import Any

REFUSED = 23
"""SQLITE_AUTH, the code of what is refused here."""

LARGEST_VALUE = 64 * 1024 * 1024
"""Bytes of one value that SQLite makes or reads."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_TRANSACTION}
)
# These reach query_only, whose refusal says what it is: CREATE, DROP and DELETE, INSERT, UPDATE, ALTER and the like.
_LEFT_TO_QUERY_ONLY = frozenset({*range(1, 19), sqlite3.SQLITE_UPDATE, 26, 27, 28, 29, 30}) - {19}
_SETTINGS = frozenset(
    {
        "data_version",
        "database_list",
        "encoding",
        "foreign_keys",
        "query_only",
        "read_uncommitted",
        "user_version",
    }
)
_ABOUT_TABLES = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
_CODE = frozenset({"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"})


def confine(connection: sqlite3.Connection) -> None:
    """Let a connection of dualsql's own only read, and make no value that nobody could hold."""
    connection.set_authorizer(authorize)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)


def authorize(action: int, one: str | None, other: str | None, _database: Any, _trigger: Any) -> int:
    """SQLITE_OK for what reads; anything else is refused when it is prepared."""
    if action in _READS or action in _LEFT_TO_QUERY_ONLY:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        name = (one or "").lower()
        is_harmless = (name in _SETTINGS and other is None) or name in _ABOUT_TABLES
        return sqlite3.SQLITE_OK if is_harmless else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (other or "").lower() not in _CODE:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
