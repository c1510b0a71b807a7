-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.id = %(x)s::INTEGER
