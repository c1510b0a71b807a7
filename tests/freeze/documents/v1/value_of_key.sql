-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.key = %(key_1)s::UUID
