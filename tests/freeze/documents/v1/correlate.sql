-- postgresql
SELECT customers.id 
FROM customers 
WHERE EXISTS (SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.customer_id = customers.id)
