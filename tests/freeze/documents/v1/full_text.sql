-- postgresql
SELECT sales.orders.id 
FROM sales.orders, customers 
WHERE customers.name @@ plainto_tsquery(%(name_1)s::VARCHAR)
