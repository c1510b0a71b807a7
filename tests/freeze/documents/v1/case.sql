-- postgresql
SELECT CASE WHEN (sales.orders.price > %(price_1)s::INTEGER) THEN %(param_1)s::VARCHAR WHEN (sales.orders.price > %(price_2)s::INTEGER) THEN sales.orders.grade END AS anon_1, CASE sales.orders.status WHEN %(param_2)s THEN %(param_3)s::INTEGER WHEN %(param_4)s THEN %(param_5)s::INTEGER ELSE %(param_6)s::INTEGER END AS anon_2 
FROM sales.orders
