-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.price = %(price_1)s
