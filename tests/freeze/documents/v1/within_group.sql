-- postgresql
SELECT percentile_cont(%(percentile_cont_2)s) WITHIN GROUP (ORDER BY sales.orders.price) AS percentile_cont_1, mode() WITHIN GROUP (ORDER BY sales.orders.status DESC) AS mode_1 
FROM sales.orders
