-- postgresql
SELECT sales.orders.tags[%(tags_1)s::INTEGER] AS anon_1, sales.orders.scores[%(scores_1)s::INTEGER:%(scores_2)s::INTEGER] AS anon_2, ARRAY[%(param_1)s::INTEGER, %(param_2)s::INTEGER] AS anon_3 
FROM sales.orders 
WHERE sales.orders.tags @> %(tags_2)s::VARCHAR[] AND sales.orders.tags && %(tags_3)s::VARCHAR[] AND %(param_3)s::INTEGER = ANY (sales.orders.scores)
