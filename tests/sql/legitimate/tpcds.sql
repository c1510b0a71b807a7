-- Questions of the make of TPC-DS, over a store, its web shop and a calendar.

-- brands in November
SELECT d_year, i_brand, sum(ss_ext_sales_price) AS sum_agg FROM date_dim dt, store_sales, item WHERE dt.d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 1 AND dt.d_moy IN (10, 11, 12) GROUP BY d_year, i_brand ORDER BY d_year, sum_agg DESC, i_brand LIMIT 100;
-- customers who return more than others do in their store
WITH customer_total_return AS (SELECT ss_customer_sk AS ctr_customer_sk, ss_store_sk AS ctr_store_sk, sum(sr_return_amt) AS ctr_total_return FROM store_returns JOIN store_sales ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk GROUP BY ss_customer_sk, ss_store_sk) SELECT ctr_customer_sk, ctr_store_sk FROM customer_total_return ctr1 WHERE ctr1.ctr_total_return > (SELECT avg(ctr_total_return) * 1.2 FROM customer_total_return ctr2 WHERE ctr1.ctr_store_sk = ctr2.ctr_store_sk) ORDER BY ctr_customer_sk, ctr_store_sk;
-- web sales by the day of the week
SELECT d_week_seq, sum(CASE WHEN d_day_name = 'Sunday' THEN ws_sales_price ELSE NULL END) AS sun_sales, sum(CASE WHEN d_day_name = 'Monday' THEN ws_sales_price ELSE NULL END) AS mon_sales FROM web_sales JOIN date_dim ON d_date_sk = ws_sold_date_sk GROUP BY d_week_seq ORDER BY d_week_seq;
-- weeks against those of a year later
WITH wswscs AS (SELECT d_week_seq, d_year, sum(ss_sales_price) AS sales FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk GROUP BY d_week_seq, d_year) SELECT y.d_week_seq AS d_week_seq1, round(z.sales / y.sales, 2) AS ratio FROM wswscs y JOIN wswscs z ON y.d_week_seq = z.d_week_seq - 52 WHERE y.d_year = 1994 AND z.d_year = 1995 ORDER BY d_week_seq1;
-- channels side by side
SELECT channel, i_category, sum(price) AS sales FROM (SELECT 'store' AS channel, ss_item_sk AS item_sk, ss_ext_sales_price AS price FROM store_sales UNION ALL SELECT 'web', ws_item_sk, ws_sales_price * ws_quantity FROM web_sales) AS sales_of_all JOIN item ON i_item_sk = item_sk GROUP BY channel, i_category ORDER BY channel, i_category;
-- items dearer than others of their category
SELECT i_item_sk, i_category, i_current_price FROM item i WHERE i_current_price > 1.2 * (SELECT avg(j.i_current_price) FROM item j WHERE j.i_category = i.i_category) ORDER BY i_item_sk;
-- states with many buyers of such items
SELECT s_state, count(DISTINCT ss_customer_sk) AS buyers FROM store_sales JOIN store ON s_store_sk = ss_store_sk JOIN item i ON i_item_sk = ss_item_sk WHERE i.i_current_price > (SELECT avg(j.i_current_price) FROM item j) GROUP BY s_state HAVING count(*) >= 10 ORDER BY s_state;
-- averages of one kind of sale
SELECT i_item_id, avg(ss_quantity) AS agg1, avg(ss_sales_price) AS agg2, avg(ss_net_profit) AS agg3 FROM store_sales, item, store WHERE ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk AND s_state = 'TN' GROUP BY i_item_id ORDER BY i_item_id LIMIT 100;
-- ranges of quantities
SELECT CASE WHEN (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 5) > 50 THEN (SELECT avg(ss_ext_sales_price) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 5) ELSE (SELECT avg(ss_net_profit) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 5) END AS bucket1, CASE WHEN (SELECT count(*) FROM store_sales WHERE ss_quantity BETWEEN 6 AND 10) > 100 THEN 1 ELSE 0 END AS bucket2;
-- customers of both channels
SELECT c_custkey, c_name FROM customer WHERE EXISTS (SELECT * FROM store_sales, date_dim WHERE c_custkey = ss_customer_sk AND ss_sold_date_sk = d_date_sk AND d_year = 1994) AND EXISTS (SELECT * FROM web_sales, date_dim WHERE c_custkey = ws_customer_sk AND ws_sold_date_sk = d_date_sk AND d_year = 1994) ORDER BY c_custkey;
-- customers whose web sales grow faster
WITH year_total AS (SELECT ss_customer_sk AS customer_id, d_year AS dyear, sum(ss_ext_sales_price) AS total, 's' AS sale_type FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY ss_customer_sk, d_year UNION ALL SELECT ws_customer_sk, d_year, sum(ws_sales_price * ws_quantity), 'w' FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk GROUP BY ws_customer_sk, d_year) SELECT t_s_second.customer_id FROM year_total t_s_first, year_total t_s_second, year_total t_w_first, year_total t_w_second WHERE t_s_second.customer_id = t_s_first.customer_id AND t_s_first.customer_id = t_w_second.customer_id AND t_s_first.customer_id = t_w_first.customer_id AND t_s_first.sale_type = 's' AND t_w_first.sale_type = 'w' AND t_s_second.sale_type = 's' AND t_w_second.sale_type = 'w' AND t_s_first.dyear = 1994 AND t_s_second.dyear = 1995 AND t_w_first.dyear = 1994 AND t_w_second.dyear = 1995 AND t_s_first.total > 0 AND t_w_first.total > 0 AND CASE WHEN t_w_first.total > 0 THEN t_w_second.total / t_w_first.total ELSE 0.0 END > CASE WHEN t_s_first.total > 0 THEN t_s_second.total / t_s_first.total ELSE 0.0 END ORDER BY t_s_second.customer_id;
-- revenue of an item within its class
SELECT i_item_id, i_class, sum(ws_sales_price) AS itemrevenue, sum(ws_sales_price) * 100 / sum(sum(ws_sales_price)) OVER (PARTITION BY i_class) AS revenueratio FROM web_sales JOIN item ON ws_item_sk = i_item_sk GROUP BY i_item_id, i_class ORDER BY i_class, i_item_id;
-- many conditions in ORs
SELECT avg(ss_quantity) AS q, avg(ss_sales_price) AS p, sum(ss_net_profit) AS np FROM store_sales, store, item WHERE s_store_sk = ss_store_sk AND i_item_sk = ss_item_sk AND ((i_category = 'Books' AND ss_sales_price BETWEEN 10.00 AND 50.00 AND s_state = 'TN') OR (i_category = 'Music' AND ss_sales_price BETWEEN 50.00 AND 99.00) OR (i_category IS NULL AND s_state IN ('CA', 'TN')));
-- sold in the store, returned, and bought again on the web
SELECT i_item_id, sum(ss_net_profit) AS store_sales_profit, sum(sr_return_amt) AS store_returns_loss, sum(ws_net_profit) AS web_profit FROM store_sales JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk JOIN item ON i_item_sk = ss_item_sk JOIN web_sales ON ws_customer_sk = ss_customer_sk AND ws_item_sk = ss_item_sk GROUP BY i_item_id ORDER BY i_item_id;
-- the best and the worst items
SELECT best.rnk, best.item_sk AS best_item, worst.item_sk AS worst_item FROM (SELECT item_sk, rank() OVER (ORDER BY rank_col DESC, item_sk) AS rnk FROM (SELECT ss_item_sk AS item_sk, avg(ss_net_profit) AS rank_col FROM store_sales GROUP BY ss_item_sk) AS v1) AS best JOIN (SELECT item_sk, rank() OVER (ORDER BY rank_col, item_sk) AS rnk FROM (SELECT ss_item_sk AS item_sk, avg(ss_net_profit) AS rank_col FROM store_sales GROUP BY ss_item_sk) AS v2) AS worst ON best.rnk = worst.rnk WHERE best.rnk < 11 ORDER BY best.rnk;
-- cumulative sales that overtake
WITH web_v1 AS (SELECT ws_item_sk AS item_sk, d_date, sum(sum(ws_sales_price)) OVER (PARTITION BY ws_item_sk ORDER BY d_date ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cume_sales FROM web_sales, date_dim WHERE ws_sold_date_sk = d_date_sk AND d_year = 1994 GROUP BY ws_item_sk, d_date), store_v1 AS (SELECT ss_item_sk AS item_sk, d_date, sum(sum(ss_sales_price)) OVER (PARTITION BY ss_item_sk ORDER BY d_date ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS cume_sales FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk AND d_year = 1994 GROUP BY ss_item_sk, d_date) SELECT web_v1.item_sk, web_v1.d_date, web_v1.cume_sales FROM web_v1 JOIN store_v1 ON web_v1.item_sk = store_v1.item_sk AND store_v1.d_date <= web_v1.d_date GROUP BY web_v1.item_sk, web_v1.d_date, web_v1.cume_sales HAVING web_v1.cume_sales > max(store_v1.cume_sales) ORDER BY 1, 2;
-- all channels by FULL JOIN
SELECT coalesce(s.item_sk, w.item_sk) AS item_sk, s.n AS store_n, w.n AS web_n FROM (SELECT ss_item_sk AS item_sk, count(*) AS n FROM store_sales WHERE ss_quantity > 18 GROUP BY ss_item_sk) AS s FULL OUTER JOIN (SELECT ws_item_sk AS item_sk, count(*) AS n FROM web_sales WHERE ws_quantity > 18 GROUP BY ws_item_sk) AS w ON s.item_sk = w.item_sk ORDER BY 1;
-- not mariadb: has no FULL JOIN
-- monthly sales far from the average
SELECT * FROM (SELECT i_category, d_moy, sum(ss_sales_price) AS sum_sales, avg(sum(ss_sales_price)) OVER (PARTITION BY i_category) AS avg_monthly FROM item, store_sales, date_dim WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND d_year = 1994 GROUP BY i_category, d_moy) AS tmp1 WHERE CASE WHEN avg_monthly > 0 THEN abs(sum_sales - avg_monthly) / avg_monthly ELSE NULL END > 0.1 ORDER BY i_category, d_moy;
-- before and after a day
SELECT s_store_name, sum(CASE WHEN d_date < '1994-12-25' THEN ss_quantity ELSE 0 END) AS sales_before, sum(CASE WHEN d_date >= '1994-12-25' THEN ss_quantity ELSE 0 END) AS sales_after FROM store_sales JOIN store ON s_store_sk = ss_store_sk JOIN date_dim ON d_date_sk = ss_sold_date_sk WHERE d_date BETWEEN '1994-06-01' AND '1995-06-30' GROUP BY s_store_name ORDER BY s_store_name;
-- baskets of many things
SELECT ss_ticket_number, ss_customer_sk, cnt FROM (SELECT ss_ticket_number, ss_customer_sk, count(*) AS cnt FROM store_sales GROUP BY ss_ticket_number, ss_customer_sk) AS dj, customer WHERE ss_customer_sk = c_custkey AND cnt BETWEEN 2 AND 20 ORDER BY cnt DESC, ss_ticket_number, ss_customer_sk;
-- counts of intersections
SELECT count(*) AS n FROM (SELECT DISTINCT c_name, d_date FROM store_sales, date_dim, customer WHERE ss_sold_date_sk = d_date_sk AND ss_customer_sk = c_custkey AND d_year = 1994 INTERSECT SELECT DISTINCT c_name, d_date FROM web_sales, date_dim, customer WHERE ws_sold_date_sk = d_date_sk AND ws_customer_sk = c_custkey AND d_year = 1994) AS hot_cust;
-- what was never sold on the web
SELECT i_item_sk, i_item_id FROM item WHERE i_item_sk NOT IN (SELECT ws_item_sk FROM web_sales WHERE ws_quantity > 15) ORDER BY i_item_sk;
-- top items of each category
SELECT * FROM (SELECT i_category, i_item_sk, sumsales, rank() OVER (PARTITION BY i_category ORDER BY sumsales DESC, i_item_sk) AS rk FROM (SELECT i_category, i_item_sk, sum(coalesce(ss_sales_price * ss_quantity, 0)) AS sumsales FROM store_sales, item WHERE ss_item_sk = i_item_sk GROUP BY i_category, i_item_sk) AS dw1) AS dw2 WHERE rk <= 2 ORDER BY i_category, rk;
-- managers' months
SELECT i_manager_id, d_moy, sum(ss_sales_price) AS sum_sales FROM item JOIN store_sales ON ss_item_sk = i_item_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year = 1995 AND i_category IN ('Books', 'Music') GROUP BY i_manager_id, d_moy ORDER BY i_manager_id, d_moy;
-- sales without a date or a customer
SELECT 'no date' AS missing, count(*) AS n FROM store_sales WHERE ss_sold_date_sk IS NULL UNION ALL SELECT 'no customer', count(*) FROM store_sales WHERE ss_customer_sk IS NULL ORDER BY missing;
-- return rates
SELECT i_category, sum(sr_return_quantity) AS returned, sum(ss_quantity) AS sold, sum(sr_return_quantity) * 1.0 / sum(ss_quantity) AS rate FROM store_sales JOIN item ON i_item_sk = ss_item_sk LEFT JOIN store_returns ON sr_ticket_number = ss_ticket_number AND sr_item_sk = ss_item_sk GROUP BY i_category ORDER BY rate DESC, i_category;
-- weekend and weekday
SELECT CASE WHEN d_day_name IN ('Saturday', 'Sunday') THEN 'weekend' ELSE 'weekday' END AS part_of_week, count(*) AS n, sum(ss_quantity) AS q FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk GROUP BY 1 ORDER BY 1;
-- first purchases
SELECT first_year, count(*) AS customers FROM (SELECT ss_customer_sk, min(d_year) AS first_year FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk WHERE ss_customer_sk IS NOT NULL GROUP BY ss_customer_sk) AS q GROUP BY first_year ORDER BY first_year;
-- who came back
SELECT count(*) AS came_back FROM (SELECT ss_customer_sk FROM store_sales GROUP BY ss_customer_sk HAVING count(DISTINCT ss_ticket_number) >= 2) AS q;
-- bought together
SELECT p.ss_item_sk AS one_item, q.ss_item_sk AS other_item, count(*) AS times FROM store_sales p JOIN store_sales q ON p.ss_ticket_number = q.ss_ticket_number AND p.ss_item_sk < q.ss_item_sk GROUP BY p.ss_item_sk, q.ss_item_sk HAVING count(*) > 1 ORDER BY times DESC, one_item, other_item;
-- a funnel
SELECT sum(CASE WHEN views > 0 THEN 1 ELSE 0 END) AS viewed, sum(CASE WHEN views > 0 AND clicks > 0 THEN 1 ELSE 0 END) AS clicked, sum(CASE WHEN views > 0 AND clicks > 0 AND buys > 0 THEN 1 ELSE 0 END) AS bought FROM (SELECT v_customer, sum(CASE WHEN v_kind = 'view' THEN 1 ELSE 0 END) AS views, sum(CASE WHEN v_kind = 'click' THEN 1 ELSE 0 END) AS clicks, sum(CASE WHEN v_kind = 'buy' THEN 1 ELSE 0 END) AS buys FROM event GROUP BY v_customer) AS q;
-- a histogram
SELECT v_amount / 20 AS bin, count(*) AS n FROM event WHERE v_amount IS NOT NULL GROUP BY v_amount / 20 ORDER BY bin;
-- a cohort table
SELECT c.first_q, d.d_qoy, count(DISTINCT s.ss_customer_sk) AS n FROM store_sales s JOIN date_dim d ON d.d_date_sk = s.ss_sold_date_sk JOIN (SELECT ss_customer_sk AS k, min(d_qoy) AS first_q FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk WHERE d_year = 1994 GROUP BY ss_customer_sk) AS c ON c.k = s.ss_customer_sk WHERE d.d_year = 1994 GROUP BY c.first_q, d.d_qoy ORDER BY 1, 2;
-- an ABC analysis
SELECT i_item_sk, sales, CASE WHEN so_far <= 0.5 * total THEN 'A' WHEN so_far <= 0.8 * total THEN 'B' ELSE 'C' END AS class FROM (SELECT i_item_sk, sales, sum(sales) OVER (ORDER BY sales DESC, i_item_sk ROWS UNBOUNDED PRECEDING) AS so_far, sum(sales) OVER () AS total FROM (SELECT i_item_sk, sum(ss_ext_sales_price) AS sales FROM item JOIN store_sales ON ss_item_sk = i_item_sk GROUP BY i_item_sk) AS p) AS q ORDER BY sales DESC, i_item_sk;
-- nobody's manager
SELECT e_name FROM employee e WHERE NOT EXISTS (SELECT 1 FROM employee r WHERE r.e_manager = e.e_id) ORDER BY e_id;
-- paid more than the manager
SELECT e.e_name, m.e_name AS manager FROM employee e JOIN employee m ON m.e_id = e.e_manager WHERE e.e_salary >= m.e_salary ORDER BY e.e_id;
