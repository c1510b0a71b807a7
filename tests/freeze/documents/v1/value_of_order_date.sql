-- postgresql
SELECT sales.orders.id 
FROM sales.orders 
WHERE sales.orders."order date" = %(order_date_1)s::DATE
