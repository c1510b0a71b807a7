-- postgresql
SELECT EXISTS (SELECT sales.orders.id 
FROM sales.orders) AS "any"
