"""The drivers that queries run on, and a query that is slow on each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import reduce

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from dualsql import DualResponseServer
from tests.schools import School

DRIVERS = {
    "aiosqlite": "sqlite+aiosqlite",
    "sqlite3": "sqlite",
    "asyncpg": "postgresql+asyncpg",
    "psycopg async": "postgresql+psycopg",
    "psycopg": "postgresql+psycopg",
    "psycopg2": "postgresql+psycopg2",
    "asyncmy": "mysql+asyncmy",
    "pymysql": "mysql+pymysql",
    "duckdb": "duckdb",
}
"""Every driver that is tested, and the scheme of its URLs. psycopg serves both ways."""

ASYNCHRONOUS = frozenset({"aiosqlite", "asyncpg", "psycopg async", "asyncmy"})

EACH = ("aiosqlite", "sqlite3", "asyncpg", "asyncmy", "duckdb")
"""The drivers that a URL gets, and one in threads: every quick test of this room runs on these."""

MakeServer = Callable[..., Awaitable[DualResponseServer]]

# Every way to choose nine schools: years of work, on any engine.
_copies = [aliased(School, name=f"slow_{number}") for number in range(9)]
_first, *_others = _copies
_sum = reduce(lambda left, right: left + right, (copy.id % 7 for copy in _others), _first.id % 7)
_joined = reduce(
    lambda found, copy: found.join(copy, copy.id != _first.id + 100), _others, select(func.sum(_sum))
)
SLOW = _joined.where(_sum != -1)
MANY = _joined.with_only_columns(_first.id)
"""As many rows, the first ones at once."""
