-- postgresql
SELECT sales.orders.status 
FROM sales.orders GROUP BY CUBE(sales.orders.status, sales.orders.grade)
