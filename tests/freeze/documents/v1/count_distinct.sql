-- postgresql
SELECT count(DISTINCT customers.name) AS count_1 
FROM customers
