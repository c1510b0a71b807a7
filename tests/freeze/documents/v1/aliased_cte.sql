-- postgresql
WITH first AS 
(SELECT customers.id AS id 
FROM customers)
 SELECT f1.id 
FROM first AS f1
