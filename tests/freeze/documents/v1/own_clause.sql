-- postgresql
SELECT ALL customers.id, count(*) OVER () AS anon_1 
FROM customers 
WHERE customers.id > %(id_1)s::INTEGER 
WINDOW w AS (PARTITION BY customers.parent_id)
