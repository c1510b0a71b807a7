-- postgresql
SELECT customers.id, customers.name, customers.parent_id 
FROM customers FOR UPDATE OF customers NOWAIT
