-- postgresql
SELECT sales.orders.status 
FROM sales.orders GROUP BY GROUPING SETS((sales.orders.status, sales.orders.grade), (sales.orders.status))
