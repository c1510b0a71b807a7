-- mysql
SELECT customers.id 
FROM customers 
WHERE MATCH (customers.name) AGAINST (%s IN BOOLEAN MODE)
