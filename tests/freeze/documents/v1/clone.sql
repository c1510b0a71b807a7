-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.id = %(y)s::INTEGER
