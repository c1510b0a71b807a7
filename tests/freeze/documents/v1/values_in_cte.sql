-- postgresql
WITH c(a) AS 
(VALUES (%(param_1)s::INTEGER))
 SELECT c.a 
FROM c
