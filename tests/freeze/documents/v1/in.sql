-- postgresql
SELECT customers.id 
FROM customers 
WHERE customers.id IN (__[POSTCOMPILE_id_1]) AND (customers.name NOT IN (__[POSTCOMPILE_name_1])) AND customers.id IN (__[POSTCOMPILE_ids])
