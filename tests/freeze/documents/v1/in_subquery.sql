-- postgresql
SELECT customers.id 
FROM customers 
WHERE (customers.id NOT IN (SELECT sales.orders.customer_id 
FROM sales.orders))
