-- postgresql
SELECT buyer.name, customers_1.id 
FROM customers AS buyer JOIN customers AS customers_1 ON buyer.id = customers_1.parent_id
