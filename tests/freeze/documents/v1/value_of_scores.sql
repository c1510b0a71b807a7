-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.scores = %(scores_1)s::INTEGER[]
