-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders.price BETWEEN %(price_1)s::INTEGER AND %(price_2)s::INTEGER AND sales.orders.id NOT BETWEEN %(id_1)s::INTEGER AND %(id_2)s::INTEGER AND sales.orders.id BETWEEN SYMMETRIC %(id_3)s::INTEGER AND %(id_4)s::INTEGER
