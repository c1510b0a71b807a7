-- postgresql
SELECT ALL customers.id 
FROM customers
