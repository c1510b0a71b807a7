-- postgresql
SELECT coalesce(customers.parent_id, 0) AS parent_id, coalesce(customers.id + %(id_1)s::INTEGER, 0) AS next 
WHERE least(customers.id, coalesce(customers.parent_id, 0), %(param_1)s::INTEGER) < %(param_2)s::INTEGER
