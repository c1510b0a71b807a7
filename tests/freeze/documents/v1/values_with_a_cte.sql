-- postgresql
WITH unused AS 
(SELECT customers.id AS id 
FROM customers)
 SELECT v.a, v.b 
FROM (VALUES (%(param_1)s::INTEGER, %(param_2)s::VARCHAR), (%(param_3)s::INTEGER, %(param_4)s::VARCHAR)) AS v (a, b)
