-- postgresql
WITH first AS 
(SELECT customers.id AS id 
FROM customers)
 SELECT customers.id 
FROM customers
