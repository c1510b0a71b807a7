-- postgresql
SELECT sales.orders.status, sales.orders.grade, count(*) AS count_1 
FROM sales.orders GROUP BY ROLLUP(sales.orders.status, sales.orders.grade) 
HAVING count(*) > %(count_2)s::INTEGER
