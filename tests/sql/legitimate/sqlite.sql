-- What people write for SQLite alone.

-- orders by month
SELECT strftime('%Y-%m', o_orderdate) AS month, count(*) AS n FROM orders GROUP BY strftime('%Y-%m', o_orderdate) ORDER BY month;
-- orders by year, as a number
SELECT CAST(strftime('%Y', o_orderdate) AS INTEGER) AS y, count(*) AS n FROM orders GROUP BY y ORDER BY y;
-- a date and three months
SELECT o_orderkey FROM orders WHERE o_orderdate >= '1994-06-01' AND o_orderdate < date('1994-06-01', '+3 months') ORDER BY o_orderkey;
-- days between
SELECT l_orderkey, l_linenumber, julianday(l_receiptdate) - julianday(l_shipdate) AS days FROM lineitem ORDER BY 1, 2 LIMIT 20;
-- the weekday
SELECT d_day_name, strftime('%w', d_date) AS w, count(*) AS n FROM date_dim GROUP BY 1, 2 ORDER BY 2;
-- the start of the month
SELECT o_orderkey, date(o_orderdate, 'start of month') AS m FROM orders ORDER BY o_orderkey;
-- an instant's parts
SELECT v_id, date(v_at) AS d, time(v_at) AS t, strftime('%H', v_at) AS h FROM event ORDER BY v_id;
-- seconds since 1970
SELECT v_id, unixepoch(v_at) AS s FROM event ORDER BY v_id LIMIT 3;
-- texts of a group
SELECT n_regionkey, group_concat(n_name) AS names FROM (SELECT n_regionkey, n_name FROM nation ORDER BY n_name) GROUP BY n_regionkey ORDER BY n_regionkey;
-- texts of a group, separated
SELECT group_concat(r_name, ' / ') AS names FROM (SELECT r_name FROM region ORDER BY r_name);
-- ifnull and iif
SELECT ifnull(a, 0) AS n, iif(a > 1, 'many', 'few') AS k FROM x ORDER BY a;
-- iif of numbers
SELECT iif(c_acctbal > 0, c_acctbal, 0.125) AS n FROM customer ORDER BY c_custkey;
-- the largest of three arguments
SELECT max(1, 5, 3) AS hi, min(a, b, 2) AS lo FROM x ORDER BY a;
-- printf
SELECT printf('%05.2f|%s', c_acctbal, c_name) AS t FROM customer ORDER BY c_custkey;
-- glob
SELECT n_name FROM nation WHERE n_name GLOB '*A' ORDER BY n_name;
-- where in a text
SELECT instr(c_name, '#') AS p, hex(substr(c_name, 1, 2)) AS h, unicode(c_name) AS u FROM customer ORDER BY c_custkey LIMIT 1;
-- kinds of values
SELECT typeof(a) AS t, typeof(1.5) AS f, typeof('x') AS s, typeof(NULL) AS n FROM x ORDER BY a;
-- JSON taken apart
SELECT value, key FROM json_each('[3, 1, 2]') ORDER BY key;
-- JSON of a path
SELECT json_extract('{"a": {"b": 7}}', '$.a.b') AS n, '{"a": 5}' ->> 'a' AS m;
-- JSON of rows
SELECT json_group_array(n_name) AS names FROM (SELECT n_name FROM nation ORDER BY n_name);
-- a total is a fraction
SELECT total(a) AS t, total(c_acctbal) AS u FROM x, customer WHERE a = 4 AND c_custkey = 1;
-- a column outside the groups
SELECT o_custkey, max(o_totalprice) AS m, o_orderkey FROM orders GROUP BY o_custkey ORDER BY o_custkey;
-- double quotes around an alias
SELECT a AS "Größe in cm" FROM x ORDER BY "Größe in cm";
-- the main schema
SELECT n_name FROM main.nation ORDER BY n_name;
-- a comma in LIMIT
SELECT c_custkey FROM customer ORDER BY c_custkey LIMIT 2, 3;
-- == and IS
SELECT a FROM x WHERE a == 2 OR a IS NULL ORDER BY a;
-- a text or a number
SELECT CASE WHEN c_acctbal < 0 THEN 'owes' ELSE c_acctbal END AS n FROM customer ORDER BY c_custkey;
-- a text or a date
SELECT coalesce(nullif(o_orderdate, '1994-01-01'), 'no date') AS d, iif(o_orderkey > 5, 'late', o_orderdate) AS e FROM orders ORDER BY o_orderkey;
-- a text above numbers
SELECT 'all' AS who, 1.25 AS n UNION ALL SELECT c_custkey, c_name FROM customer WHERE c_custkey < 3;
