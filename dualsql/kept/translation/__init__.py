"""A statement written for one database, over kept rows, as DuckDB's statement with the same meaning.

Only what has an entry in the tables is translated: `operators`, `functions`, `aggregates`, `casts` and `ordering`, by
the dialect of the statement and the kinds of the operands. A statement with anything else is not run on DuckDB.
"""

from dualsql.kept.translation.aggregates import computing_as
from dualsql.kept.translation.statements import (
    KeptColumns,
    is_translated,
    table_of_rows,
    translate_statement,
)
from dualsql.kept.translation.terms import UntranslatableError

__all__ = [
    "KeptColumns",
    "UntranslatableError",
    "computing_as",
    "is_translated",
    "table_of_rows",
    "translate_statement",
]
