-- postgresql
SELECT customers.id, (SELECT max(sales.orders.price) AS max_1 
FROM sales.orders 
WHERE sales.orders.customer_id = customers.id) AS top 
FROM customers
