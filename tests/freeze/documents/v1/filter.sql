-- postgresql
SELECT count(sales.orders.id) FILTER (WHERE sales.orders.price > %(price_1)s::INTEGER) AS anon_1, sum(sales.orders.price) FILTER (WHERE sales.orders.paid) AS anon_2 
FROM sales.orders
