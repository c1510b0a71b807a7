-- postgresql
SELECT sum(sales.orders.price) OVER (ORDER BY sales.orders.id ROWS BETWEEN %(param_1)s::INTEGER PRECEDING AND %(param_2)s::INTEGER FOLLOWING) AS anon_1, sum(sales.orders.price) OVER (ORDER BY sales.orders.id RANGE BETWEEN %(param_3)s::INTEGER PRECEDING AND UNBOUNDED FOLLOWING) AS anon_2, first_value(sales.orders.price) OVER (ORDER BY sales.orders.id GROUPS BETWEEN %(param_4)s::INTEGER FOLLOWING AND %(param_5)s::INTEGER FOLLOWING) AS anon_3 
FROM sales.orders
