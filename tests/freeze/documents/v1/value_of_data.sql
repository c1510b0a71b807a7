-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.data = %(data_1)s::JSONB
