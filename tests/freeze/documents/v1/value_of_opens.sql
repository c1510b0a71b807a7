-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.opens = %(opens_1)s::TIME WITHOUT TIME ZONE
