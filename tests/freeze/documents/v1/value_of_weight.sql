-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.weight = %(weight_1)s
