"""Types and constructs that SQLAlchemy defines in the module of one dialect, and that dualsql meets on any.

Ranges come as values of a result, and the constructs stand in Selects of an application, whichever database runs them;
SQLAlchemy's other dialects, such as DuckDB's, use the same classes.
"""

from sqlalchemy import dialects
from sqlalchemy.dialects.postgresql import (
    BIT,
    DOMAIN,
    ENUM,
    INTERVAL,
    JSONB,
    Range,
    aggregate_order_by,
    array,
    distinct_on,
    operators,
    ranges,
)
from sqlalchemy.dialects.postgresql.ext import DistinctOnClause

__all__ = [
    "BIT", "DIALECTS", "DOMAIN", "ENUM", "INTERVAL", "JSONB", "DistinctOnClause", "Range", "aggregate_order_by",
    "array", "distinct_on", "operators", "ranges",
]  # fmt: skip

DIALECTS: frozenset[str] = frozenset(dialects.__all__)
"""SQLAlchemy's names of its own dialects."""
