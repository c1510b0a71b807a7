"""Types and constructs that SQLAlchemy defines in the module of one dialect, and that dualsql meets on any.

Ranges come as values of a result, and the constructs stand in Selects of an application, whichever database runs them;
SQLAlchemy's other dialects, such as DuckDB's, use the same classes.
"""

from sqlalchemy.dialects.postgresql import DOMAIN, JSONB, Range, aggregate_order_by, distinct_on, ranges
from sqlalchemy.dialects.postgresql.ext import DistinctOnClause

__all__ = ["DOMAIN", "JSONB", "DistinctOnClause", "Range", "aggregate_order_by", "distinct_on", "ranges"]
