-- postgresql
SELECT customers.id 
FROM customers JOIN LATERAL (SELECT sales.orders.id AS id 
FROM sales.orders 
WHERE sales.orders.customer_id = customers.id) AS anon_1 ON true
