"""Functions, and types with arguments, of databases that cannot run here, by their manuals, as far as dualsql could
send them.

Read on 2026-11-28. A name that a manual lacks is not in its list, such as POSITION in those of SQL Server and Oracle.
test_dialects.py compares each list with the functions that sqlglot knows of the database.
"""

from __future__ import annotations

from collections.abc import Mapping

_COMMON = frozenset("avg cast char_length count max min row_number sum".split())


def _with(words: str, without: str = "") -> frozenset[str]:
    return (_COMMON | set(words.split())) - set(without.split())


FUNCTIONS: Mapping[str, frozenset[str]] = {
    # https://cloud.google.com/bigquery/docs/reference/standard-sql/functions-all
    "bigquery": _with("date_trunc datetime_trunc instr length mod strpos substr substring timestamp_trunc unnest"),
    # https://docs.snowflake.com/en/sql-reference/functions-all
    "snowflake": _with(
        "charindex date_trunc dateadd dayofweekiso left length number numeric position substr substring varchar",
        without="char_length",
    ),
    # https://docs.databricks.com/sql/language-manual/sql-ref-functions-builtin-alpha
    "databricks": _with("date_trunc decimal instr length locate mod position substr substring trunc"),
    # https://trino.io/docs/current/functions/list.html
    "trino": _with("date_trunc decimal length mod position strpos substr substring varchar", without="char_length"),
    # https://clickhouse.com/docs/sql-reference/functions, /aggregate-functions, /window-functions
    "clickhouse": _with(
        "date_trunc lengthutf8 position substring substringutf8 todecimal128 tofloat64 toint64"
    ),
    # https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html
    "redshift": _with("charindex date_trunc dateadd len length numeric position strpos substring timezone varchar"),
    # https://learn.microsoft.com/en-us/sql/t-sql/functions/functions
    "mssql": _with(
        "charindex dateadd datetrunc decimal left len numeric nvarchar substring varchar", without="char_length"
    ),
    # https://docs.oracle.com/en/database/oracle/oracle-database/23/sqlrf/Functions.html
    "oracle": _with("instr length mod number numeric substr trunc varchar2", without="char_length"),
}  # fmt: skip
"""By dialect."""

TYPES = frozenset("decimal number numeric nvarchar varchar varchar2".split())
"""Names in the lists that are types."""

ONLY_MANUALS = {
    "clickhouse": frozenset("lengthutf8 substringutf8 todecimal128 tofloat64 toint64".split()),
    "redshift": frozenset({"timezone"}),
}
"""Functions that sqlglot does not know. chDB has those of ClickHouse."""
