-- postgresql
SELECT REGEXP_REPLACE(customers.name, %(name_1)s::VARCHAR, %(name_2)s::VARCHAR) AS anon_1 
FROM customers 
WHERE customers.name ~ %(name_3)s::VARCHAR
