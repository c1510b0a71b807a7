-- What people write for DuckDB alone.

-- orders by month
SELECT date_trunc('month', o_orderdate) AS month, count(*) AS n FROM orders GROUP BY date_trunc('month', o_orderdate) ORDER BY month;
-- orders by year
SELECT extract(year FROM o_orderdate) AS y, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
-- year and month
SELECT year(o_orderdate) AS y, month(o_orderdate) AS m, count(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
-- days between
SELECT l_orderkey, l_linenumber, date_diff('day', l_shipdate, l_receiptdate) AS days FROM lineitem ORDER BY 1, 2 LIMIT 20;
-- a date as a text
SELECT o_orderkey, strftime(o_orderdate, '%Y-%m') AS month FROM orders ORDER BY o_orderkey;
-- texts of a group
SELECT n_regionkey, string_agg(n_name, ', ') AS names FROM (SELECT * FROM nation ORDER BY n_name) GROUP BY n_regionkey ORDER BY n_regionkey;
-- a median
SELECT median(e_salary) AS m, quantile_cont(e_salary, 0.9) AS q FROM employee;
-- whole division
SELECT 7 // 2 AS q, 7 / 2 AS f, 7 % 2 AS r;
-- the row of the largest
SELECT arg_max(o_orderkey, o_totalprice) AS k FROM orders;
-- a cast by colons
SELECT o_totalprice::DOUBLE AS d, '1995-06-01'::DATE AS e FROM orders ORDER BY o_orderkey;
-- subtotals
SELECT l_shipmode, sum(l_quantity) AS q FROM lineitem GROUP BY ROLLUP (l_shipmode) ORDER BY 1 NULLS LAST;
-- distinct on
SELECT DISTINCT ON (o_custkey) o_custkey, o_orderkey FROM orders ORDER BY o_custkey, o_orderdate DESC, o_orderkey;
-- any letter case
SELECT n_name FROM nation WHERE n_name ILIKE 'ger%' ORDER BY n_name;
-- a list of a group
SELECT n_regionkey, list(n_name ORDER BY n_name) AS names FROM nation GROUP BY n_regionkey ORDER BY n_regionkey;
-- count_if
SELECT count_if(a > 1) AS n FROM x;
