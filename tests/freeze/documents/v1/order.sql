-- postgresql
SELECT customers.id, customers.name AS n 
FROM customers ORDER BY n DESC NULLS LAST, customers.id ASC NULLS FIRST, customers.id, lower(customers.name)
