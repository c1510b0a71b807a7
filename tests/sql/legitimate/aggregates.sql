-- Groups, aggregates, HAVING, DISTINCT.

-- count of all and of what is there
SELECT count(*) AS n, count(a) AS na, count(DISTINCT b) AS nb FROM x;
-- every plain aggregate
SELECT count(a) AS n, sum(a) AS s, avg(a) AS m, min(a) AS lo, max(a) AS hi FROM x;
-- of money
SELECT sum(c_acctbal) AS s, avg(c_acctbal) AS m, min(c_acctbal) AS lo, max(c_acctbal) AS hi FROM customer;
-- of nothing
SELECT count(*) AS n, sum(a) AS s, avg(a) AS m FROM x WHERE a > 100;
-- of nothing, grouped
SELECT b, count(*) AS n FROM x WHERE a > 100 GROUP BY b;
-- of texts and dates
SELECT min(c_name) AS n, max(o_orderdate) AS d FROM customer JOIN orders ON c_custkey = o_custkey;
-- of an expression
SELECT sum(a * 2 + b) AS s, avg(a - b) AS m FROM x;
-- an expression of aggregates
SELECT (max(a) - min(a)) * 2 + count(*) AS n FROM x;
-- of distinct values
SELECT count(DISTINCT a) AS n, sum(DISTINCT a) AS s, avg(DISTINCT b) AS m FROM x;
-- a share
SELECT l_shipmode, 100.0 * count(*) / (SELECT count(*) FROM lineitem) AS share FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;
-- a share by a window over a sum
SELECT l_shipmode, sum(l_quantity) * 100.0 / sum(sum(l_quantity)) OVER () AS share FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;
-- conditional counts
SELECT sum(CASE WHEN a > 1 THEN 1 ELSE 0 END) AS many, count(CASE WHEN b IS NULL THEN 1 END) AS blanks FROM x;
-- filtered
SELECT count(*) FILTER (WHERE a > 1) AS many, sum(b) FILTER (WHERE a IS NOT NULL) AS s FROM x;
-- not mariadb: has no FILTER
-- a pivot
SELECT l_returnflag, sum(CASE l_shipmode WHEN 'AIR' THEN l_quantity END) AS air, sum(CASE l_shipmode WHEN 'SHIP' THEN l_quantity END) AS ship FROM lineitem GROUP BY l_returnflag ORDER BY l_returnflag;
-- grouped by two
SELECT l_returnflag, l_shipmode, count(*) AS n FROM lineitem GROUP BY l_returnflag, l_shipmode ORDER BY 1, 2;
-- grouped by an expression
SELECT a % 2 AS odd, count(*) AS n FROM x GROUP BY a % 2 ORDER BY odd;
-- grouped by CASE
SELECT CASE WHEN c_acctbal < 0 THEN 'owes' WHEN c_acctbal < 5000 THEN 'has' ELSE 'rich' END AS kind, count(*) AS n FROM customer GROUP BY CASE WHEN c_acctbal < 0 THEN 'owes' WHEN c_acctbal < 5000 THEN 'has' ELSE 'rich' END ORDER BY kind;
-- grouped by CASE, by its alias
SELECT CASE WHEN p_size < 10 THEN 'small' ELSE 'large' END AS size, avg(p_retailprice) AS price FROM part GROUP BY size ORDER BY size;
-- grouped by a part of a text
SELECT substr(c_phone, 1, 2) AS code, count(*) AS n FROM customer GROUP BY substr(c_phone, 1, 2) ORDER BY code;
-- NULL is a group
SELECT b, count(*) AS n, sum(a) AS s FROM x GROUP BY b ORDER BY b;
-- having
SELECT o_custkey, count(*) AS n FROM orders GROUP BY o_custkey HAVING count(*) > 5 ORDER BY n DESC, o_custkey;
-- having an alias' expression
SELECT o_custkey, sum(o_totalprice) AS spent FROM orders GROUP BY o_custkey HAVING sum(o_totalprice) > 500000 AND count(*) >= 2 ORDER BY spent DESC, o_custkey;
-- having without selecting
SELECT b FROM x GROUP BY b HAVING count(*) = 1 ORDER BY b;
-- having without groups
SELECT sum(a) AS s FROM x HAVING count(*) > 3;
-- having compared with a subquery
SELECT o_custkey, avg(o_totalprice) AS m FROM orders GROUP BY o_custkey HAVING avg(o_totalprice) > (SELECT avg(o_totalprice) FROM orders) ORDER BY o_custkey;
-- distinct rows
SELECT DISTINCT a, b FROM x ORDER BY a, b;
-- distinct and limited
SELECT DISTINCT l_shipmode FROM lineitem ORDER BY l_shipmode LIMIT 2;
-- distinct expressions
SELECT DISTINCT a + b AS s FROM x ORDER BY s;
-- distinct groups
SELECT DISTINCT count(*) AS n FROM orders GROUP BY o_custkey ORDER BY n;
-- a count of groups
SELECT count(*) AS groups_found FROM (SELECT b FROM x GROUP BY b) AS q;
-- a count of distinct rows
SELECT count(*) AS n FROM (SELECT DISTINCT l_shipmode, l_returnflag FROM lineitem) AS q;
-- an average of sums
SELECT avg(spent) AS m FROM (SELECT sum(o_totalprice) AS spent FROM orders GROUP BY o_custkey) AS q;
-- the largest of each group
SELECT o_custkey, o_orderkey, o_totalprice FROM orders AS o WHERE o_totalprice = (SELECT max(o_totalprice) FROM orders AS i WHERE i.o_custkey = o.o_custkey) ORDER BY o_custkey;
-- the largest of each group, by a join
SELECT o.o_custkey, o.o_orderkey FROM orders o JOIN (SELECT o_custkey, max(o_orderdate) AS latest FROM orders GROUP BY o_custkey) AS q ON q.o_custkey = o.o_custkey AND q.latest = o.o_orderdate ORDER BY 1, 2;
-- rounded
SELECT l_shipmode, round(avg(l_extendedprice), 2) AS price FROM lineitem GROUP BY l_shipmode ORDER BY l_shipmode;
-- a ratio that may divide by zero
SELECT e_team, sum(e_salary) / nullif(sum(CASE WHEN e_active THEN 1 ELSE 0 END), 0) AS per_head FROM employee GROUP BY e_team ORDER BY e_team;
-- money times a whole number
SELECT sum(ps_supplycost * ps_availqty) AS value FROM partsupp;
-- of a boolean
SELECT e_active, count(*) AS n FROM employee GROUP BY e_active ORDER BY e_active;
-- a variance by hand
SELECT avg(a * a) - avg(a) * avg(a) AS v FROM x;
-- a median by hand
SELECT avg(e_salary) AS median FROM (SELECT e_salary, row_number() OVER (ORDER BY e_salary, e_id) AS r, count(*) OVER () AS n FROM employee) AS q WHERE r IN ((n + 1) / 2, (n + 2) / 2);
-- not duckdb: divides whole numbers into fractions
-- groups of groups
SELECT n, count(*) AS customers FROM (SELECT o_custkey, count(*) AS n FROM orders GROUP BY o_custkey) AS q GROUP BY n ORDER BY n;
-- first and last day
SELECT o_custkey, min(o_orderdate) AS first_day, max(o_orderdate) AS last_day FROM orders GROUP BY o_custkey ORDER BY first_day, o_custkey;
-- the top three groups
SELECT i_category, sum(ss_ext_sales_price) AS sales FROM store_sales JOIN item ON i_item_sk = ss_item_sk GROUP BY i_category ORDER BY sales DESC LIMIT 3;
-- page two
SELECT c_custkey, c_name FROM customer ORDER BY c_custkey LIMIT 5 OFFSET 5;
-- fetch first
SELECT c_custkey FROM customer ORDER BY c_custkey OFFSET 3 ROWS FETCH FIRST 4 ROWS ONLY;
-- not sqlite: has LIMIT alone
-- fetch next row
SELECT c_custkey FROM customer ORDER BY c_custkey FETCH NEXT ROW ONLY;
-- not sqlite: has LIMIT alone
-- limit 0
SELECT a FROM x ORDER BY a LIMIT 0;
-- a constant among the groups
SELECT 'all' AS what, b, count(*) AS n FROM x GROUP BY what, b ORDER BY 2;
-- a constant as the only group
SELECT 1 AS k, sum(a) AS n FROM x GROUP BY k;
-- a constant as the only group of no rows
SELECT 'none' AS k, sum(a) AS n FROM x WHERE a > 100 GROUP BY 1;
-- NULL among the groups
SELECT NULL AS k, b, count(*) AS n FROM x GROUP BY 1, 2 ORDER BY 2;
-- ordinals in parentheses
SELECT b, count(*) AS n FROM x GROUP BY (1) ORDER BY (2) DESC, (1);
-- ordinals in sets
SELECT b, a, count(*) AS n FROM x GROUP BY GROUPING SETS ((1, 2), (1), ()) ORDER BY 1, 2, 3;
-- not sqlite, mariadb: has no GROUPING SETS
-- distinct on an ordinal
SELECT DISTINCT ON (2) a, b FROM x ORDER BY 2, 1;
-- not sqlite, mariadb: has no DISTINCT ON
-- distinct on a name that is a column, too
SELECT DISTINCT ON (a) b AS a, a AS c FROM x ORDER BY 1, 2;
-- not sqlite, mariadb: has no DISTINCT ON
