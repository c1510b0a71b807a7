-- postgresql
SELECT customers.id, (__[POSTCOMPILE_listed]) AS anon_1 
FROM customers
