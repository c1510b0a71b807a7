"""Asks SQLite for the constraints of tables; see `dualsql.databases.claims`."""

# To describe a view whose table is gone, or a virtual table whose module is not loaded, is an error.
# Without CROSS, SQLite (3.40) may read an index before the table whose it is, and finds none.
CONSTRAINTS = """
SELECT t.schema, t.schema = 'main', t.name, NULL, c.name FROM pragma_table_list AS t
LEFT JOIN pragma_table_xinfo(iif(t.type IN ('view', 'virtual'), NULL, t.name), t.schema) AS c
ON c."notnull" OR c.pk AND NOT EXISTS (
    SELECT 1 FROM pragma_index_list(t.name, t.schema) WHERE origin = 'pk')
UNION ALL
SELECT t.schema, t.schema = 'main', t.name, '', c.name FROM pragma_table_list AS t
CROSS JOIN pragma_table_xinfo(iif(t.type IN ('view', 'virtual'), NULL, t.name), t.schema) AS c
WHERE c.pk AND NOT EXISTS (
    SELECT 1 FROM pragma_index_list(t.name, t.schema) WHERE origin = 'pk')
UNION ALL
SELECT t.schema, t.schema = 'main', t.name, i.name, c.name FROM pragma_table_list AS t
CROSS JOIN pragma_index_list(t.name, t.schema) AS i CROSS JOIN pragma_index_info(i.name, t.schema) AS c
WHERE i."unique" AND NOT i.partial
"""
