-- postgresql
SELECT customers.id 
FROM customers, sales.orders 
WHERE (customers.name ~* %(name_1)s::VARCHAR) AND (sales.orders.id & %(id_1)s::INTEGER) = %(param_1)s::INTEGER
