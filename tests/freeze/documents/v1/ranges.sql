-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.valid @> %(valid_1)s::TIMESTAMP WITH TIME ZONE
