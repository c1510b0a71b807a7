-- postgresql
SELECT customers.name, sales.orders.price 
FROM customers JOIN sales.orders ON customers.id = sales.orders.customer_id
