-- postgresql
SELECT customers.id 
FROM customers 
WHERE NOT (EXISTS (SELECT * 
FROM sales.orders 
WHERE sales.orders.customer_id = customers.id))
