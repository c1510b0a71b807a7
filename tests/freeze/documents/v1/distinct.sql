-- postgresql
SELECT DISTINCT customers.name 
FROM customers
