-- postgresql
WITH first AS 
(SELECT customers.id AS id 
FROM customers)
 SELECT first.id 
FROM first
