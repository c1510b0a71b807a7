-- postgresql
SELECT anon_1.key 
FROM json_each(sales.orders.notes) AS anon_1(key, value)
