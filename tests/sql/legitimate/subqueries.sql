-- Subqueries: as values, as conditions, correlated, nested, recursive.

-- a value
SELECT a, (SELECT max(b) FROM y) AS m FROM x ORDER BY a;
-- a value of this row
SELECT a, (SELECT count(*) FROM y WHERE y.b = x.b) AS n FROM x ORDER BY a;
-- two values of this row
SELECT r_name, (SELECT count(*) FROM nation WHERE n_regionkey = r_regionkey) AS n, (SELECT min(n_name) FROM nation WHERE n_regionkey = r_regionkey) AS first_name FROM region ORDER BY r_name;
-- compared with a value
SELECT a FROM x WHERE a > (SELECT avg(a) FROM x) ORDER BY a;
-- compared with a value of this row
SELECT l_orderkey, l_linenumber FROM lineitem AS l WHERE l_quantity > (SELECT 1.4 * avg(l_quantity) FROM lineitem AS i WHERE i.l_partkey = l.l_partkey) ORDER BY 1, 2;
-- in
SELECT c_name FROM customer WHERE c_custkey IN (SELECT o_custkey FROM orders WHERE o_totalprice > 350000) ORDER BY c_name;
-- not in
SELECT c_name FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders) ORDER BY c_name;
-- exists
SELECT s_name FROM supplier WHERE EXISTS (SELECT * FROM partsupp WHERE ps_suppkey = s_suppkey AND ps_availqty > 900) ORDER BY s_name;
-- not exists
SELECT s_name FROM supplier WHERE NOT EXISTS (SELECT 1 FROM partsupp WHERE ps_suppkey = s_suppkey AND ps_availqty > 900) ORDER BY s_name;
-- exists and more
SELECT a FROM x WHERE a > 1 AND (EXISTS (SELECT 1 FROM y WHERE y.b = x.b) OR a = 4) ORDER BY a;
-- any
SELECT a FROM x WHERE a = ANY (SELECT b FROM y) ORDER BY a;
-- not sqlite: has no ANY
-- all
SELECT a FROM x WHERE a >= ALL (SELECT b FROM y WHERE b IS NOT NULL) ORDER BY a;
-- not sqlite: has no ALL
-- some
SELECT a FROM x WHERE a < SOME (SELECT c FROM z) ORDER BY a;
-- not sqlite: has no SOME
-- a pair in a subquery
SELECT b, c FROM y WHERE (b, c) IN (SELECT b, c FROM z) ORDER BY b, c;
-- a pair in a list
SELECT b, c FROM y WHERE (b, c) IN ((2, 3), (3, 3)) ORDER BY b, c;
-- not sqlite: wants VALUES there
-- values in a list
SELECT a FROM x WHERE a IN (VALUES (1), (3)) ORDER BY a;
-- pairs in VALUES
SELECT b, c FROM y WHERE (b, c) IN (VALUES (2, 3), (3, 3)) ORDER BY b, c;
-- pairs compared
SELECT b, c FROM y WHERE (b, c) = (2, 3) ORDER BY b, c;
-- in CASE
SELECT a, CASE WHEN EXISTS (SELECT 1 FROM y WHERE y.b = x.a) THEN 'in y' ELSE 'not' END AS place FROM x ORDER BY a;
-- in ORDER BY
SELECT a FROM x WHERE a IS NOT NULL ORDER BY (SELECT count(*) FROM y WHERE y.b = x.a) DESC, a;
-- in HAVING
SELECT b, count(*) AS n FROM x GROUP BY b HAVING count(*) >= (SELECT count(*) FROM z WHERE z.b = x.b) ORDER BY b;
-- in ON
SELECT x.a, y.c FROM x JOIN y ON x.b = y.b AND y.c = (SELECT max(c) FROM y AS i WHERE i.b = x.b) ORDER BY 1, 2;
-- in the arguments of a function
SELECT coalesce((SELECT max(c) FROM z WHERE z.b = x.b), -1) AS m FROM x ORDER BY m;
-- a limit inside
SELECT a, (SELECT c FROM y WHERE y.b = x.b ORDER BY c DESC LIMIT 1) AS last_c FROM x ORDER BY a;
-- in a derived table in a subquery
SELECT a FROM x WHERE a IN (SELECT n FROM (SELECT b AS n FROM y GROUP BY b HAVING count(*) > 1) AS q) ORDER BY a;
-- three levels
SELECT c_name FROM customer WHERE c_custkey IN (SELECT o_custkey FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_partkey IN (SELECT p_partkey FROM part WHERE p_brand = 'Brand#34'))) ORDER BY c_name;
-- a common table expression in a subquery of itself
WITH spent AS (SELECT o_custkey, sum(o_totalprice) AS total FROM orders GROUP BY o_custkey) SELECT o_custkey, total FROM spent WHERE total > (SELECT avg(total) * 1.2 FROM spent) ORDER BY total DESC, o_custkey;
-- numbers one to ten
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i, i * i AS square FROM n ORDER BY i;
-- Fibonacci
WITH RECURSIVE f(i, a, b) AS (SELECT 1, 0, 1 UNION ALL SELECT i + 1, b, a + b FROM f WHERE i < 15) SELECT i, a FROM f ORDER BY i;
-- a tree
WITH RECURSIVE chain AS (SELECT e_id, e_manager, 0 AS depth FROM employee WHERE e_manager IS NULL UNION ALL SELECT e.e_id, e.e_manager, c.depth + 1 FROM employee e JOIN chain c ON e.e_manager = c.e_id) SELECT e_id, depth FROM chain ORDER BY depth, e_id;
-- everyone below somebody
WITH RECURSIVE below(id) AS (SELECT e_id FROM employee WHERE e_id = 2 UNION SELECT e_id FROM employee, below WHERE e_manager = below.id) SELECT id, e_name FROM below JOIN employee ON e_id = id ORDER BY id;
-- the way up
WITH RECURSIVE up AS (SELECT e_id, e_manager FROM employee WHERE e_id = 13 UNION ALL SELECT e.e_id, e.e_manager FROM employee e JOIN up ON e.e_id = up.e_manager) SELECT e_id FROM up ORDER BY e_id;
-- how many below each
WITH RECURSIVE below(boss, id) AS (SELECT e_id, e_id FROM employee UNION ALL SELECT boss, e_id FROM below JOIN employee ON e_manager = id) SELECT boss, count(*) - 1 AS n FROM below GROUP BY boss ORDER BY n DESC, boss;
-- days without orders, by a calendar
SELECT d_year, d_moy, count(*) AS quiet FROM date_dim WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_orderdate = d_date) GROUP BY d_year, d_moy ORDER BY d_year, d_moy;
-- division: who has bought of every brand
SELECT c_custkey FROM customer WHERE NOT EXISTS (SELECT p_brand FROM part WHERE NOT EXISTS (SELECT 1 FROM orders JOIN lineitem ON l_orderkey = o_orderkey JOIN part AS p ON p.p_partkey = l_partkey WHERE o_custkey = c_custkey AND p.p_brand = part.p_brand)) ORDER BY c_custkey;
-- a constant table
SELECT n, label FROM (SELECT 1 AS n, 'one' AS label UNION ALL SELECT 2, 'two' UNION ALL SELECT 3, 'three') AS q WHERE n > 1 ORDER BY n;
-- values
SELECT column1 AS n, column2 AS label FROM (VALUES (1, 'one'), (2, 'two')) AS q ORDER BY n;
-- not mariadb, duckdb: call the columns otherwise
-- values in a common table expression
WITH q(n, label) AS (VALUES (1, 'one'), (2, 'two'), (3, NULL)) SELECT n, label FROM q WHERE n > 1 ORDER BY n;
-- not mariadb: the parser takes VALUES for its function there
-- values joined
WITH q(code, label) AS (VALUES ('A', 'came back'), ('R', 'was refused')) SELECT label, count(*) AS n FROM lineitem JOIN q ON code = l_returnflag GROUP BY label ORDER BY label;
-- not mariadb: the parser takes VALUES for its function there
-- of a subquery in FROM that reads this row
SELECT r_name, (SELECT sum(n) FROM (SELECT n_nationkey AS n FROM nation WHERE n_regionkey = r_regionkey ORDER BY n_nationkey DESC LIMIT 2) AS q) AS n FROM region ORDER BY r_name;
-- not mariadb: reads no enclosing query in FROM
-- exists in a subquery in FROM that reads this row
SELECT a FROM x WHERE EXISTS (SELECT 1 FROM (SELECT y.b + 1 AS n FROM y WHERE y.b = x.b) AS q WHERE n > 2) ORDER BY a;
-- not mariadb: reads no enclosing query in FROM
