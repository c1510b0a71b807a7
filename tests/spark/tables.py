"""Tables with rows, made by SQL: dualsql's dialect has no DDL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Table

from dualsql.databases.spark.dialect import SparkDialect
from dualsql.databases.spark.driver import literal

_ROWS = 2_000


def created(table: Table, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Statements that create the table and insert the rows."""
    dialect = SparkDialect()
    quote = dialect.identifier_preparer.quote_identifier
    columns = [
        f"{quote(column.name)} {dialect.type_compiler_instance.process(column.type)}" for column in table.c
    ]
    yield f"CREATE TABLE {quote(table.name)} ({', '.join(columns)}) USING parquet"
    for start in range(0, len(rows), _ROWS):
        values = (
            f"({', '.join(literal(row.get(column.key)) for column in table.c)})"
            for row in rows[start : start + _ROWS]
        )
        yield f"INSERT INTO {quote(table.name)} VALUES {', '.join(values)}"
