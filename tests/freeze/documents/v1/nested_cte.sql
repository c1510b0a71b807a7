-- postgresql
WITH first AS 
(SELECT customers.id AS id 
FROM customers), 
"outer" AS 
(SELECT first.id AS id 
FROM first)
 SELECT "outer".id 
FROM "outer"
