-- postgresql
SELECT 1 
FROM customers 
WHERE id = %(i)s::INTEGER
