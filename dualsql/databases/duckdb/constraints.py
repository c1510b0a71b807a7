"""Asks DuckDB for the constraints of tables; see `dualsql.databases.claims`."""

# An index without a constraint is no key here: the number of the row is one instead.
CONSTRAINTS = """
SELECT schema_name, schema_name = current_schema(), table_name, NULL,
CASE WHEN NOT is_nullable THEN column_name END FROM duckdb_columns() WHERE database_name = current_database()
UNION ALL
SELECT schema_name, schema_name = current_schema(), table_name, constraint_index::text,
unnest(constraint_column_names) FROM duckdb_constraints()
WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
"""
