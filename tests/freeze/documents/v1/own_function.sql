-- postgresql
SELECT upper(customers.name) AS shouted_1, customers.id 
FROM customers ORDER BY upper(customers.name)
