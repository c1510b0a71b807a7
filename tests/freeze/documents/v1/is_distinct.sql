-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.name IS DISTINCT FROM %(name_1)s::VARCHAR
