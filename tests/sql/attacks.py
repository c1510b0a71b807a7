"""Texts that must never run, by dialect. Each is an incident that happened to somebody, or a variant of one.

Sources: shared/reference/peers.md (pgAdmin CVE-2026-12045, the archived postgres server, awslabs/mcp#374, pgEdge#196,
DBHub #283 #320 #349 #369, mcp-dbutils#116, sqlite-explorer#8, DuckDB's table functions), and the manuals of engines:
what can write, read a file, reach the network, wait, lock, read a catalogue or a setting.
"""

from __future__ import annotations

# More than one statement, or another kind of one.
STATEMENTS = """
COMMIT; DROP TABLE customer
SELECT 1; DROP TABLE customer
SELECT 1; SELECT 2
SELECT 1;;; DELETE FROM customer
ROLLBACK; SELECT 1
BEGIN; SELECT 1; COMMIT
SELECT 1 /* ; */ ; DROP TABLE customer --
DROP TABLE customer
DELETE FROM customer
INSERT INTO customer (c_custkey) VALUES (1)
UPDATE customer SET c_name = 'x'
TRUNCATE customer
ALTER TABLE customer ADD COLUMN x INT
CREATE TABLE x AS SELECT * FROM customer
CREATE VIEW x AS SELECT 1
CREATE FUNCTION f() RETURNS INT LANGUAGE SQL AS 'SELECT 1'
GRANT ALL ON customer TO PUBLIC
REVOKE ALL ON customer FROM PUBLIC
SET ROLE postgres
SET search_path = pg_catalog
RESET ALL
SHOW ALL
EXPLAIN SELECT 1
EXPLAIN ANALYZE DELETE FROM customer
ANALYZE customer
VACUUM
REINDEX TABLE customer
LOCK TABLE customer
CALL f()
DO $$ BEGIN PERFORM 1; END $$
EXECUTE p
PREPARE p AS SELECT 1
DEALLOCATE ALL
LISTEN x
NOTIFY x
COPY customer TO '/tmp/x'
COPY (SELECT 1) TO PROGRAM 'id'
COPY customer FROM PROGRAM 'id'
LOAD 'x'
ATTACH DATABASE '/etc/passwd' AS x
DETACH DATABASE main
PRAGMA writable_schema = 1
PRAGMA table_info(customer)
PRAGMA journal_mode = DELETE
LOAD DATA INFILE '/etc/passwd' INTO TABLE customer
HANDLER customer OPEN
MERGE INTO customer USING orders ON true WHEN MATCHED THEN DELETE
REPLACE INTO customer VALUES (1)
VALUES (1)
TABLE customer
FETCH ALL FROM c
DECLARE c CURSOR FOR SELECT 1
USE mysql
DESCRIBE customer
KILL 1
SHUTDOWN
INSTALL httpfs
EXPORT DATABASE 'x'
""".strip().splitlines()

# A SELECT that is more than a SELECT.
WRITES = """
SELECT * INTO stolen FROM customer
SELECT c_custkey INTO OUTFILE '/tmp/x' FROM customer
SELECT c_custkey INTO DUMPFILE '/tmp/x' FROM customer
SELECT * FROM customer FOR UPDATE
SELECT * FROM customer FOR SHARE
SELECT * FROM customer FOR UPDATE SKIP LOCKED
SELECT * FROM customer LOCK IN SHARE MODE
WITH x AS (DELETE FROM customer RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO customer DEFAULT VALUES RETURNING *) SELECT * FROM x
WITH x AS (UPDATE customer SET c_name = 'x' RETURNING *) SELECT * FROM x
WITH x AS (SELECT 1) DELETE FROM customer
WITH x AS (SELECT 1) INSERT INTO customer SELECT * FROM x
WITH x AS (SELECT 1) UPDATE customer SET c_name = 'y'
SELECT * FROM (DELETE FROM customer RETURNING *) x
SELECT (DELETE FROM customer RETURNING 1)
SELECT nextval('s')
SELECT setval('s', 1)
SELECT lo_create(1)
SELECT lo_unlink(1)
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/x')
SELECT pg_advisory_lock(1)
SELECT pg_notify('a', 'b')
SELECT set_config('role', 'postgres', false)
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_switch_wal()
SELECT pg_create_restore_point('x')
SELECT pg_stat_reset()
SELECT txid_current()
SELECT query_to_xml('DELETE FROM customer', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT table_to_xml('customer', true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT dblink('host=x', 'SELECT 1')
SELECT dblink_exec('host=x', 'DROP TABLE customer')
SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a int)
SELECT xmlparse(document '<x/>')
SELECT get_lock('x', 10)
SELECT release_lock('x')
SELECT last_insert_id(5)
SELECT sys_exec('id')
SELECT sys_eval('id')
SELECT load_extension('/tmp/x.so')
SELECT writefile('/tmp/x', 'y')
SELECT edit('x')
SELECT fts3_tokenizer('x', 'y')
SELECT @a := 1
SELECT @@version
SELECT @@global.secure_file_priv
SELECT eval('DROP TABLE customer')
""".strip().splitlines()

# Files, the network, the clock of others, settings, catalogues.
READS = """
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT * FROM pg_ls_dir('/')
SELECT pg_stat_file('/etc/passwd')
SELECT load_file('/etc/passwd')
SELECT readfile('/etc/passwd')
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_csv_auto('/etc/passwd')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT * FROM parquet_scan('http://x/y')
SELECT * FROM glob('*')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM pg_catalog.pg_user
SELECT * FROM pg_user
SELECT * FROM pg_shadow
SELECT * FROM pg_authid
SELECT * FROM pg_stat_activity
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.columns
SELECT * FROM mysql.user
SELECT * FROM performance_schema.threads
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM main.sqlite_master
SELECT * FROM temp.sqlite_temp_master
SELECT * FROM sqlite_dbpage
SELECT * FROM dbstat
SELECT * FROM pragma_table_info('customer')
SELECT * FROM pragma_database_list
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM dualsql_resources
SELECT document FROM dualsql_resources
SELECT * FROM dualsql_links
SELECT * FROM alembic_version
SELECT current_setting('data_directory')
SELECT inet_server_addr()
SELECT inet_client_addr()
SELECT version()
SELECT sqlite_version()
SELECT database()
SELECT user()
SELECT current_user
SELECT session_user
SELECT current_database()
SELECT current_schema()
SELECT current_schemas(true)
SELECT pg_backend_pid()
SELECT has_table_privilege('customer', 'select')
SELECT pg_get_viewdef('x')
SELECT obj_description(1)
SELECT 'customer'::regclass
SELECT 'pg_sleep(1)'::regprocedure
SELECT to_regclass('customer')
SELECT CAST('x' AS oid)
SELECT pg_typeof(1)
SELECT col_description(1, 1)
SELECT getpgusername()
SELECT current_query()
SELECT connection_id()
SELECT schema()
""".strip().splitlines()

# What never ends, or asks for too much.
WEIGHTS = [
    "SELECT pg_sleep(1000)",
    "SELECT pg_sleep_for('1 hour')",
    "SELECT sleep(1000)",
    "SELECT benchmark(1000000000, md5('x'))",
    "SELECT randomblob(1000000000)",
    "SELECT zeroblob(1000000000)",
    "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + "NOT " * 5_000 + "true",
    "SELECT " + "CASE WHEN true THEN " * 500 + "1" + " END" * 500,
    "SELECT " + "abs(" * 500 + "1" + ")" * 500,
    "SELECT " + "(SELECT " * 200 + "1" + ")" * 200,
    "SELECT '" + "x" * 100_000 + "'",
    "SELECT " + "1, " * 20_000 + "1",
    "SELECT " + "- " * 5_000 + "1",
    "SELECT * FROM customer LIMIT 99999999999999999999",
    "SELECT * FROM customer LIMIT (SELECT 1)",
    "SELECT * FROM customer LIMIT -1",
    "SELECT * FROM customer OFFSET 1.5",
    "SELECT 1e99999",
    "SELECT CAST(1 AS NUMERIC(99999999, 1))",
]

# Tricks against filters that read text.
TRICKS = """
SELECT/**/pg_sleep(1)
SELECT "pg_sleep"(1)
SELECT pg_catalog.pg_sleep(1)
SELECT "pg_catalog"."pg_sleep"(1)
SELECT PG_SLEEP(1)
SELECT p/**/g_sleep(1)
SELECT pg_sleep (1)
SELECT U&"\\0070g_sleep"(1)
SELECT 1 WHERE pg_sleep(1) IS NULL
SELECT 1 ORDER BY pg_sleep(1)
SELECT 1 GROUP BY pg_sleep(1)
SELECT 1 HAVING pg_sleep(1) IS NULL
SELECT 1 LIMIT pg_sleep(1)
SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM customer
SELECT sum(c_custkey) OVER (PARTITION BY pg_sleep(1)) FROM customer
SELECT sum(c_custkey) OVER (ORDER BY pg_sleep(1)) FROM customer
SELECT sum(c_custkey) OVER w FROM customer WINDOW w AS (ORDER BY pg_sleep(1))
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY pg_sleep(1)) FROM customer
SELECT CASE WHEN pg_sleep(1) IS NULL THEN 1 END
SELECT * FROM customer JOIN orders ON pg_sleep(1) IS NULL
SELECT * FROM customer, LATERAL (SELECT pg_sleep(1)) x
SELECT * FROM (VALUES (pg_sleep(1))) x
SELECT * FROM generate_series(1, 10, pg_sleep(1))
SELECT * FROM unnest(ARRAY[pg_sleep(1)])
SELECT ARRAY[pg_sleep(1)]
SELECT (SELECT pg_sleep(1))
SELECT EXISTS (SELECT pg_sleep(1))
SELECT 1 IN (SELECT pg_sleep(1))
SELECT 1 = ANY (SELECT pg_sleep(1))
SELECT 1 UNION SELECT pg_sleep(1)
WITH x AS (SELECT pg_sleep(1)) SELECT * FROM x
WITH RECURSIVE x AS (SELECT pg_sleep(1) UNION ALL SELECT * FROM x) SELECT * FROM x
SELECT DISTINCT ON (pg_sleep(1)) 1
SELECT coalesce(pg_sleep(1), 1)
SELECT CAST(pg_sleep(1) AS TEXT)
SELECT pg_sleep(1)::TEXT
SELECT EXTRACT(year FROM pg_sleep(1))
SELECT -pg_sleep(1)
SELECT 1 BETWEEN 0 AND pg_sleep(1)
SELECT 'a' LIKE pg_sleep(1)
SELECT c_name COLLATE "x; DROP TABLE customer" FROM customer
SELECT OPERATOR(pg_catalog.+)(1)
SELECT 1 OPERATOR(pg_catalog.+) 1
SELECT * FROM ONLY customer
SELECT * FROM customer TABLESAMPLE SYSTEM (10)
SELECT * FROM ROWS FROM (pg_ls_dir('/'))
SELECT customer FROM customer
SELECT (customer).c_name FROM customer
SELECT ROW(1, 2)
SELECT * FROM customer NATURAL JOIN pg_user
SELECT * FROM other_database.public.customer
SELECT * FROM customer@dblink
SELECT * FROM customer PARTITION (p0)
SELECT * FROM customer INDEXED BY x
SELECT * FROM customer WITH (NOLOCK)
SELECT /*+ SET_VAR(sql_mode='') */ 1 FROM nowhere
SELECT HIGH_PRIORITY SQL_NO_CACHE * FROM nowhere
SELECT * FROM customer PROCEDURE ANALYSE()
SELECT JSON_TABLE('[]', '$')
SELECT xmltable('/a' PASSING '<a/>' COLUMNS x INT)
SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS x INT)
SELECT * FROM customer MATCH_RECOGNIZE (PATTERN (a))
SELECT * FROM customer PIVOT (count(*) FOR c_name IN ('a'))
SELECT $1
SELECT ?
SELECT :secret
SELECT {fn user()}
""".strip().splitlines()

# As they happened, and what DuckDB reads from inside a SELECT.
INCIDENTS = """
COMMIT; DROP SCHEMA public CASCADE; --
SELECT 1; COMMIT; DROP TABLE customer; --
SELECT 1) AS x; COMMIT; DROP TABLE customer; --
SELECT 1; ROLLBACK; CREATE TABLE x (a INT)
EXEC('DROP TABLE customer')
EXEC sp_executesql N'DROP TABLE customer'
EXECUTE IMMEDIATE 'DROP TABLE customer'
/*!50000 DROP TABLE customer */
/*!50000 SELECT */ 1 /*! FROM mysql.user */; DROP TABLE customer
SELECT 1 /*!; DROP TABLE customer */; DROP TABLE customer
EXPLAIN (ANALYZE) DELETE FROM customer
EXPLAIN QUERY PLAN DELETE FROM customer
WITH gone AS MATERIALIZED (DELETE FROM customer RETURNING c_custkey) SELECT count(*) FROM gone
WITH a AS (SELECT 1), b AS (UPDATE customer SET c_name = '' RETURNING 1) SELECT * FROM a, b
PRAGMA query_only = OFF
PRAGMA query_only = OFF; DELETE FROM customer
ATTACH ':memory:' AS x
ATTACH 'postgres:host=x' AS x (TYPE postgres)
SET TRANSACTION READ WRITE
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
START TRANSACTION READ WRITE
SELECT set_config('transaction_read_only', 'off', false)
SET enable_external_access = true
CALL pragma_version()
SUMMARIZE customer
FROM customer
FROM '/etc/passwd'
SELECT * FROM read_parquet('s3://bucket/x')
SELECT * FROM read_json('/etc/passwd')
SELECT * FROM read_json_auto('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM read_ndjson('/etc/passwd')
SELECT * FROM sqlite_scan('x.db', 'customer')
SELECT * FROM postgres_scan('host=x', 'public', 'customer')
SELECT * FROM duckdb_functions()
SELECT * FROM duckdb_tables()
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('customer')
SELECT * FROM 'customer.parquet'
SELECT * FROM "customer.csv"
SELECT getenv('HOME')
SELECT getvariable('x')
SELECT write_log('x')
SELECT COLUMNS(*) FROM customer
SELECT * FROM customer QUALIFY read_text('/etc/passwd') IS NOT NULL
SELECT * FROM customer USING SAMPLE 10
SELECT * EXCLUDE (c_name) FROM customer
PIVOT customer ON c_name USING count(*)
""".strip().splitlines()

# What Spark reads beyond that: programs, classes of Java, files as tables, variables, and settings of the session.
SPARK = """
SET spark.sql.ansi.enabled = false
SET -v
RESET spark.sql.ansi.enabled
ADD JAR '/tmp/x.jar'
ADD FILE '/etc/passwd'
LIST JARS
CACHE TABLE stolen AS SELECT * FROM customer
UNCACHE TABLE customer
REFRESH TABLE customer
MSCK REPAIR TABLE customer
CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'
CREATE TEMPORARY VIEW x AS SELECT 1
INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT * FROM customer
INSERT OVERWRITE TABLE customer SELECT * FROM customer
FROM customer INSERT INTO orders SELECT *
EXPLAIN EXTENDED SELECT 1
SHOW TABLES
DESCRIBE EXTENDED customer
SELECT TRANSFORM (c_name) USING 'cat' AS (x) FROM customer
SELECT TRANSFORM (c_name) USING '/bin/sh -c id' FROM customer
MAP c_name USING 'cat' AS x FROM customer
REDUCE c_name USING 'cat' AS x FROM customer
FROM customer MAP c_name USING 'cat' AS x
SELECT reflect('java.lang.System', 'getenv', 'HOME')
SELECT try_reflect('java.lang.System', 'getenv', 'HOME')
SELECT java_method('java.lang.Runtime', 'getRuntime')
SELECT REFLECT('java.lang.System', 'exit', '1') FROM customer
SELECT `reflect`('java.lang.System', 'getenv', 'HOME')
SELECT c_name FROM customer ORDER BY java_method('java.lang.System', 'nanoTime')
SELECT * FROM parquet.`/tmp/x`
SELECT * FROM csv.`/etc/passwd`
SELECT * FROM text.`/etc/passwd`
SELECT * FROM `text`.`/etc/passwd`
SELECT * FROM jdbc.`x`
SELECT * FROM read_files('/etc')
SELECT * FROM range(1000000000000)
SELECT * FROM global_temp.x
SELECT * FROM spark_catalog.default.customer
SELECT * FROM sys.x
SELECT input_file_name()
SELECT current_catalog()
SELECT spark_partition_id()
SELECT monotonically_increasing_id()
SELECT raise_error('x')
SELECT assert_true(false)
SELECT aes_decrypt(c_name, 'k') FROM customer
SELECT ${env:PATH}
SELECT ${spark.master}
SELECT * FROM ${hivevar:t}
SELECT ${system:user.name} FROM customer
SELECT * FROM IDENTIFIER('customer')
SELECT * FROM customer VERSION AS OF 1
SELECT * FROM customer TIMESTAMP AS OF '2020-01-01'
SELECT /*+ BROADCAST(customer) */ 1 FROM nowhere
SELECT * FROM customer LATERAL VIEW explode(array(1, 2)) t AS x
SELECT * FROM customer CLUSTER BY c_name
SELECT * FROM customer DISTRIBUTE BY c_name
SELECT * FROM customer TABLESAMPLE (10 ROWS)
SELECT http_get('http://x')
SELECT ai_query('x', 'y')
SELECT java.lang.System.exit(1)
DECLARE VARIABLE x INT
SET VAR x = (SELECT 1)
BEGIN SELECT 1; END
EXECUTE IMMEDIATE 'SELECT 1'
""".strip().splitlines()

ATTACKS = [*STATEMENTS, *WRITES, *READS, *WEIGHTS, *TRICKS, *INCIDENTS, *SPARK]
