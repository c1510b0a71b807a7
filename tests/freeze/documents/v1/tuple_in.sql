-- postgresql
SELECT customers.id 
FROM customers 
WHERE (customers.id, customers.name) IN (__[POSTCOMPILE_param_1])
