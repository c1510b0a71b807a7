-- postgresql
SELECT customers.id, customers.name 
FROM customers
