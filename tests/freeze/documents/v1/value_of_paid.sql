-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.paid = true
