-- postgresql
SELECT NULL AS anon_1, true AS anon_2, %(param_1)s::INTEGER AS anon_3, %(param_2)s::VARCHAR AS anon_4, 1 
FROM sales.orders 
WHERE sales.orders.paid
