-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.took = %(took_1)s
