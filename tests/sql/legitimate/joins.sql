-- Joins of every kind, over tables with duplicates and NULLs.

-- inner
SELECT x.a, y.c FROM x JOIN y ON x.b = y.b ORDER BY 1, 2;
-- INNER, said
SELECT x.a, y.c FROM x INNER JOIN y ON x.b = y.b AND y.c > 2 ORDER BY 1, 2;
-- left
SELECT x.a, y.c FROM x LEFT JOIN y ON x.b = y.b ORDER BY 1, 2;
-- left, filtered in ON
SELECT x.a, y.c FROM x LEFT JOIN y ON x.b = y.b AND y.c = 3 ORDER BY 1, 2;
-- left, filtered in WHERE
SELECT x.a, y.c FROM x LEFT JOIN y ON x.b = y.b WHERE y.c = 3 ORDER BY 1, 2;
-- what has no partner
SELECT x.a, x.b FROM x LEFT JOIN y ON x.b = y.b WHERE y.b IS NULL ORDER BY 1, 2;
-- right
SELECT x.a, y.c FROM x RIGHT JOIN y ON x.b = y.b ORDER BY 1, 2;
-- right after left
SELECT x.a, y.c, z.c AS zc FROM x LEFT JOIN y ON x.b = y.b RIGHT JOIN z ON y.c = z.c ORDER BY 1, 2, 3;
-- full
SELECT x.a, y.c FROM x FULL JOIN y ON x.b = y.b ORDER BY 1, 2;
-- not mariadb: has no FULL JOIN
-- full outer, only what has no partner
SELECT x.b, y.b AS yb FROM x FULL OUTER JOIN y ON x.b = y.b WHERE x.b IS NULL OR y.b IS NULL ORDER BY 1, 2;
-- not mariadb: has no FULL JOIN
-- cross
SELECT x.a, z.c FROM x CROSS JOIN z WHERE x.a > 2 ORDER BY 1, 2;
-- comma
SELECT x.a, z.c FROM x, z WHERE x.a > 2 ORDER BY 1, 2;
-- three commas
SELECT x.a, y.c, z.c AS zc FROM x, y, z WHERE x.b = y.b AND y.b = z.b ORDER BY 1, 2, 3;
-- using
SELECT b, a, c FROM x JOIN y USING (b) ORDER BY 1, 2, 3;
-- left using
SELECT b, a, c FROM x LEFT JOIN y USING (b) ORDER BY 1, 2, 3;
-- right using: the column of the right
SELECT b, a, c FROM x RIGHT JOIN y USING (b) ORDER BY 1, 2, 3;
-- full using: whichever there is
SELECT b, a, c FROM x FULL JOIN y USING (b) ORDER BY 1, 2, 3;
-- not mariadb: has no FULL JOIN
-- using, all columns
SELECT * FROM x JOIN y USING (b) ORDER BY 1, 2, 3;
-- using, all columns, whose order says what is first
SELECT * FROM x JOIN y USING (b) ORDER BY 1 DESC, 2, 3 LIMIT 3;
-- using twice, all columns
SELECT * FROM x JOIN y USING (b) JOIN (SELECT c, b AS d FROM z) AS q USING (c) ORDER BY 1 DESC, 2, 3, 4 LIMIT 3;
-- right using, all columns
SELECT * FROM x RIGHT JOIN y USING (b) ORDER BY b, a, c;
-- not mariadb: shows the right table first
-- using two columns
SELECT y.b, y.c FROM y JOIN z USING (b, c) ORDER BY 1, 2;
-- using, in a chain
SELECT b, a FROM x JOIN y USING (b) JOIN (SELECT DISTINCT b FROM z) AS q USING (b) ORDER BY 1, 2;
-- natural
SELECT b, c FROM y NATURAL JOIN z ORDER BY 1, 2;
-- natural left
SELECT b, c, a FROM y NATURAL LEFT JOIN x ORDER BY 1, 2, 3;
-- natural, all columns
SELECT * FROM x NATURAL JOIN y ORDER BY a, b, c;
-- with itself
SELECT p.a, q.a AS qa FROM x p JOIN x q ON p.a = q.b ORDER BY 1, 2;
-- with itself, pairs
SELECT p.e_name, q.e_name AS colleague FROM employee p JOIN employee q ON p.e_team = q.e_team AND p.e_id < q.e_id ORDER BY p.e_id, q.e_id;
-- unequal
SELECT x.a, y.c FROM x JOIN y ON x.a < y.c ORDER BY 1, 2;
-- between
SELECT x.a, y.c FROM x JOIN y ON y.c BETWEEN x.a AND x.a + 1 ORDER BY 1, 2;
-- or
SELECT x.a, y.c FROM x JOIN y ON x.a = y.c OR x.b = y.b ORDER BY 1, 2;
-- on a constant
SELECT x.a, y.c FROM x JOIN y ON 1 = 1 WHERE x.a = 4 ORDER BY 1, 2;
-- on an expression
SELECT x.a, y.c FROM x JOIN y ON x.a + 1 = y.c - 1 ORDER BY 1, 2;
-- a derived table on the right
SELECT x.a, q.m FROM x JOIN (SELECT b, max(c) AS m FROM y GROUP BY b) q ON x.b = q.b ORDER BY 1, 2;
-- a derived table on the left
SELECT q.n, y.c FROM (SELECT b, count(*) AS n FROM x GROUP BY b) q LEFT JOIN y ON y.b = q.b ORDER BY 1, 2;
-- joins in brackets
SELECT x.a, y.c, z.c AS zc FROM x LEFT JOIN (y JOIN z ON y.b = z.b) ON x.b = y.b ORDER BY 1, 2, 3;
-- joins in brackets first
SELECT x.a, y.c, z.c AS zc FROM (x JOIN y ON x.b = y.b) LEFT JOIN z ON z.c = y.c ORDER BY 1, 2, 3;
-- a chain of four
SELECT c_name, n_name, r_name, count(o_orderkey) AS n FROM customer JOIN nation ON c_nationkey = n_nationkey
JOIN region ON n_regionkey = r_regionkey LEFT JOIN orders ON o_custkey = c_custkey
GROUP BY c_name, n_name, r_name ORDER BY n DESC, c_name;
-- five tables, mixed
SELECT s_name, p_name, ps_availqty FROM supplier JOIN partsupp ON s_suppkey = ps_suppkey JOIN part ON p_partkey = ps_partkey
LEFT JOIN nation ON n_nationkey = s_nationkey LEFT JOIN region ON r_regionkey = n_regionkey AND r_name = 'ASIA'
WHERE r_name IS NULL AND ps_availqty > 700 ORDER BY s_suppkey, p_partkey;
-- null-safe
SELECT x.a, y.c FROM x JOIN y ON x.b IS NOT DISTINCT FROM y.b ORDER BY 1, 2;
-- not mariadb: spells it <=>
-- semi
SELECT a, b FROM x WHERE b IN (SELECT b FROM y) ORDER BY 1, 2;
-- anti
SELECT a, b FROM x WHERE b NOT IN (SELECT b FROM y WHERE b IS NOT NULL) ORDER BY 1, 2;
-- anti with NULL: nothing
SELECT a, b FROM x WHERE b NOT IN (SELECT b FROM y) ORDER BY 1, 2;
-- left join of a count
SELECT r_name, n FROM region LEFT JOIN (SELECT n_regionkey AS k, count(*) AS n FROM nation GROUP BY n_regionkey) AS q ON k = r_regionkey ORDER BY r_name;
