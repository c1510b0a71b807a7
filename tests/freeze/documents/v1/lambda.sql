-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.name != %(name_1)s::VARCHAR
