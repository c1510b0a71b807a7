-- postgresql
SELECT customers.name || %(name_1)s::VARCHAR || customers.name AS anon_1, customers.name || %(name_2)s::VARCHAR AS anon_2 
FROM customers
