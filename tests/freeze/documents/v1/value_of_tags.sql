-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.tags = %(tags_1)s::VARCHAR[]
