-- postgresql
SELECT sales.orders.price * %(price_1)s::INTEGER AS double, sales.orders.id 
FROM sales.orders GROUP BY sales.orders.price * %(price_1)s::INTEGER, sales.orders.id ORDER BY double DESC
