-- postgresql
SELECT u.id 
FROM (SELECT customers.id AS id 
FROM customers UNION ALL SELECT sales.orders.id AS id 
FROM sales.orders) AS u
