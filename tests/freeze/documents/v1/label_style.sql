-- postgresql
SELECT customers.id, customers.name, customers.parent_id, buyer.id AS id_1, buyer.name AS name_1, buyer.parent_id AS parent_id_1 
FROM customers, customers AS buyer
