-- postgresql
SELECT customers.id 
FROM customers 
WHERE (customers.id = %(id_1)s::INTEGER OR customers.id > %(id_2)s::INTEGER AND NOT (customers.id < %(id_3)s::INTEGER OR customers.name = %(name_1)s::VARCHAR)) AND customers.name IS NOT NULL
