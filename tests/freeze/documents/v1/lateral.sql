-- postgresql
SELECT customers.id, latest.price 
FROM customers JOIN LATERAL (SELECT sales.orders.price AS price 
FROM sales.orders 
WHERE sales.orders.customer_id = customers.id ORDER BY sales.orders."order date" DESC 
 LIMIT %(param_1)s::INTEGER) AS latest ON true
