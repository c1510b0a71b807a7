-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.photo = %(photo_1)s
