-- postgresql
SELECT EXTRACT(year FROM sales.orders.placed_at) AS anon_1, EXTRACT(epoch FROM sales.orders.took) AS anon_2 
FROM sales.orders
