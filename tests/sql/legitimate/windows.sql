-- Window functions, frames, and what is made of them.

-- a number for each row
SELECT e_id, row_number() OVER (ORDER BY e_salary DESC, e_id) AS r FROM employee ORDER BY e_id;
-- ranks with ties
SELECT e_id, rank() OVER (ORDER BY e_salary DESC) AS r, dense_rank() OVER (ORDER BY e_salary DESC) AS d FROM employee ORDER BY e_id;
-- in groups
SELECT e_id, e_team, row_number() OVER (PARTITION BY e_team ORDER BY e_id) AS r FROM employee ORDER BY e_id;
-- a running sum
SELECT e_id, sum(e_salary) OVER (ORDER BY e_id) AS s FROM employee ORDER BY e_id;
-- a running sum in groups
SELECT e_id, sum(e_salary) OVER (PARTITION BY e_team ORDER BY e_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM employee ORDER BY e_id;
-- a moving average
SELECT v_id, avg(v_amount) OVER (ORDER BY v_id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS m FROM event ORDER BY v_id;
-- a centred window
SELECT v_id, sum(v_amount) OVER (ORDER BY v_id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM event ORDER BY v_id;
-- rows to come
SELECT v_id, count(v_amount) OVER (ORDER BY v_id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n FROM event ORDER BY v_id;
-- a frame by its start alone
SELECT v_id, max(v_amount) OVER (ORDER BY v_id ROWS 3 PRECEDING) AS m FROM event ORDER BY v_id;
-- a frame before this row
SELECT v_id, sum(v_amount) OVER (ORDER BY v_id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS s FROM event ORDER BY v_id;
-- a frame of values
SELECT e_id, count(*) OVER (ORDER BY e_salary RANGE BETWEEN 500 PRECEDING AND 500 FOLLOWING) AS n FROM employee ORDER BY e_id;
-- peers
SELECT e_id, count(*) OVER (ORDER BY e_salary RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM employee ORDER BY e_id;
-- groups of peers
SELECT e_id, sum(e_salary) OVER (ORDER BY e_salary GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM employee ORDER BY e_id;
-- not mariadb: has no GROUPS
-- the row before
SELECT v_id, v_amount - lag(v_amount) OVER (ORDER BY v_id) AS delta FROM event ORDER BY v_id;
-- two before, or zero
SELECT v_id, lag(v_amount, 2, 0) OVER (ORDER BY v_id) AS before FROM event ORDER BY v_id;
-- not mariadb: lag() has no third argument, and BEFORE is a word of its own
-- the row after, in groups
SELECT v_id, lead(v_kind) OVER (PARTITION BY v_customer ORDER BY v_id) AS next_kind FROM event ORDER BY v_id;
-- the first of a group
SELECT v_id, first_value(v_kind) OVER (PARTITION BY v_customer ORDER BY v_id) AS first_kind FROM event ORDER BY v_id;
-- the last of a group
SELECT v_id, last_value(v_id) OVER (PARTITION BY v_customer ORDER BY v_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last_id FROM event ORDER BY v_id;
-- the second of a group
SELECT v_id, nth_value(v_id, 2) OVER (PARTITION BY v_customer ORDER BY v_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second_id FROM event ORDER BY v_id;
-- quarters
SELECT e_id, ntile(4) OVER (ORDER BY e_salary DESC, e_id) AS quarter FROM employee ORDER BY e_id;
-- percent ranks
SELECT e_id, percent_rank() OVER (ORDER BY e_salary) AS p, cume_dist() OVER (ORDER BY e_salary) AS c FROM employee ORDER BY e_id;
-- a share of the group
SELECT e_id, e_salary * 1.0 / sum(e_salary) OVER (PARTITION BY e_team) AS share FROM employee ORDER BY e_id;
-- the distance to the average
SELECT e_id, e_salary - avg(e_salary) OVER (PARTITION BY e_team) AS distance FROM employee ORDER BY e_id;
-- the best of each group
SELECT e_team, e_id FROM (SELECT e_team, e_id, row_number() OVER (PARTITION BY e_team ORDER BY e_salary DESC, e_id) AS r FROM employee) AS q WHERE r = 1 ORDER BY e_id;
-- the best two of each group
WITH ranked AS (SELECT o_custkey, o_orderkey, row_number() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS r FROM orders) SELECT o_custkey, o_orderkey FROM ranked WHERE r <= 2 ORDER BY o_custkey, r;
-- over groups
SELECT l_shipmode, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, l_shipmode) AS r FROM lineitem GROUP BY l_shipmode ORDER BY r;
-- a running sum of sums
SELECT d_year, d_qoy, sum(ss_ext_sales_price) AS sales, sum(sum(ss_ext_sales_price)) OVER (ORDER BY d_year, d_qoy) AS so_far FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk GROUP BY d_year, d_qoy ORDER BY d_year, d_qoy;
-- against the quarter before
SELECT d_year, d_qoy, sales, sales - lag(sales) OVER (ORDER BY d_year, d_qoy) AS growth FROM (SELECT d_year, d_qoy, sum(ws_sales_price) AS sales FROM web_sales JOIN date_dim ON d_date_sk = ws_sold_date_sk GROUP BY d_year, d_qoy) AS q ORDER BY d_year, d_qoy;
-- a named window
SELECT e_id, sum(e_salary) OVER w AS s, row_number() OVER w AS r FROM employee WINDOW w AS (PARTITION BY e_team ORDER BY e_id) ORDER BY e_id;
-- two named windows
SELECT e_id, min(e_salary) OVER team AS lo, max(e_salary) OVER everyone AS hi FROM employee WINDOW team AS (PARTITION BY e_team), everyone AS () ORDER BY e_id;
-- in ORDER BY
SELECT e_id FROM employee ORDER BY row_number() OVER (ORDER BY e_salary, e_id DESC);
-- filtered
SELECT e_id, count(*) FILTER (WHERE e_active) OVER (PARTITION BY e_team) AS active FROM employee ORDER BY e_id;
-- not mariadb: has no FILTER
-- sessions: a gap of three hours begins another
WITH gaps AS (SELECT v_id, v_customer, CASE WHEN v_id - lag(v_id) OVER (PARTITION BY v_customer ORDER BY v_id) > 4 THEN 1 ELSE 0 END AS is_new FROM event) SELECT v_id, v_customer, 1 + sum(is_new) OVER (PARTITION BY v_customer ORDER BY v_id) AS session FROM gaps ORDER BY v_id;
-- islands
WITH numbered AS (SELECT v_id, v_customer, v_id - row_number() OVER (PARTITION BY v_customer ORDER BY v_id) AS island FROM event) SELECT v_customer, min(v_id) AS first_id, count(*) AS n FROM numbered GROUP BY v_customer, island HAVING count(*) > 1 ORDER BY v_customer, first_id;
-- duplicates
SELECT a, b, r FROM (SELECT a, b, row_number() OVER (PARTITION BY a, b ORDER BY a) AS r FROM x) AS q WHERE r > 1 ORDER BY a, b;
-- window over a join
SELECT c_custkey, o_orderkey, sum(o_totalprice) OVER (PARTITION BY c_nationkey ORDER BY o_orderkey) AS s FROM customer JOIN orders ON c_custkey = o_custkey ORDER BY o_orderkey;
-- a maximum so far, with NULLs last in the window
SELECT v_id, max(v_amount) OVER (ORDER BY v_id ROWS UNBOUNDED PRECEDING) AS m FROM event ORDER BY v_id;
-- the total beside each row
SELECT s_name, s_acctbal, sum(s_acctbal) OVER () AS total FROM supplier ORDER BY s_suppkey;
-- a window that is another of the clause
SELECT a, count(*) OVER w AS n FROM x WINDOW base AS (ORDER BY a), w AS (base) ORDER BY a;
