-- postgresql
SELECT pairs.key 
FROM json_each(sales.orders.notes) AS pairs
