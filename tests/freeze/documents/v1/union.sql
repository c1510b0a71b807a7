-- postgresql
SELECT customers.id 
FROM customers UNION SELECT sales.orders.id 
FROM sales.orders ORDER BY id 
 LIMIT %(param_1)s::INTEGER OFFSET %(param_2)s::INTEGER
