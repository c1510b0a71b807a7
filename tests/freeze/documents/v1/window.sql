-- postgresql
SELECT sales.orders.id, rank() OVER (PARTITION BY sales.orders.customer_id ORDER BY sales.orders.price DESC) AS rank, sum(sales.orders.price) OVER (ORDER BY sales.orders.id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS anon_1 
FROM sales.orders
