-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.placed_at = %(placed_at_1)s::TIMESTAMP WITH TIME ZONE
