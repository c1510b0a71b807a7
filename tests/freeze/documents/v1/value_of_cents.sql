-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.cents = %(cents_1)s::INTEGER
