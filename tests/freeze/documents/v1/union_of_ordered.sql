-- postgresql
SELECT anon_1.id 
FROM (SELECT customers.id AS id 
FROM customers ORDER BY customers.name 
 LIMIT %(param_1)s::INTEGER) AS anon_1 UNION ALL SELECT sales.orders.id 
FROM sales.orders
