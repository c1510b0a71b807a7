-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.id > %(least)s::INTEGER
