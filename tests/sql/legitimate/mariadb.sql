-- What people write for MariaDB alone.

-- orders by month
SELECT date_format(o_orderdate, '%Y-%m') AS month, count(*) AS n FROM orders GROUP BY date_format(o_orderdate, '%Y-%m') ORDER BY month;
-- orders by year and month
SELECT year(o_orderdate) AS y, month(o_orderdate) AS m, count(*) AS n FROM orders GROUP BY year(o_orderdate), month(o_orderdate) ORDER BY y, m;
-- days between
SELECT l_orderkey, l_linenumber, datediff(l_receiptdate, l_shipdate) AS days FROM lineitem ORDER BY 1, 2 LIMIT 20;
-- parts of a date
SELECT o_orderkey, quarter(o_orderdate) AS q, dayofweek(o_orderdate) AS w, dayname(o_orderdate) AS n, last_day(o_orderdate) AS l FROM orders ORDER BY o_orderkey;
-- extract
SELECT extract(YEAR FROM o_orderdate) AS y, count(*) AS n FROM orders GROUP BY extract(YEAR FROM o_orderdate) ORDER BY y;
-- texts of a group
SELECT n_regionkey, group_concat(n_name ORDER BY n_name SEPARATOR ', ') AS names FROM nation GROUP BY n_regionkey ORDER BY n_regionkey;
-- if and ifnull
SELECT if(a > 1, 'many', 'few') AS k, ifnull(a, 0) AS n FROM x ORDER BY a;
-- backticks
SELECT `x`.`a` AS `the a` FROM `x` ORDER BY `the a`;
-- null-safe equal
SELECT a FROM x WHERE b <=> NULL ORDER BY a;
-- a regular expression
SELECT n_name FROM nation WHERE n_name REGEXP '^[BCF]' ORDER BY n_name;
-- a cast to a whole number
SELECT CAST(substring(c_phone, 1, 2) AS SIGNED) + 1 AS code FROM customer ORDER BY c_custkey;
-- a text in double quotes
SELECT count(*) AS n FROM nation WHERE n_name = "BRAZIL";
-- div
SELECT 7 DIV 2 AS q, 7 MOD 2 AS r, 7 / 2 AS f;
-- subtotals
SELECT l_shipmode, sum(l_quantity) AS q FROM lineitem GROUP BY l_shipmode WITH ROLLUP;
-- a part up to a letter
SELECT substring_index(c_phone, '-', 1) AS code, locate('-', c_phone) AS p FROM customer ORDER BY c_custkey;
-- a comma in LIMIT
SELECT c_custkey FROM customer ORDER BY c_custkey LIMIT 2, 3;
-- joined with a separator
SELECT concat_ws('-', c_name, c_comment, c_mktsegment) AS t FROM customer ORDER BY c_custkey;
