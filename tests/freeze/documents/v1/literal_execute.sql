-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.id = __[POSTCOMPILE_x]
