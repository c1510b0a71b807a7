"""Asks MariaDB for the constraints of tables; see `dualsql.databases.claims`."""

CONSTRAINTS = """
SELECT table_schema, table_schema = database(), table_name, NULL, IF(is_nullable = 'NO', column_name, NULL)
FROM information_schema.columns WHERE table_name IN :names
UNION ALL
SELECT table_schema, table_schema = database(), table_name, index_name, column_name
FROM information_schema.statistics WHERE non_unique = 0 AND table_name IN :names
"""
