-- postgresql
SELECT my_pure(customers.id, %(my_pure_1)s::INTEGER) AS anon_1 
FROM customers
