-- postgresql
WITH RECURSIVE tree(id, depth) AS 
(SELECT customers.id AS id, %(param_1)s::INTEGER AS depth 
FROM customers 
WHERE customers.parent_id IS NULL UNION ALL SELECT customers.id AS id, tree.depth + %(depth_1)s::INTEGER AS anon_1 
FROM customers JOIN tree ON tree.id = customers.parent_id)
 SELECT tree.id, tree.depth 
FROM tree ORDER BY tree.depth
