-- postgresql
SELECT string_agg(customers.name, %(string_agg_2)s::VARCHAR ORDER BY customers.id DESC) AS string_agg_1 
FROM customers
