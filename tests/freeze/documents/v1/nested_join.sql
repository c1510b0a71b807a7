-- postgresql
SELECT customers.id 
FROM customers JOIN (sales.orders JOIN customers AS buyer ON buyer.id = sales.orders.customer_id) ON true
