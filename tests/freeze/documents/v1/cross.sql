-- postgresql
SELECT customers.id, buyer.id AS id_1 
FROM customers, customers AS buyer
