-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.grade = %(grade_1)s
