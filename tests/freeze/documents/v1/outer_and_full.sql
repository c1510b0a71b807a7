-- postgresql
SELECT customers.id 
FROM customers LEFT OUTER JOIN sales.orders ON sales.orders.customer_id = customers.id FULL OUTER JOIN customers AS buyer ON buyer.id = customers.id
