-- postgresql
SELECT coalesce(sales.orders.price, %(coalesce_2)s::INTEGER) AS coalesce_1, lower(customers.name) AS lower_1, now() AS now_1, CURRENT_DATE AS current_date_1, my_pure(%(my_pure_2)s::INTEGER) AS my_pure_1, shop.price(%(price_2)s::INTEGER) AS price_1 
FROM sales.orders, customers
