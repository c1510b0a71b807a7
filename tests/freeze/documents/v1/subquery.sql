-- postgresql
SELECT anon_1.n, anon_1.total 
FROM (SELECT sales.orders.customer_id AS customer_id, count(*) AS n, sum(sales.orders.price) AS total 
FROM sales.orders GROUP BY sales.orders.customer_id) AS anon_1 
WHERE anon_1.n > %(n_1)s::INTEGER
