-- postgresql
SELECT customers.name COLLATE "C" AS anon_1 
FROM customers ORDER BY customers.name COLLATE "de-x-icu"
