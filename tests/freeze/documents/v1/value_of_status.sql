-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.status = %(status_1)s
