-- Set operations: which rows stay, which operation is first, and what ORDER BY and LIMIT belong to.

-- union
SELECT b FROM x UNION SELECT b FROM y ORDER BY b;
-- union all
SELECT b FROM x UNION ALL SELECT b FROM y ORDER BY b;
-- intersect
SELECT b FROM x INTERSECT SELECT b FROM y ORDER BY b;
-- except
SELECT b FROM x EXCEPT SELECT b FROM y ORDER BY b;
-- intersect all
SELECT b FROM z INTERSECT ALL SELECT b FROM z ORDER BY b;
-- not sqlite: has no INTERSECT ALL
-- except all
SELECT b FROM x EXCEPT ALL SELECT b FROM y ORDER BY b;
-- not sqlite: has no EXCEPT ALL
-- two columns
SELECT b, c FROM y UNION SELECT b, c FROM z ORDER BY b, c;
-- of three
SELECT a FROM x UNION SELECT b FROM y UNION SELECT c FROM z ORDER BY 1;
-- all, then distinct: the last one counts
SELECT a FROM x UNION ALL SELECT a FROM x UNION SELECT b FROM y ORDER BY 1;
-- distinct, then all
SELECT a FROM x UNION SELECT a FROM x UNION ALL SELECT b FROM y ORDER BY 1;
-- except twice, from the left
SELECT a FROM x EXCEPT SELECT b FROM y EXCEPT SELECT c FROM z ORDER BY 1;
-- intersect after union
SELECT 1 AS n UNION SELECT 2 INTERSECT SELECT 2 ORDER BY n;
-- intersect after union all
SELECT a FROM x UNION ALL SELECT b FROM y INTERSECT SELECT c FROM z ORDER BY 1;
-- intersect after except
SELECT a FROM x EXCEPT SELECT b FROM y INTERSECT SELECT b FROM z ORDER BY 1;
-- intersect before union
SELECT a FROM x INTERSECT SELECT b FROM y UNION SELECT c FROM z ORDER BY 1;
-- except after union
SELECT a FROM x UNION SELECT c FROM z EXCEPT SELECT b FROM y ORDER BY 1;
-- a mixture of five
SELECT a FROM x UNION SELECT b FROM y EXCEPT SELECT 3 UNION ALL SELECT c FROM z INTERSECT SELECT 4 ORDER BY 1;
-- brackets
SELECT a FROM x EXCEPT (SELECT b FROM y UNION SELECT 1) ORDER BY 1;
-- not sqlite: has no brackets there
-- brackets on the left
(SELECT a FROM x UNION SELECT b FROM y) INTERSECT SELECT c FROM z ORDER BY 1;
-- not sqlite: has no brackets there
-- brackets in a derived table
SELECT a FROM x EXCEPT SELECT n FROM (SELECT b AS n FROM y UNION SELECT 1) AS q ORDER BY 1;
-- ordered by place
SELECT a AS n FROM x UNION SELECT c FROM y ORDER BY 1 DESC;
-- ordered by the name of the first
SELECT a AS n FROM x UNION SELECT c AS m FROM y ORDER BY n;
-- limited
SELECT a AS n FROM x WHERE a IS NOT NULL UNION SELECT c FROM y ORDER BY n LIMIT 3;
-- limited and skipped
SELECT a AS n FROM x WHERE a IS NOT NULL UNION ALL SELECT c FROM y ORDER BY n LIMIT 3 OFFSET 2;
-- limited inside
SELECT n FROM (SELECT a AS n FROM x WHERE a IS NOT NULL ORDER BY a DESC LIMIT 2) AS q UNION ALL SELECT c FROM y ORDER BY n;
-- limited inside, in brackets
(SELECT a AS n FROM x WHERE a IS NOT NULL ORDER BY a DESC LIMIT 1) UNION ALL (SELECT c FROM y ORDER BY c LIMIT 1) ORDER BY n;
-- not sqlite: has no brackets there
-- in a common table expression
WITH q AS (SELECT a AS n FROM x UNION ALL SELECT b FROM y) SELECT n, count(*) AS k FROM q GROUP BY n ORDER BY n;
-- of common table expressions
WITH p AS (SELECT a FROM x), q AS (SELECT b FROM y) SELECT a FROM p EXCEPT SELECT b FROM q ORDER BY 1;
-- as a condition
SELECT a FROM x WHERE a IN (SELECT b FROM y UNION SELECT 1) ORDER BY a;
-- as a value
SELECT (SELECT max(n) FROM (SELECT b AS n FROM y UNION ALL SELECT c FROM z) AS q) AS largest;
-- with constants
SELECT 'x' AS source, count(*) AS n FROM x UNION ALL SELECT 'y', count(*) FROM y UNION ALL SELECT 'z', count(*) FROM z ORDER BY source;
-- with groups
SELECT e_team AS name, sum(e_salary) AS paid FROM employee GROUP BY e_team UNION ALL SELECT 'all of them', sum(e_salary) FROM employee ORDER BY paid, name;
-- numbers and NULL
SELECT NULL AS n UNION SELECT a FROM x ORDER BY n;
-- dates
SELECT o_orderdate AS day FROM orders WHERE o_orderkey < 5 UNION SELECT l_shipdate FROM lineitem WHERE l_orderkey < 3 ORDER BY day;
-- money
SELECT c_acctbal AS amount FROM customer WHERE c_custkey < 4 UNION ALL SELECT s_acctbal FROM supplier WHERE s_suppkey < 4 ORDER BY amount;
-- a whole number and money
SELECT 1 AS n UNION ALL SELECT c_acctbal FROM customer WHERE c_custkey = 1 ORDER BY n;
-- a join of two
SELECT q.n, r.n AS rn FROM (SELECT a AS n FROM x UNION SELECT b FROM y) q JOIN (SELECT b AS n FROM y INTERSECT SELECT c FROM z) r ON q.n = r.n ORDER BY 1;
-- union of joins
SELECT x.a FROM x JOIN y ON x.b = y.b UNION SELECT z.c FROM y JOIN z ON y.b = z.b ORDER BY 1;
-- who bought where
SELECT ss_customer_sk AS customer FROM store_sales WHERE ss_customer_sk IS NOT NULL INTERSECT SELECT ws_customer_sk FROM web_sales ORDER BY customer;
-- who bought on the web alone
SELECT ws_customer_sk AS customer FROM web_sales EXCEPT SELECT ss_customer_sk FROM store_sales ORDER BY customer;
