-- postgresql
SELECT DISTINCT ON (customers.name) customers.id, customers.name, customers.parent_id 
FROM customers
