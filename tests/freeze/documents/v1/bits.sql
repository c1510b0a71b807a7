-- postgresql
SELECT sales.orders.id & %(id_1)s::INTEGER AS anon_1, sales.orders.id | %(id_2)s::INTEGER AS anon_2, sales.orders.id # %(id_3)s::INTEGER AS anon_3 
FROM sales.orders
