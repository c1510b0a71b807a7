-- postgresql
SELECT (sales.orders.price + %(price_1)s::INTEGER) * %(param_1)s::INTEGER - sales.orders.weight / CAST(%(weight_1)s::INTEGER AS NUMERIC) AS anon_1, sales.orders.id %% %(id_1)s::INTEGER AS anon_2, -sales.orders.price, FLOOR(sales.orders.price / %(price_2)s::INTEGER) AS anon_3 
FROM sales.orders
