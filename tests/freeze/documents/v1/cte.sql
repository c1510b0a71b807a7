-- postgresql
WITH first AS 
(SELECT customers.id AS id 
FROM customers), 
second AS 
(SELECT first.id AS id 
FROM first 
WHERE first.id > %(id_1)s::INTEGER)
 SELECT second.id 
FROM second JOIN first ON first.id = second.id
